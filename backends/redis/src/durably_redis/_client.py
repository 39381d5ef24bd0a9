"""The client of redis-py that a store makes for itself."""

from typing import Any

import msgspec
import redis
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from typing_extensions import override

from durably import InvalidUrl

__all__ = ["Settings", "check_client", "check_timeout", "make_client"]

MAX_TIMEOUT = 3600
MAX_CONNECTIONS = 1000


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server is and how to talk to it.

    ``timeout`` is how many seconds an operation takes at most, its repetitions included. Of at
    most ``max_connections`` the first carries changes and short reads, the others whole logs;
    calls that wait for one are folded, so that few are enough. ``tls_options`` are those of
    redis-py named ``ssl_ca_certs``, ``ssl_certfile``, ``ssl_keyfile`` (files), and
    ``ssl_check_hostname``, "yes" or "no".

    Raises:
        InvalidUrl: a time-out, a number of connections or an option is out of its range.
    """

    host: str = "localhost"
    port: int = 6379
    db: int = 0
    username: str | None = None
    password: str | None = None
    timeout: float = 5.0
    max_connections: int = 3
    tls: bool = False
    tls_options: dict[str, str] = {}

    def __post_init__(self) -> None:
        check_timeout(self.timeout)
        if not 1 <= self.max_connections <= MAX_CONNECTIONS:
            raise InvalidUrl(f"max_connections must be from 1 to {MAX_CONNECTIONS}")
        if self.tls_options.get("ssl_check_hostname", "yes") not in {"yes", "no"}:
            raise InvalidUrl("ssl_check_hostname must be yes or no")

    @override
    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"Redis at {host}:{self.port}"

    @override
    def __repr__(self) -> str:
        return f"Settings({self})"

    @override
    def __rich_repr__(self) -> list[Any]:
        return [str(self)]


def check_timeout(seconds: float) -> None:
    """Refuse a time-out that is none.

    Raises:
        InvalidUrl: it is not above 0, or too long.
    """
    if not 0 < seconds <= MAX_TIMEOUT:
        raise InvalidUrl(f"timeout must be above 0, and at most {MAX_TIMEOUT} seconds")


def check_client(client: Any) -> None:  # noqa: ANN401 - whatever was given
    """Refuse a client that blocks.

    Raises:
        TypeError: it is one of ``redis``, not of ``redis.asyncio``.
    """
    if isinstance(client, (redis.Redis, redis.RedisCluster)):
        raise TypeError("the client must be one of redis.asyncio, not a blocking one of redis")


def make_client(settings: Settings) -> Any:  # noqa: ANN401 - redis-py's is generic in its replies
    """Return a client; it connects with its first command.

    It repeats nothing by itself: who sends a command knows whether that is safe. A connection
    that was cut without a word is given up after half of the time-out, so that another can be
    tried in the other half.
    """
    options: dict[str, Any] = dict(settings.tls_options)
    if "ssl_check_hostname" in options:
        options["ssl_check_hostname"] = options["ssl_check_hostname"] == "yes"
    return Redis(
        host=settings.host,
        port=settings.port,
        db=settings.db,
        username=settings.username,
        password=settings.password,
        socket_timeout=settings.timeout / 2,
        socket_connect_timeout=settings.timeout / 2,
        max_connections=settings.max_connections,
        ssl=settings.tls,
        retry=Retry(NoBackoff(), 0),
        client_name="durably",
        **options,
    )
