"""What a run has consumed."""

from collections.abc import Mapping

import msgspec

from durably import JsonObject, JsonValue

__all__ = ["Usage"]


class Usage(msgspec.Struct):
    """Tokens and model calls (``requests``), added up as a run goes on."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0

    def add(self, other: "Usage") -> None:
        """Add what another one counts."""
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.requests += other.requests

    def as_json(self) -> JsonObject:
        """Return the counts as they are stored in a run's head."""
        return msgspec.structs.asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, JsonValue]) -> "Usage":
        """Return what a run's head says; a count that is missing, or is none, is 0."""
        counts = {name: stored.get(name) for name in cls.__struct_fields__}
        return cls(**{name: n for name, n in counts.items() if type(n) is int})
