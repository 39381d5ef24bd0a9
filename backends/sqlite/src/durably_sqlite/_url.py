"""``sqlite:`` URLs."""

from durably import InvalidUrl
from durably.urls import StorageUrl
from durably_sqlite._store import SQLiteLogStore

__all__ = ["open_url"]

_SETTINGS = ("namespace", "journal_mode", "synchronous", "compression", "backup", "create")


def open_url(url: StorageUrl) -> SQLiteLogStore:
    """Return the log store of a URL.

    ``sqlite:///relative.db``, ``sqlite:////absolute.db``; ``sqlite://`` is private in memory and
    ``sqlite://?name=x`` shared in the process. Options: ``namespace``, ``journal_mode``,
    ``synchronous``, ``compression``, ``backup``, ``create``, and ``busy_timeout`` in seconds.

    Raises:
        InvalidUrl: the URL has a host, or an option that cannot be read.
    """
    url.check_options({*_SETTINGS, "busy_timeout", "name"})
    if url.host:
        raise InvalidUrl(
            "this sqlite:// URL has a host, and a file has none",
            hint="Write sqlite:///relative.db, or sqlite:////absolute.db with four slashes",
        )
    if url.path == "/":
        raise InvalidUrl(
            "this sqlite:// URL names no file",
            hint="Write sqlite:///file.db, or sqlite:// for a database in memory",
        )
    path = url.path.removeprefix("/")
    name = url.options.get("name")
    settings = {key: url.options[key] for key in _SETTINGS if key in url.options}
    return SQLiteLogStore(
        path or None, name=name, busy_timeout=_busy_timeout(url.options), **settings
    )


def _busy_timeout(options: dict[str, str]) -> float:
    try:
        return float(options.get("busy_timeout", "10"))
    except ValueError:
        raise InvalidUrl("busy_timeout must be a number of seconds") from None
