"""The client of redis-py that a store makes for itself."""

from typing import Any

import msgspec
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from typing_extensions import override

__all__ = ["Settings", "make_client"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server is and how to talk to it; ``timeout`` is in seconds."""

    host: str = "localhost"
    port: int = 6379
    db: int = 0
    username: str | None = None
    password: str | None = None
    timeout: float = 5.0
    max_connections: int = 8
    tls: bool = False
    tls_options: dict[str, str] = {}

    @override
    def __str__(self) -> str:
        return f"Redis at {self.host}:{self.port}"

    @override
    def __repr__(self) -> str:
        return f"Settings({self})"


def make_client(settings: Settings) -> Any:  # noqa: ANN401 - redis-py's is generic in its replies
    """Return a client; it connects with its first command.

    It repeats nothing by itself: who sends a command knows whether that is safe.
    """
    options: dict[str, Any] = dict(settings.tls_options)
    if "ssl_check_hostname" in options:
        options["ssl_check_hostname"] = options["ssl_check_hostname"] != "no"
    return Redis(
        host=settings.host,
        port=settings.port,
        db=settings.db,
        username=settings.username,
        password=settings.password,
        socket_timeout=settings.timeout,
        socket_connect_timeout=settings.timeout,
        max_connections=settings.max_connections,
        ssl=settings.tls,
        retry=Retry(NoBackoff(), 0),
        client_name="durably",
        **options,
    )
