"""How a tool asks for a person, and how the person's answer is bound to what was asked."""

from hashlib import blake2b

import msgspec

from durably import InterruptReason, JsonValue, ToolCallEntry

__all__ = ["Interrupt", "digest_of", "reason_of"]


class Interrupt(Exception):
    """Raised by a tool, before it does anything, to hand the run to a person.

    The call gets a result that says so, the run is saved as ``interrupted`` with the reason, and
    control goes back to the caller. ``data`` is JSON for whoever decides.
    """

    def __init__(self, reason: str, data: JsonValue = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.data = data


def digest_of(call: ToolCallEntry) -> str:
    """Return what identifies a call's arguments, whatever their spaces and order of names."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
        canonical = msgspec.json.encode(arguments, order="deterministic")
    except (msgspec.DecodeError, UnicodeEncodeError):
        canonical = call.arguments.encode("utf-8", "surrogatepass")
    return blake2b(canonical, digest_size=16).hexdigest()


def reason_of(call: ToolCallEntry, interrupt: Interrupt) -> InterruptReason:
    """Return why a run waits, bound to the call that asked."""
    return InterruptReason(
        call_id=call.call_id,
        tool_name=call.name,
        arguments_digest=digest_of(call),
        reason=interrupt.reason,
        data=interrupt.data,
    )
