"""What the golden files hold: one of everything, written at one fixed time."""

from durably import (
    AssistantTextEntry,
    CustomEntry,
    FilePart,
    ImagePart,
    InputEntry,
    InterruptReason,
    ReasoningEntry,
    RunHead,
    Segment,
    StateSnapshot,
    Storage,
    TextPart,
    ToolCallEntry,
    ToolResultEntry,
)

NOW = 1_700_000_000.0

ENTRIES = [
    InputEntry(role="user", content="plain, é, \U0001f600, \x00, \u2028"),
    InputEntry(
        role="user",
        content=[
            TextPart(text="look"),
            ImagePart(url="https://example.org/a.png", media_type="image/png"),
            FilePart(data="aGVsbG8=", name="hello.txt"),
        ],
    ),
    ReasoningEntry(provider="acme", metadata={"signature": "abc", "n": [1, 1.0, -0.0, 2**70]}),
    ToolCallEntry(call_id="c1", name="search", arguments='{"q": "durable"}'),
    ToolResultEntry(
        call_id="c1", output="found", is_error=True, raw={"hits": None}, parts=[TextPart(text="f")]
    ),
    ToolResultEntry(call_id="c2", output="x\n[9 characters trimmed]", trimmed_chars=9),
    AssistantTextEntry(content="a lone \ud800 surrogate"),
    CustomEntry(kind="note", data={"deep": [[["x"]]], "empty": {}}),
]
SEGMENTS = [
    Segment(run_id="r1", entries=ENTRIES, meta={"timing": {"started_at": 1.5}}),
    Segment(run_id="r2", entries=[]),
    Segment(run_id="r3", entries=ENTRIES[:1]),
]
INTERRUPT = InterruptReason(
    call_id="c1", tool_name="search", arguments_digest="d1", reason="ask", data={"why": [1]}
)
HEAD = RunHead(
    agent_name="triage",
    usage={"input_tokens": 7},
    turns=2,
    status="interrupted",
    output={"answer": 42},
    error="stopped",
    interrupt=INTERRUPT,
    last_input_tokens=5,
    context_state={"summary": "s"},
    pending_handoff="billing",
    started_at=1_600_000_000.5,
)
SNAPSHOTS = [
    StateSnapshot(messages=ENTRIES[:2], turn=1),
    StateSnapshot(messages=ENTRIES[:4], turn=2, status="running"),
    StateSnapshot(
        messages=ENTRIES,
        turn=3,
        status="interrupted",
        usage={"n": 1},
        interrupt=INTERRUPT,
        pending_handoff="billing",
        extra={"mine": [True]},
    ),
]


async def write(storage: Storage) -> None:
    """Write one of everything."""
    for segment in SEGMENTS:
        await storage.sessions.append(
            "a session", segment.entries, run_id=segment.run_id, meta=segment.meta
        )
    await storage.checkpointer.append("a run", ENTRIES[:3], RunHead(), expected_revision=0)
    await storage.checkpointer.append("a run", ENTRIES[3:], HEAD)
    saver = storage.checkpoint_saver()
    for snapshot in SNAPSHOTS:
        await saver.append("a thread", snapshot)
