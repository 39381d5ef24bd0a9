"""``sqlite://``, described without importing aiosqlite."""

from durably import Capabilities, Durability, Writers
from durably.plugins import CONTRACT, BackendSpec, hookimpl

__all__ = ["durably_backends"]


@hookimpl
def durably_backends() -> list[BackendSpec]:
    """Describe the SQLite backend, as it is with a file and its default settings."""
    return [
        BackendSpec(
            name="sqlite",
            schemes=("sqlite",),
            open="durably_sqlite._url:open_url",
            contract=CONTRACT,
            requires=(("aiosqlite", "aiosqlite>=0.22.1,<0.23"),),
            capabilities=Capabilities(durability=Durability.POWER_LOSS, writers=Writers.ONE_HOST),
            read_options=(("create", "never"),),
            place="durably_sqlite.testing:SQLitePlace",
        )
    ]
