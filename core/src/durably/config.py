"""Opening a storage by URL."""

import difflib
import importlib
import time
from collections.abc import Callable, Collection
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from durably.errors import BackendNotInstalled, InvalidUrl, UnknownScheme
from durably.logstore import LogStore
from durably.memory import MemoryLogStore
from durably.storage import Storage

__all__ = ["StorageUrl", "open", "parse_url"]

_BACKENDS = {"sqlite": "durably_sqlite"}
"""Schemes of other distributions, and the module whose ``open_url`` makes their log store."""

_SCHEMES = ("memory", *_BACKENDS)


class StorageUrl(msgspec.Struct, frozen=True, kw_only=True):
    """A storage URL taken apart; ``host``, ``path`` and ``options`` are percent-decoded."""

    scheme: str
    host: str
    path: str
    options: dict[str, str]

    def check_options(self, known: Collection[str]) -> None:
        """Refuse an option that the backend does not know.

        Raises:
            InvalidUrl: there is one; the message suggests what may have been meant.
        """
        for name in self.options:
            if name not in known:
                raise InvalidUrl(
                    f"{self.scheme}:// has no option {name!r}{_suggest(name, known)}",
                    hint=f"It knows: {', '.join(sorted(known))}",
                )


def _suggest(word: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f", did you mean {close[0]!r}?" if close else ""


def parse_url(url: str) -> StorageUrl:
    """Take a storage URL apart.

    Raises:
        InvalidUrl: it has no scheme, gives an option twice or without a value, or has a fragment.
    """
    if type(url) is not str:
        raise InvalidUrl(f"a storage URL is text, not {type(url).__name__}")
    if url != url.strip() or not url.isprintable():
        raise InvalidUrl(
            "a storage URL has no blanks around it and no control characters",
            hint="Percent-encode them where they are meant",
        )
    if "://" not in url:
        raise InvalidUrl(
            "a storage URL starts with a scheme, such as sqlite:// or memory://",
            hint="For an SQLite file write sqlite:///relative.db or sqlite:////absolute.db",
        )
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(
            parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), errors="strict"
        )
        host, path = (unquote(part, errors="strict") for part in (parts.netloc, parts.path))
    except ValueError:  # its text may repeat a password
        raise InvalidUrl("the URL cannot be read: check its host and its options") from None
    options = dict(pairs)
    if len(options) < len(pairs):
        raise InvalidUrl("an option is given twice")
    if parts.fragment:
        raise InvalidUrl("a storage URL has no #fragment", hint="Write # in a path as %23")
    return StorageUrl(scheme=parts.scheme, host=host, path=path, options=options)


def open(url: str, *, clock: Callable[[], float] = time.time) -> Storage:  # noqa: A001 - as documented
    """Return the storage of a URL, to be entered with ``async with``, which connects.

    ``memory://`` is private to the storage, ``memory://name`` shared in the process;
    ``sqlite:///relative.db`` and ``sqlite:////absolute.db`` are files. Every URL takes
    ``?namespace=``: two namespaces share nothing. ``clock`` gives epoch seconds.

    Raises:
        InvalidUrl: the URL or one of its options cannot be read.
        UnknownScheme: no backend answers to its scheme.
        BackendNotInstalled: the backend's distribution is not installed.
    """
    parsed = parse_url(url)
    make = _open_memory if parsed.scheme == "memory" else _backend(parsed.scheme)
    return Storage(make(parsed), clock=clock)


def _backend(scheme: str) -> Callable[[StorageUrl], LogStore]:
    if scheme not in _BACKENDS:
        close = difflib.get_close_matches(scheme, _SCHEMES, n=1)
        raise UnknownScheme(scheme, known=_SCHEMES, suggestion=close[0] if close else None)
    try:
        module = importlib.import_module(_BACKENDS[scheme])
    except ModuleNotFoundError as error:
        if error.name != _BACKENDS[scheme]:
            raise
        raise BackendNotInstalled(scheme, extra=scheme) from error
    make: Callable[[StorageUrl], LogStore] = module.open_url
    return make


def _open_memory(url: StorageUrl) -> LogStore:
    url.check_options({"namespace"})
    if url.path not in ("", "/"):
        raise InvalidUrl("memory:// has no path", hint="Write memory:// or memory://name")
    return MemoryLogStore(url.host or None, namespace=url.options.get("namespace", ""))
