"""Storage URLs, taken apart the same way for every backend."""

import difflib
from collections.abc import Collection
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

import msgspec

from durably._typing import override
from durably.errors import InvalidUrl

__all__ = ["StorageUrl", "closest", "is_secret", "parse_url"]

_SECRET_WORDS = ("password", "secret", "token", "key")


class StorageUrl(msgspec.Struct, frozen=True, kw_only=True):
    """A storage URL taken apart; every part is percent-decoded.

    Its text and repr show neither its password nor options with secret names.
    """

    scheme: str
    username: str | None = None
    password: str | None = None
    host: str = ""
    port: int | None = None
    path: str = ""
    options: dict[str, str] = {}

    def check_options(self, known: Collection[str]) -> None:
        """Refuse an option that the backend does not know.

        Raises:
            InvalidUrl: there is one; the message suggests what may have been meant.
        """
        for name in self.options:
            if name not in known:
                guess = closest(name, known)
                raise InvalidUrl(
                    f"{self.scheme}:// has no option {name!r}"
                    f"{f', did you mean {guess!r}?' if guess else ''}",
                    hint=f"It knows: {', '.join(sorted(known))}",
                )

    @override
    def __str__(self) -> str:
        user = "" if self.username is None else quote(self.username, safe="")
        secret = "" if self.password is None else ":***"
        at = "@" if user or secret else ""
        port = "" if self.port is None else f":{self.port}"
        options = "&".join(
            f"{name}={'***' if is_secret(name) else quote(value)}"
            for name, value in self.options.items()
        )
        query = f"?{options}" if options else ""
        return f"{self.scheme}://{user}{secret}{at}{self.host}{port}{quote(self.path)}{query}"

    @override
    def __repr__(self) -> str:
        return f"StorageUrl({str(self)!r})"


def is_secret(name: str) -> bool:
    """Whether an option of this name is not to be shown."""
    return any(word in name.lower() for word in _SECRET_WORDS)


def closest(word: str, known: Collection[str]) -> str | None:
    """Return the known word that may have been meant."""
    found = difflib.get_close_matches(word, sorted(known), n=1)
    return found[0] if found else None


def parse_url(url: str) -> StorageUrl:
    """Take a storage URL apart.

    Raises:
        InvalidUrl: it has no scheme, gives an option twice or without a value, has a fragment, or
            is a path; the message says what to write instead.
    """
    _check_text(url)
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(
            parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), errors="strict"
        )
        decoded = [
            None if part is None else unquote(part, errors="strict")
            for part in (parts.username, parts.password, _host(parts), parts.path)
        ]
        port = parts.port
    except ValueError:  # its text may repeat a password
        raise InvalidUrl("the URL cannot be read: check its host and its options") from None
    if len(dict(pairs)) < len(pairs):
        raise InvalidUrl("an option is given twice")
    if parts.fragment:
        raise InvalidUrl("a storage URL has no #fragment", hint="Write # in a path as %23")
    username, password, host, path = decoded
    return StorageUrl(
        scheme=parts.scheme,
        username=username,
        password=password,
        host=host or "",
        port=port,
        path=path or "",
        options=dict(pairs),
    )


def _host(parts: SplitResult) -> str:
    """Return the host as it was written; ``hostname`` would fold its case."""
    host = parts.netloc.rpartition("@")[2]
    if parts.port is not None:
        host = host.rpartition(":")[0]
    return host.removeprefix("[").removesuffix("]")


def _check_text(url: str) -> None:
    if type(url) is not str:
        raise InvalidUrl(f"a storage URL is text, not {type(url).__name__}")
    if url != url.strip() or not url.isprintable():
        raise InvalidUrl(
            "a storage URL has no blanks around it and no control characters",
            hint="Percent-encode them where they are meant",
        )
    scheme, colon, rest = url.partition(":")
    if colon and len(scheme) == 1:
        raise InvalidUrl(
            f"{scheme}: is no scheme, this looks like a path",
            hint="For an SQLite file write sqlite:///C:/folder/file.db",
        )
    if not colon or not rest.startswith("//"):
        raise InvalidUrl(
            "a storage URL starts with a scheme, such as sqlite:// or memory://",
            hint="For an SQLite file write sqlite:///relative.db or sqlite:////absolute.db",
        )
