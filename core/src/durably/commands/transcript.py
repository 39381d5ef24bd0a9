"""A conversation as a person reads it: a heading for each entry, and its content."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from durably.commands.output import plain
from durably.entries import (
    AssistantTextEntry,
    Content,
    CustomEntry,
    Entry,
    FilePart,
    ImagePart,
    InputEntry,
    Part,
    ReasoningEntry,
    TextPart,
    ToolCallEntry,
    ToolResultEntry,
)

__all__ = ["Said", "transcript"]


class Said(msgspec.Struct, frozen=True):
    """One entry: who or what, and what was said. Both are as stored, not yet harmless."""

    heading: str
    text: str


def transcript(entries: Iterable[Entry]) -> Iterator[Said]:
    """Yield what was said, in order."""
    names: dict[str, str] = {}
    for entry in entries:
        if isinstance(entry, ToolCallEntry):
            names[entry.call_id] = entry.name
        yield _said(entry, names)


def _said(entry: Entry, names: dict[str, str]) -> Said:
    match entry:
        case InputEntry():
            return Said(entry.role, _text(entry.content))
        case AssistantTextEntry():
            return Said("assistant", _text(entry.content))
        case ReasoningEntry():
            return Said(f"reasoning of {entry.provider}", plain(entry.metadata))
        case ToolCallEntry():
            return Said(f"call {entry.name} [{entry.call_id}]", entry.arguments)
        case ToolResultEntry():
            return Said(_result_heading(entry, names), _result(entry))
        case CustomEntry():
            return Said(f"custom {entry.kind}", plain(entry.data))


def _result_heading(entry: ToolResultEntry, names: dict[str, str]) -> str:
    name = names.get(entry.call_id, "")
    error = ", an error" if entry.is_error else ""
    trimmed = f", {entry.trimmed_chars} characters trimmed" if entry.trimmed_chars else ""
    return f"result {name}{' ' if name else ''}[{entry.call_id}]{error}{trimmed}"


def _result(entry: ToolResultEntry) -> str:
    others = [part for part in entry.parts or () if not isinstance(part, TextPart)]
    return "\n".join([entry.output, *map(_part, others)])


def _text(content: Content) -> str:
    return content if isinstance(content, str) else _parts(content)


def _parts(parts: Sequence[Part]) -> str:
    return "\n".join(map(_part, parts))


def _part(part: Part) -> str:
    match part:
        case TextPart():
            return part.text
        case ImagePart():
            return f"(image{_where(part)})"
        case FilePart():
            name = "" if part.name is None else f" {part.name}"
            return f"(file{name}{_where(part)})"


def _where(part: ImagePart | FilePart) -> str:
    media_type = "" if part.media_type is None else f", {part.media_type}"
    url = "" if part.url is None else f", {part.url}"
    data = "" if part.data is None else f", {len(part.data)} characters of base64"
    return f"{media_type}{url}{data}"
