"""The one place where redis-py's errors become durably's."""

from redis import exceptions

from durably import DurablyError, ForeignData, Unavailable, Unsupported

__all__ = ["is_passing", "translate"]

_PASSING = (
    exceptions.BusyLoadingError,
    exceptions.ClusterDownError,
    exceptions.ConnectionError,
    exceptions.MasterDownError,
    exceptions.TimeoutError,
    exceptions.TryAgainError,
)
_LASTING = (
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.MaxConnectionsError,
)

_SITUATIONS: tuple[tuple[type[Exception] | str, str, str], ...] = (
    (
        exceptions.ReadOnlyError,
        "is a read-only replica",
        "Connect to the primary, or through Sentinel",
    ),
    (
        exceptions.BusyLoadingError,
        "is loading its data",
        "Try again in a while, or raise ?timeout=",
    ),
    (
        exceptions.OutOfMemoryError,
        "is out of memory; nothing was stored",
        "Raise maxmemory, or delete what is not needed",
    ),
    ("NOAUTH", "asks for a password", "Give user and password in the URL"),
    (
        exceptions.AuthenticationError,
        "refuses the user or the password",
        "Check user and password of the URL",
    ),
    (
        exceptions.NoPermissionError,
        "does not permit what durably does",
        "Give the user the commands of the backend's README on keys durably:*",
    ),
    (
        exceptions.ClusterDownError,
        "is a Cluster that is down",
        "Check that all of its slots are served",
    ),
    (
        exceptions.SlotNotCoveredError,
        "is a Cluster with slots that no node serves",
        "Check that all of its slots are served",
    ),
    ("MISCONF", "refuses to write since it cannot save", "Check its disk and its log"),
    ("NOREPLICAS", "has too few replicas to write", "Check its replicas"),
    ("BUSY ", "is busy with a script of somebody's", "Wait, or SCRIPT KILL it"),
)


def is_passing(error: BaseException) -> bool:
    """Whether the same command may succeed a moment later."""
    return isinstance(error, _PASSING) and not isinstance(error, _LASTING)


def translate(error: Exception, place: str) -> DurablyError:
    """Return what an error of redis-py means to a user; ``place`` names the server."""
    text = str(error)
    if isinstance(error, (exceptions.MovedError, exceptions.AskError)):
        return Unsupported(
            f"{place} is a node of a Cluster",
            hint="Pass a redis.asyncio.cluster.RedisCluster as client",
        )
    if "WRONGTYPE" in text:
        return ForeignData(
            f"{place} has a key of durably's name that is not durably's",
            hint="Choose another database or ?namespace=",
        )
    for known, what, hint in _SITUATIONS:
        if known in text if isinstance(known, str) else isinstance(error, known):
            return Unavailable(f"{place} {what}", hint=hint)
    if isinstance(error, exceptions.TimeoutError):
        return Unavailable(f"{place} did not answer in time", hint="Try again, or raise ?timeout=")
    return Unavailable(
        f"{place} cannot be used: {type(error).__name__}",
        hint="Check that it runs, its address, and TLS",
    )
