"""Text that others wrote, made fit for a terminal and free of secrets."""

import re
import unicodedata
from urllib.parse import unquote

from durably.urls import is_secret

__all__ = ["block", "masked", "one_line", "sentence"]

_HARMFUL = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
"""Controls, invisible formats (bidirectional ones among them), private and lone surrogates."""

_JOINERS = "\u200c\u200d"
"""What Persian and Indic scripts and joined emoji are written with."""

_AUTHORITY = re.compile(r"(:/+[^\s/?#:@]*):.*@")
_OPTION = re.compile(r"([?&])([^=&\n]+)=([^&\n]*)")


def one_line(text: str) -> str:
    """Return an id or a message as one line; what a terminal would not show is escaped."""
    return _escaped(text, kept="")


def sentence(text: str) -> str:
    """Return a message as one line without secrets, its own line breaks made spaces."""
    return one_line(masked(" ".join(text.split("\n"))))


def block(text: str) -> str:
    """Return content as it reads: its lines and tabs stay, everything harmful is escaped."""
    return _escaped(text.replace("\r\n", "\n"), kept="\n\t" + _JOINERS)


def _escaped(text: str, *, kept: str) -> str:
    return "".join(
        character
        if character in kept or unicodedata.category(character) not in _HARMFUL
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def masked(text: str) -> str:
    """Return a message without the passwords and secret options of the URLs in it."""
    without = _AUTHORITY.sub(r"\1:***@", text)
    return _OPTION.sub(_mask_option, without)


def _mask_option(match: re.Match[str]) -> str:
    mark, name, value = match.groups()
    return f"{mark}{name}={'***' if is_secret(unquote(name)) else value}"
