"""Storage URLs, taken apart the same way for every backend."""

import difflib
from collections.abc import Collection
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

import msgspec

from durably._typing import override
from durably.errors import InvalidUrl

__all__ = ["StorageUrl", "closest", "is_secret", "parse_url"]

_SECRET_WORDS = ("auth", "credential", "key", "pass", "pwd", "secret", "signature", "token")
_AS_IS = "/*"
"""What is shown without percent-encoding: the parts of a path, and what hides a secret."""


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

    def check_options(self, known: Collection[str], *, variants: Collection[str] = ()) -> None:
        """Refuse an option, or a variant after ``+`` in the scheme, that the backend does not know.

        Raises:
            InvalidUrl: there is one; the message suggests what may have been meant.
        """
        backend, plus, variant = self.scheme.partition("+")
        if plus and variant not in variants:
            raise InvalidUrl(
                f"{backend}:// has no variant {variant!r}",
                hint=f"It knows: {', '.join(sorted(variants)) or 'none'}",
            )
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
        user = "" if self.username is None else quote(self.username, safe="*")
        secret = "" if self.password is None else ":***"
        at = "@" if user or secret else ""
        port = "" if self.port is None else f":{self.port}"
        options = "&".join(
            f"{name}={'***' if is_secret(name) else quote(value, safe=_AS_IS)}"
            for name, value in self.options.items()
        )
        query = f"?{options}" if options else ""
        path = quote(self.path, safe=_AS_IS)
        return f"{self.scheme}://{user}{secret}{at}{self.host}{port}{path}{query}"

    @override
    def __repr__(self) -> str:
        return f"StorageUrl({str(self)!r})"

    @override
    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("url", str(self))]


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
    parts = _parts(url)
    if parts is None:
        raise InvalidUrl("the URL cannot be read: check its host and its options")
    if not parts.port_is_legal:
        raise InvalidUrl("the URL cannot be read: its port is no number from 0 to 65535")
    if not parts.scheme:
        raise InvalidUrl("a scheme is made of letters, digits, '.', '-' and '+'")
    if len(dict(parts.pairs)) < len(parts.pairs):
        raise InvalidUrl("an option is given twice")
    if parts.fragment:
        raise InvalidUrl("a storage URL has no #fragment", hint="Write # in a path as %23")
    return StorageUrl(
        scheme=parts.scheme,
        username=parts.username,
        password=parts.password,
        host=parts.host,
        port=parts.port,
        path=parts.path,
        options=dict(parts.pairs),
    )


class _Parts(msgspec.Struct):
    scheme: str
    username: str | None
    password: str | None
    host: str
    port: int | None
    port_is_legal: bool
    path: str
    pairs: list[tuple[str, str]]
    fragment: str


def _parts(url: str) -> _Parts | None:
    """Return the decoded parts of a URL, None for one that cannot be read.

    The standard library's own words are not chained to ours: they may repeat a password.
    """
    try:
        split = urlsplit(url)
        pairs = parse_qsl(
            split.query, keep_blank_values=True, strict_parsing=bool(split.query), errors="strict"
        )
        port_is_legal = _has_legal_port(split)
        return _Parts(
            scheme=split.scheme,
            username=None if split.username is None else _decoded(split.username),
            password=None if split.password is None else _decoded(split.password),
            host=_decoded(_host(split)),
            port=split.port if port_is_legal else None,
            port_is_legal=port_is_legal,
            path=_decoded(split.path),
            pairs=pairs,
            fragment=split.fragment,
        )
    except ValueError:
        return None


def _has_legal_port(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port >= 0
    except ValueError:
        return False


def _decoded(text: str) -> str:
    return unquote(text, errors="strict")


def _host(parts: SplitResult) -> str:
    """Return the host as it was written; ``hostname`` would fold its case."""
    host = parts.netloc.rpartition("@")[2]
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


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
