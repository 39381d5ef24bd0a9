"""How a run is stored, and how far it may go."""

from typing import Literal, TypeAlias, get_args

import msgspec

from durably import Checkpointer, CheckpointSaver, RunSnapshot
from durably.checks import check_count, check_id, check_seconds
from durably_runner.errors import InvalidOptions

__all__ = ["CheckpointOptions", "IfRunExists", "RunLimits", "ThreadOptions"]

IfRunExists: TypeAlias = Literal["resume", "restart", "fail", "resume_only"]

_POLICIES: tuple[IfRunExists, ...] = get_args(IfRunExists)
_RESUMING = ("resume", "resume_only")


class CheckpointOptions(msgspec.Struct, frozen=True):
    """Where a run's progress is kept, under which id, and what to do if it is there already.

    ============== ====================================================== ===============
    if_run_exists  the run exists                                         nothing stored
    ============== ====================================================== ===============
    resume         continues it; replays it verbatim if it is completed   starts
    restart        discards it and starts                                 starts
    fail           ``RunExists``                                          starts
    resume_only    continues or replays it                                ``RunNotFound``
    ============== ====================================================== ===============

    ``run_id`` is an idempotency key: a run that exists drops the new input. ``delete_on_success``
    removes the checkpoint once the run is in its session. ``resume_from`` is a snapshot the caller
    has; it needs no checkpointer, and where there is one must be what that has, or be new to it.

    Raises:
        InvalidOptions: they contradict each other.
        InvalidId: ``run_id`` is not legal as an id.
    """

    checkpointer: Checkpointer | None
    run_id: str
    if_run_exists: IfRunExists = "resume"
    delete_on_success: bool = False
    resume_from: RunSnapshot | None = None

    def __post_init__(self) -> None:
        check_id("run", self.run_id)
        if self.if_run_exists not in _POLICIES:
            raise InvalidOptions(
                f"if_run_exists is {self.if_run_exists!a}", hint=f"Use {', '.join(_POLICIES)}"
            )
        if self.resume_from is None:
            if self.checkpointer is None:
                raise InvalidOptions("neither a checkpointer nor resume_from is given")
            return
        if self.resume_from.run_id != self.run_id:
            raise InvalidOptions(
                f"resume_from is a snapshot of run {self.resume_from.run_id!a}, "
                f"not of {self.run_id!a}"
            )
        if self.if_run_exists not in _RESUMING:
            raise InvalidOptions(f"resume_from contradicts if_run_exists={self.if_run_exists}")


class ThreadOptions(msgspec.Struct, frozen=True):
    """In which thread snapshots of the conversation are saved, and when.

    The one at the start of a turn comes after steering and before the model is asked; the one at
    its end once every call has its result; a run that ends ends its turn. Whatever the options say,
    messages that were steered into a turn are saved before its model is asked, and so is what a run
    waits for a person to decide.

    Raises:
        InvalidId: ``thread_id`` is not legal as an id.
    """

    saver: CheckpointSaver
    thread_id: str
    save_on_turn_start: bool = False
    save_on_turn_end: bool = True

    def __post_init__(self) -> None:
        check_id("thread", self.thread_id)


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How far one run may go: model calls in all, and seconds for this call of it.

    A run of a ``Conversation`` counts its own model calls alone.

    Raises:
        InvalidLimit: one is not a number of at least 1, or of more than 0 seconds.
    """

    max_turns: int = 100
    timeout: float | None = None

    def __post_init__(self) -> None:
        check_count("max_turns", self.max_turns, minimum=1)
        if self.timeout is not None:
            check_seconds("timeout", self.timeout)
