"""``s3://``, described without importing boto3."""

from durably import Capabilities, Durability, Writers
from durably.plugins import CONTRACT, BackendSpec, hookimpl

__all__ = ["durably_backends"]


@hookimpl
def durably_backends() -> list[BackendSpec]:
    """Describe the S3 backend."""
    return [
        BackendSpec(
            name="s3",
            schemes=("s3",),
            open="durably_s3._url:open_url",
            contract=CONTRACT,
            requires=(("boto3", "boto3>=1.40,<2"),),
            capabilities=Capabilities(durability=Durability.POWER_LOSS, writers=Writers.MANY_HOSTS),
            place="durably_s3.testing:S3Place",
        )
    ]
