"""``redis://`` and ``rediss://``, described without importing redis-py."""

from durably import Capabilities, Durability, Writers
from durably.plugins import CONTRACT, BackendSpec, hookimpl

__all__ = ["durably_backends"]


@hookimpl
def durably_backends() -> list[BackendSpec]:
    """Describe the Redis backend, as it is whatever the server's settings."""
    return [
        BackendSpec(
            name="redis",
            schemes=("redis", "rediss"),
            open="durably_redis._url:open_url",
            contract=CONTRACT,
            requires=(("redis", "redis>=8,<9"),),
            capabilities=Capabilities(
                durability=Durability.PROCESS_DEATH, writers=Writers.MANY_HOSTS
            ),
        )
    ]
