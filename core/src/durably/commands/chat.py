"""Recorded conversations in OpenAI chat form, as runs of entries.

A line is ``{"id": ..., "messages": [{"role", "content", "tool_calls", "tool_call_id"} ...]}``.
A run begins at each user message; what stands before the first one belongs to the first run.
Fields that entries have no place for are kept in the run's ``meta``; a field that is null is
as good as absent.
"""

import json
import re
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from durably.codec import load_json
from durably.entries import (
    AssistantTextEntry,
    Content,
    Entry,
    FilePart,
    ImagePart,
    InputEntry,
    JsonObject,
    Part,
    TextPart,
    ToolCallEntry,
    ToolResultEntry,
)

__all__ = ["BadLine", "ChatRun", "Conversation", "read_conversation"]

META = "openai_chat"
"""Where in a run's ``meta`` the fields are kept that entries have no place for."""

MAX_REASON = 200
"""Characters of a complaint, which may repeat what a line holds."""

_DATA_URL = re.compile(r"data:(?P<media_type>[^;,]+);base64,(?P<data>.*)", re.DOTALL)


class BadLine(ValueError):
    """A line that is no conversation; the text says why."""


class ChatRun(msgspec.Struct, frozen=True):
    """What is to become one run of a session."""

    entries: list[Entry]
    meta: JsonObject | None


class Conversation(msgspec.Struct, frozen=True):
    """A conversation, cut into runs."""

    id: str
    runs: list[ChatRun]


class _Part(msgspec.Struct, tag_field="type"):
    pass


class _Text(_Part, tag="text"):
    text: str


class _Refusal(_Part, tag="refusal"):
    refusal: str


class _Url(msgspec.Struct):
    url: str


class _Image(_Part, tag="image_url"):
    image_url: _Url


class _FileData(msgspec.Struct):
    file_data: str | UnsetType = UNSET
    filename: str | UnsetType = UNSET


class _File(_Part, tag="file"):
    file: _FileData


class _AudioData(msgspec.Struct):
    data: str
    format: str


class _Audio(_Part, tag="input_audio"):
    input_audio: _AudioData


_ChatPart: TypeAlias = _Text | _Refusal | _Image | _File | _Audio


class _Function(msgspec.Struct):
    name: str
    arguments: str | UnsetType = UNSET


class _Call(msgspec.Struct):
    id: str
    function: _Function
    type: Literal["function"] | UnsetType = UNSET


class _Message(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_ChatPart] | UnsetType | None = UNSET
    tool_calls: list[_Call] | UnsetType | None = UNSET
    tool_call_id: str | UnsetType | None = UNSET


class _Line(msgspec.Struct):
    id: str
    messages: list[dict[str, Any]]


_USED = {
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
"""The fields of a message that its entries hold, by role."""


def read_conversation(line: bytes) -> Conversation:
    """Return the conversation of a line.

    Raises:
        BadLine: it is not JSON, a field is missing or of a wrong type, or a role or a part of
            content is of no known kind.
    """
    try:
        value = load_json(line)
        shape = msgspec.convert(value, _Line)
    except msgspec.ValidationError as error:
        raise BadLine(_shortened(str(error))) from None
    except msgspec.DecodeError as error:
        raise BadLine(f"no JSON: {_reason(error)}") from None
    others = {name: one for name, one in value.items() if name not in ("id", "messages")}
    cut = _cut([_message(index, one) for index, one in enumerate(shape.messages)])
    runs = [_run(run, others if number == 0 else {}) for number, run in enumerate(cut)]
    return Conversation(shape.id, runs)


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_REASON else f"{text[:MAX_REASON]}…"


def _reason(error: msgspec.DecodeError) -> str:
    cause = error.__cause__
    if isinstance(cause, json.JSONDecodeError):
        return f"{cause.msg} at character {cause.pos + 1}"
    return str(error)


_Said: TypeAlias = tuple[_Message, JsonObject]
"""A message, and the fields that its entries have no place for."""


def _message(index: int, fields: dict[str, Any]) -> _Said:
    try:
        message = msgspec.convert(fields, _Message)
    except msgspec.ValidationError as error:
        raise BadLine(_shortened(f"message {index + 1}: {error}")) from None
    if message.role == "tool" and not isinstance(message.tool_call_id, str):
        raise BadLine(f"message {index + 1}: a tool message needs a tool_call_id")
    if message.role not in _USED and not isinstance(message.content, str | list):
        raise BadLine(f"message {index + 1}: a {message.role} message needs content")
    held = msgspec.to_builtins(message)
    used = _USED.get(message.role, {"role", "content"})
    rest = {
        name: value
        for name, value in fields.items()
        if value is not None and not (name in used and held.get(name) == value)
    }
    return message, rest


def _cut(said: list[_Said]) -> list[list[_Said]]:
    """Cut where a user speaks; the first run also has what was said before."""
    runs: list[list[_Said]] = []
    opened = False
    for one in said:
        speaks = one[0].role == "user"
        if not runs or (speaks and opened):
            runs.append([])
        opened = opened or speaks
        runs[-1].append(one)
    return runs


def _run(said: list[_Said], others: JsonObject) -> ChatRun:
    entries = [entry for message, _ in said for entry in _entries(message)]
    rest = {str(index): fields for index, (_, fields) in enumerate(said) if fields}
    kept = {"conversation": others, "messages": rest}
    meta = {name: fields for name, fields in kept.items() if fields}
    return ChatRun(entries, {META: meta} if meta else None)


def _entries(message: _Message) -> list[Entry]:
    content = _content(message)
    if message.role == "tool":
        parts = None if isinstance(content, str) else content
        return [
            ToolResultEntry(call_id=str(message.tool_call_id), output=_text(content), parts=parts)
        ]
    if message.role != "assistant":
        return [InputEntry(role=message.role, content="" if content is None else content)]
    said: list[Entry] = [] if content is None else [AssistantTextEntry(content=content)]
    calls = message.tool_calls if isinstance(message.tool_calls, list) else []
    return said + [
        ToolCallEntry(
            call_id=call.id,
            name=call.function.name,
            arguments=call.function.arguments if isinstance(call.function.arguments, str) else "",
        )
        for call in calls
    ]


def _content(message: _Message) -> Content | None:
    if isinstance(message.content, list):
        return [_part(part) for part in message.content]
    return message.content if isinstance(message.content, str) else None


def _text(content: Content | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text for part in content if isinstance(part, TextPart))


def _part(part: _ChatPart) -> Part:
    match part:
        case _Text():
            return TextPart(text=part.text)
        case _Refusal():
            return TextPart(text=part.refusal)
        case _Image():
            found = _DATA_URL.fullmatch(part.image_url.url)
            return ImagePart(**found.groupdict()) if found else ImagePart(url=part.image_url.url)
        case _File():
            name = part.file.filename if isinstance(part.file.filename, str) else None
            return _file(part.file.file_data, name)
        case _Audio():
            sound = part.input_audio
            return FilePart(data=sound.data, media_type=f"audio/{sound.format}")


def _file(data: str | UnsetType, name: str | None) -> FilePart:
    if not isinstance(data, str):
        return FilePart(name=name)
    found = _DATA_URL.fullmatch(data)
    return FilePart(name=name, **found.groupdict()) if found else FilePart(name=name, data=data)
