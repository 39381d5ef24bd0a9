"""What a run gives back."""

from collections.abc import Sequence
from typing import Any

import msgspec

from durably import Entry, InterruptReason, RunStatus
from durably_runner.errors import OutputNotStored
from durably_runner.usage import Usage

__all__ = ["RunResult"]


class RunResult(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A run that is completed, or that waits for a person.

    ``entries`` are this run's own, its input first; ``agent_name`` is who answered last.
    ``interrupt`` says what a run waits for; then ``status`` is ``interrupted``. ``is_replay``
    says that the run was completed before this call, and nothing ran; ``finish_reason``, the
    model's last, is not stored and then None. ``usage`` is the whole run's.
    """

    run_id: str
    session_id: str | None
    status: RunStatus
    agent_name: str
    entries: Sequence[Entry]
    usage: Usage
    turns: int
    finish_reason: str | None = None
    interrupt: InterruptReason | None = None
    is_replay: bool = False
    value: Any = None
    missing: str | None = None

    @property
    def output(self) -> Any:  # noqa: ANN401 - of the agent's output_type
        """The final output: text, or a value of the agent's ``output_type``.

        None for a run that waits.

        Raises:
            OutputNotStored: it was no JSON, so it could not be stored for this replay.
        """
        if self.missing is not None:
            raise OutputNotStored(self.run_id, self.missing)
        return self.value
