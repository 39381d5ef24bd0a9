"""``redis:`` and ``rediss:`` URLs."""

import re
from collections.abc import Callable
from typing import TypeVar

from durably import InvalidUrl
from durably.urls import StorageUrl
from durably_redis._client import Settings
from durably_redis._store import RedisLogStore

__all__ = ["open_url"]

T = TypeVar("T", int, float)

_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname")
_OPTIONS = {"namespace", "ttl", "timeout", "max_connections"}
_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)(ms|s|m|h|d)?", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def open_url(url: StorageUrl) -> RedisLogStore:
    """Return the log store of a URL: ``redis://user:password@host:6379/0``, ``rediss://`` by TLS.

    Options: ``namespace``; ``ttl``, how long a log lives after its last change, such as ``30d``,
    ``12h``, ``90s``; ``timeout`` in seconds; ``max_connections``; and with ``rediss://`` those of
    redis-py named ``ssl_ca_certs``, ``ssl_certfile``, ``ssl_keyfile``, ``ssl_check_hostname``.

    Raises:
        InvalidUrl: a part of it cannot be read.
    """
    tls = url.scheme == "rediss"
    url.check_options({*_OPTIONS, *(_TLS if tls else ())})
    settings = Settings(
        host=url.host or "localhost",
        port=url.port or 6379,
        db=_database(url.path),
        username=url.username or None,
        password=url.password,
        timeout=_number(url, "timeout", float, Settings().timeout),
        max_connections=_number(url, "max_connections", int, Settings().max_connections),
        tls=tls,
        tls_options={name: url.options[name] for name in _TLS if name in url.options},
    )
    return RedisLogStore(
        settings, namespace=url.options.get("namespace", ""), ttl=_duration(url.options.get("ttl"))
    )


def _database(path: str) -> int:
    number = path.strip("/") or "0"
    if not number.isascii() or not number.isdigit() or len(number) > 5:  # noqa: PLR2004 - digits
        raise InvalidUrl(
            "the path of a redis:// URL is the number of a database",
            hint="Write redis://host:6379/0",
        )
    return int(number)


def _number(url: StorageUrl, name: str, kind: Callable[[str], T], default: T) -> T:
    text = url.options.get(name)
    if text is None:
        return default
    try:
        return kind(text)
    except ValueError:
        raise InvalidUrl(f"{name} must be a number") from None


def _duration(text: str | None) -> float | None:
    if text is None:
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InvalidUrl("ttl must be a duration such as 30d, 12h, 15m, 90s or 500ms")
    return float(found[1]) * _SECONDS[found[2] or "s"]
