"""What durably reads to learn of this backend; it imports nothing that may be missing."""

from durably import Capabilities, Durability, Writers
from durably.plugins import BackendSpec, hookimpl

__all__ = ["durably_backends"]


@hookimpl
def durably_backends() -> list[BackendSpec]:
    """Describe the backend."""
    return [
        BackendSpec(
            name="folder",
            schemes=("folder",),
            open="durably_folder:open_url",
            contract=(1, 0),
            capabilities=Capabilities(durability=Durability.POWER_LOSS, writers=Writers.ONE_HOST),
            place="durably_folder.testing:FolderPlace",
        )
    ]
