"""The Redis and Valkey backend of durably: ``redis://`` and ``rediss://``.

Its names are imported when they are asked for: to describe a backend must not import its driver.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durably_redis._client import Settings
    from durably_redis._store import RedisLogStore

__all__ = ["RedisLogStore", "Settings"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any name of the package
    if name == "RedisLogStore":
        from durably_redis._store import RedisLogStore  # noqa: PLC0415 - see above

        return RedisLogStore
    if name == "Settings":
        from durably_redis._client import Settings  # noqa: PLC0415 - see above

        return Settings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
