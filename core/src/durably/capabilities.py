"""What a backend declares about itself, so that users and tests need not guess."""

from enum import IntEnum

import msgspec

__all__ = ["Capabilities", "Durability", "Limits", "Writers"]


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


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between backends; everything else is the same on all of them."""

    durability: Durability
    writers: Writers


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The largest sizes a backend accepts, in bytes; one byte more is ``RecordTooLarge``."""

    record_bytes: int = 64 * 1024 * 1024
    head_bytes: int = 64 * 1024
