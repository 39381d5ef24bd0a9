"""What a transcript consists of: entries, and the parts of their content.

An entry is one step of a conversation. ``type`` tells them apart in stored JSON. All are
frozen and keyword-only; a field that a newer version added is ignored by readers.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

__all__ = [
    "ENTRY_TYPES",
    "PART_TYPES",
    "AssistantTextEntry",
    "Content",
    "CustomEntry",
    "Entry",
    "FilePart",
    "ImagePart",
    "InputEntry",
    "JsonObject",
    "JsonValue",
    "Part",
    "ReasoningEntry",
    "TextPart",
    "ToolCallEntry",
    "ToolResultEntry",
    "drop_dangling_tool_calls",
    "pending_tool_calls",
]

JsonValue: TypeAlias = Any
"""None, bool, int, finite float, str, and lists and text-keyed dicts of these."""

JsonObject: TypeAlias = dict[str, JsonValue]


class _Tagged(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", gc=False
):
    pass


class TextPart(_Tagged, frozen=True, kw_only=True, tag="text"):
    """A piece of text."""

    text: str


class ImagePart(_Tagged, frozen=True, kw_only=True, tag="image"):
    """An image, by ``url`` or as base64 text in ``data``."""

    url: str | None = None
    data: str | None = None
    media_type: str | None = None


class FilePart(_Tagged, frozen=True, kw_only=True, tag="file"):
    """A file, by ``url`` or as base64 text in ``data``."""

    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    name: str | None = None


Part: TypeAlias = TextPart | ImagePart | FilePart
Content: TypeAlias = str | Sequence[Part]


class InputEntry(_Tagged, frozen=True, kw_only=True, tag="input"):
    """What was said to the model; ``role`` says by whom, such as ``user`` or ``system``."""

    role: str
    content: Content


class AssistantTextEntry(_Tagged, frozen=True, kw_only=True, tag="assistant_text"):
    """What the model said."""

    content: Content


class ReasoningEntry(_Tagged, frozen=True, kw_only=True, tag="reasoning"):
    """What a provider returns of the model's reasoning, to be sent back to it verbatim."""

    provider: str
    metadata: JsonObject = {}


class ToolCallEntry(_Tagged, frozen=True, kw_only=True, tag="tool_call"):
    """A call the model asked for; ``arguments`` is its text, verbatim, JSON or not."""

    call_id: str
    name: str
    arguments: str = ""


class ToolResultEntry(_Tagged, frozen=True, kw_only=True, tag="tool_result"):
    """What a tool returned for the call of the same ``call_id``.

    ``output`` is what the model sees, ``raw`` the structured value behind it, ``parts`` the
    same in text, images and files. ``trimmed_chars`` counts the characters that trimming took
    from ``output``; it is 0 for an output that is whole.
    """

    call_id: str
    output: str
    is_error: bool = False
    raw: JsonValue = None
    parts: Sequence[Part] | None = None
    trimmed_chars: int = 0


class CustomEntry(_Tagged, frozen=True, kw_only=True, tag="custom"):
    """An application's own entry, named by ``kind``."""

    kind: str
    data: JsonValue = None


Entry: TypeAlias = (
    InputEntry | AssistantTextEntry | ReasoningEntry | ToolCallEntry | ToolResultEntry | CustomEntry
)

ENTRY_TYPES: tuple[type[Entry], ...] = (
    InputEntry,
    AssistantTextEntry,
    ReasoningEntry,
    ToolCallEntry,
    ToolResultEntry,
    CustomEntry,
)
PART_TYPES: tuple[type[Part], ...] = (TextPart, ImagePart, FilePart)


def unanswered(steps: Iterable[tuple[str, str] | None]) -> list[int]:
    """Return the positions of the calls that have no result.

    A step is ``("call", call_id)``, ``("result", call_id)`` or None for anything else. Where
    ids repeat, the n-th result of an id answers its n-th call.
    """
    open_calls: dict[str, list[int]] = {}
    for position, step in enumerate(steps):
        if step is None:
            continue
        what, call_id = step
        waiting = open_calls.setdefault(call_id, [])
        if what == "call":
            waiting.append(position)
        elif waiting:
            waiting.pop(0)
    return sorted(position for waiting in open_calls.values() for position in waiting)


def _step(entry: Entry) -> tuple[str, str] | None:
    match entry:
        case ToolCallEntry():
            return "call", entry.call_id
        case ToolResultEntry():
            return "result", entry.call_id
        case _:
            return None


def pending_tool_calls(entries: Sequence[Entry]) -> list[ToolCallEntry]:
    """Return the tool calls without a result, in order, paired by occurrence."""
    found = (entries[position] for position in unanswered(map(_step, entries)))
    return [entry for entry in found if isinstance(entry, ToolCallEntry)]


def drop_dangling_tool_calls(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries without the tool calls that have no result."""
    dangling = set(unanswered(map(_step, entries)))
    return [entry for position, entry in enumerate(entries) if position not in dangling]
