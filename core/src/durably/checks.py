"""What an id, a count, a time and a size may be: the same on every backend."""

from durably.errors import InvalidId, InvalidLimit, InvalidStatus, RecordTooLarge

__all__ = [
    "MAX_COUNT",
    "MAX_ENTRIES",
    "MAX_ID_BYTES",
    "MAX_KEY_BYTES",
    "MAX_LIST_LIMIT",
    "check_bytes",
    "check_count",
    "check_id",
    "check_namespace",
    "check_revision_token",
    "check_seconds",
    "check_size",
    "check_status",
]

MAX_ID_BYTES = 256
MAX_KEY_BYTES = 1024
MAX_LIST_LIMIT = 1000
MAX_COUNT = 2**53 - 1
"""Numbers of a log stay exact as a double, which is what some engines count in."""

MAX_ENTRIES = 2**31 - 1
"""In one record."""


def check_id(kind: str, value: str, *, max_bytes: int = MAX_ID_BYTES) -> None:
    """Refuse what is not non-empty text of at most so many UTF-8 bytes without NUL.

    Ids are compared exactly: no case folding, no normalisation.

    Raises:
        InvalidId: the value is no such text.
    """
    if type(value) is not str:
        raise InvalidId(kind, value, "it is not text")
    if not value:
        raise InvalidId(kind, value, "it is empty")
    if "\x00" in value:
        raise InvalidId(kind, value, "it contains NUL")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidId(kind, value, "it contains a lone surrogate") from None
    if size > max_bytes:
        raise InvalidId(kind, value, f"it has {size} bytes, the limit is {max_bytes}")


def check_revision_token(value: int | None, *, minimum: int = 0) -> None:
    """Refuse what can be no revision; None expects nothing.

    Raises:
        InvalidLimit: it is no integer, or out of its range.
    """
    if value is not None:
        check_count("expected_revision", value, minimum=minimum, maximum=MAX_COUNT)


def check_namespace(value: str) -> None:
    """Refuse a namespace that is neither empty, the default one, nor legal as an id.

    Raises:
        InvalidId: it is neither.
    """
    if value != "":
        check_id("namespace", value)


def check_count(name: str, value: int, *, minimum: int = 0, maximum: int | None = None) -> None:
    """Refuse what is not an integer from ``minimum`` to ``maximum``.

    Raises:
        InvalidLimit: it is out of range, or a bool, float or anything else.
    """
    legal = type(value) is int and value >= minimum and (maximum is None or value <= maximum)
    if not legal:
        raise InvalidLimit(name, value, minimum=minimum, maximum=maximum)


def check_bytes(name: str, value: bytes) -> None:
    """Refuse what is not bytes.

    Raises:
        TypeError: it is something else.
    """
    if type(value) is not bytes:
        raise TypeError(f"{name} must be bytes, not {type(value).__name__}")


def check_status(name: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse a status that is none of those known.

    Raises:
        InvalidStatus: it is none of them.
    """
    if value not in known:
        raise InvalidStatus(name, value, known=known)


def check_size(log: object, what: str, size: int, limit: int) -> None:
    """Refuse what has more bytes than the limit.

    Raises:
        RecordTooLarge: it has.
    """
    if size > limit:
        raise RecordTooLarge(log, what, size=size, limit=limit)


def check_seconds(name: str, value: float, *, minimum: int = 0) -> float:
    """Return a number of seconds as a float.

    Raises:
        InvalidLimit: it is out of its range, or no number.
    """
    if type(value) not in (int, float) or not minimum <= value <= MAX_COUNT:
        raise InvalidLimit(
            name, value, minimum=minimum, maximum=MAX_COUNT, what="a number of seconds"
        )
    return float(value)
