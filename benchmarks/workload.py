"""What is stored: segments of six entries, 2.15 KB of JSON, and checkpoint steps of 0.7 KB."""

import durably

__all__ = ["HEAD", "SEGMENT", "STEP"]

SEGMENT: list[durably.Entry] = [
    durably.InputEntry(role="user", content=300 * "q"),
    durably.ReasoningEntry(provider="acme", metadata={"signature": 200 * "s"}),
    durably.ToolCallEntry(call_id="c1", name="search", arguments='{"query":"' + 100 * "a" + '"}'),
    durably.ToolResultEntry(call_id="c1", output=900 * "r", raw={"hits": [1, 2, 3]}),
    durably.AssistantTextEntry(content=300 * "t"),
    durably.CustomEntry(kind="note", data={"cost": 0.25, "tags": ["a", "b"]}),
]
STEP: list[durably.Entry] = [
    durably.ToolCallEntry(call_id="c1", name="search", arguments='{"query":"' + 80 * "a" + '"}'),
    durably.ToolResultEntry(call_id="c1", output=400 * "r"),
]
HEAD = durably.RunHead(agent_name="triage", usage={"input_tokens": 1200, "output_tokens": 80})
