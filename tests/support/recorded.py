"""Conversations in OpenAI chat form: where they are, and what they are as entries."""

import gzip
import json
from pathlib import Path

import pytest

from durably import (
    AssistantTextEntry,
    CustomEntry,
    Entry,
    InputEntry,
    TextPart,
    ToolCallEntry,
    ToolResultEntry,
)

FOLDER = Path(__file__).parents[3] / "shared" / "data"

MADE_UP = [
    {
        "id": "made-up",
        "messages": [
            {"role": "system", "content": "You help."},
            {"role": "user", "content": "What costs it? \u2028 \ud800"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "price", "arguments": '{"of": "it"'},
                    },
                    {
                        "id": "c2",
                        "type": "function",
                        "function": {"name": "price", "arguments": ""},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "7.10\x00"},
            {"role": "tool", "tool_call_id": "c2", "content": ""},
            {"role": "assistant", "content": "7.10"},
            {"role": "user", "content": [{"type": "text", "text": "Thanks"}]},
            {"role": "assistant", "content": ""},
            {"role": "user", "content": "Bye"},
        ],
    },
    {"id": "made-up: only a question", "messages": [{"role": "user", "content": "Anyone?"}]},
    {"id": "made-up: nothing", "messages": []},
]


def _recorded(path: Path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def sources() -> list:
    """Return what to test with: the recordings where they are, and always the made-up ones."""
    found = [pytest.param(MADE_UP, id="made-up")]
    for path in sorted(FOLDER.glob("*.jsonl.gz")):
        found.append(pytest.param(_recorded(path), id=path.name))  # noqa: PERF401 - reads better
    if len(found) == 1:
        reason = f"there are no recordings in {FOLDER}"
        found.append(pytest.param([], id="recorded", marks=pytest.mark.skip(reason=reason)))
    return found


def _content(message: dict):
    content = message.get("content")
    if isinstance(content, list):
        return [TextPart(text=part["text"]) for part in content]
    return content


def _entries(message: dict) -> list[Entry]:
    role, content = message["role"], _content(message)
    if role in ("system", "user"):
        return [InputEntry(role=role, content=content)]
    if role == "tool":
        call_id = message.get("tool_call_id", "")
        return [ToolResultEntry(call_id=call_id, output=content, raw=message)]
    calls = [
        ToolCallEntry(
            call_id=call["id"],
            name=call["function"]["name"],
            arguments=call["function"]["arguments"],
        )
        for call in message.get("tool_calls") or ()
    ]
    said = [] if content is None else [AssistantTextEntry(content=content)]
    rest = message.keys() - {"role", "content", "tool_calls"}
    noted = [CustomEntry(kind="rest", data={key: message[key] for key in sorted(rest)})]
    return said + calls + (noted if rest else [])


def runs(conversation: dict) -> list[list[Entry]]:
    """Return a conversation's entries as runs: each begins with what the user said."""
    found: list[list[Entry]] = []
    for message in conversation["messages"]:
        if message["role"] == "user" or not found:
            found.append([])
        found[-1] += _entries(message)
    return found
