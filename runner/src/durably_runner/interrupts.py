"""How a tool asks for a person, and how the person's answer is bound to what was asked."""

import time
from typing import Self

import msgspec

from durably import InterruptReason, JsonValue
from durably_runner.errors import InvalidOptions

__all__ = ["Decision", "Interrupt"]


class Interrupt(Exception):
    """Raised by a tool, before it does anything, to hand the run to a person.

    The call gets a result that says so, the run is saved as ``interrupted`` with the reason, and
    control goes back to the caller. ``data`` is JSON for whoever decides.
    """

    def __init__(self, reason: str, data: JsonValue = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.data = data


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What a person decided about one call: who, when, and about which tool with which arguments.

    Who the person is, and whether they may decide, is the host's business. ``decided_at`` is in
    epoch seconds; ``note`` is told to the model.
    """

    call_id: str
    tool_name: str
    arguments_digest: str
    approved: bool
    decided_by: str
    decided_at: float
    note: str = ""

    @classmethod
    def on(
        cls, interrupt: InterruptReason | None, *, approved: bool, decided_by: str, note: str = ""
    ) -> Self:
        """Return a decision, made now, about exactly what an interrupt asks.

        Raises:
            InvalidOptions: nothing is asked.
        """
        if interrupt is None:
            raise InvalidOptions("there is nothing to decide: no person is asked")
        return cls(
            call_id=interrupt.call_id,
            tool_name=interrupt.tool_name,
            arguments_digest=interrupt.arguments_digest,
            approved=approved,
            decided_by=decided_by,
            decided_at=time.time(),
            note=note,
        )

    def answers(self, interrupt: InterruptReason) -> bool:
        """Whether this is about what an interrupt asks."""
        asked = (interrupt.call_id, interrupt.tool_name, interrupt.arguments_digest)
        return (self.call_id, self.tool_name, self.arguments_digest) == asked
