"""What a backend declares about itself, so that users and tests need not guess."""

from enum import IntEnum
from typing import Self

import msgspec

__all__ = ["Capabilities", "Durability", "Limits", "Support", "Writers"]


class Durability(IntEnum):
    """What an acknowledged change survives; each level includes those before it."""

    NOTHING = 0
    PROCESS_DEATH = 1
    POWER_LOSS = 2


class Writers(IntEnum):
    """Who may write at once without losing anything; each level includes those before it."""

    ONE_PROCESS = 0
    ONE_HOST = 1
    MANY_HOSTS = 2


class Support(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a backend offers something; it is true or false as that is.

    What is not offered is refused with ``Unsupported``, and ``reason`` says why it is not.

    Raises:
        ValueError: it says no without a reason.
    """

    supported: bool = True
    reason: str = ""

    def __post_init__(self) -> None:
        if not self.supported and not self.reason.strip():
            raise ValueError("say why it is not supported")

    @classmethod
    def yes(cls) -> Self:
        """Return that it is offered."""
        return cls()

    @classmethod
    def no(cls, reason: str) -> Self:
        """Return that it is not, and why; ``reason`` is one line for a reader of reports."""
        return cls(supported=False, reason=reason)

    def __bool__(self) -> bool:
        return self.supported


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between backends; everything else is the same on all of them.

    A backend that implements ``LogStore`` has all contracts from core, with rewind, trim and
    history. One that brings contracts of its own declares what it leaves out: its ``Storage``
    and its methods then raise ``Unsupported``. ``namespaces`` is about ``scoped``.
    """

    durability: Durability
    writers: Writers
    log_store: Support = Support()
    sessions: Support = Support()
    checkpointer: Support = Support()
    checkpoint_saver: Support = Support()
    namespaces: Support = Support()
    rewind: Support = Support()
    trim: Support = Support()
    history: Support = Support()


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The largest sizes a backend accepts, in bytes; one byte more is ``RecordTooLarge``."""

    record_bytes: int = 64 * 1024 * 1024
    head_bytes: int = 64 * 1024
