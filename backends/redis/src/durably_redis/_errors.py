"""The one place where redis-py's errors become durably's."""

from redis import exceptions

from durably import DurablyError, ForeignData, Unavailable, Unsupported

__all__ = ["DRIVER_ERRORS", "is_passing", "translate"]

DRIVER_ERRORS = (exceptions.RedisError, exceptions.RedisClusterException, OSError)
"""All that a client raises; the second is no subclass of the first."""

_PASSING = (
    exceptions.ClusterDownError,
    exceptions.ConnectionError,
    exceptions.RedisClusterException,
    exceptions.TimeoutError,
    exceptions.TryAgainError,
    OSError,
)
_LASTING = (exceptions.AuthenticationError, exceptions.AuthorizationError)
_NO_CLUSTER = "Cluster mode is not enabled"
_LASTING_TEXTS = (
    _NO_CLUSTER,
    "CERTIFICATE_VERIFY_FAILED",
    "DB index",
    "Invalid Database",
    "not allowed in cluster mode",
)

_UNAVAILABLE: tuple[tuple[tuple[type[Exception] | str, ...], str, str], ...] = (
    (
        (exceptions.ReadOnlyError, "read only replica"),
        "is a read-only replica",
        "Connect to the primary, or through Sentinel",
    ),
    (
        (exceptions.BusyLoadingError, "LOADING"),
        "is loading its data",
        "Try again in a while, or raise ?timeout=",
    ),
    (
        (exceptions.OutOfMemoryError, "OOM command not allowed"),
        "is out of memory; nothing was stored",
        "Raise maxmemory, or delete what is not needed",
    ),
    (("NOAUTH", "Authentication required"), "asks for a password", "Give it in the URL"),
    (
        (exceptions.AuthenticationError, exceptions.AuthorizationError),
        "refuses the user or the password",
        "Check user and password of the URL",
    ),
    (
        (exceptions.NoPermissionError, "user executing the script", "ACL failure in script"),
        "does not permit what durably does",
        "Give the user the commands of the backend's README on keys durably:*",
    ),
    (
        (exceptions.ClusterDownError, exceptions.SlotNotCoveredError, "CLUSTERDOWN"),
        "is a Cluster that is down, at least in part",
        "Check that all of its slots are served",
    ),
    (("MISCONF",), "refuses to write since it cannot save", "Check its disk and its log"),
    (("NOREPLICAS",), "has too few replicas to write", "Check its replicas"),
    (("BUSY ",), "is busy with a script of somebody's", "Wait, or SCRIPT KILL it"),
    (
        (exceptions.MaxConnectionsError,),
        "cannot be reached, all connections of the client's pool are in use",
        "Raise its max_connections, or give durably a client of its own",
    ),
    (
        ("max number of clients",),
        "accepts no more connections",
        "Raise its maxclients, or close what is not needed",
    ),
    (
        ("CERTIFICATE_VERIFY_FAILED",),
        "has a certificate that is not trusted here",
        "Give its authority: ?ssl_ca_certs=FILE",
    ),
    (
        ("DB index", "Invalid Database"),
        "has no database of this number",
        "Choose another one in the URL's path",
    ),
    (
        (TimeoutError, exceptions.TimeoutError),
        "did not answer in time",
        "Try again, or raise ?timeout=",
    ),
)


def is_passing(error: BaseException) -> bool:
    """Whether the same command may succeed a moment later."""
    text = str(error)
    if isinstance(error, _LASTING) or any(one in text for one in _LASTING_TEXTS):
        return False
    return isinstance(error, _PASSING) or text.startswith("BUSY ")


def translate(error: Exception, place: str) -> DurablyError:
    """Return what an error of redis-py means to a user; ``place`` names the server."""
    text = f"{getattr(error, 'status_code', None) or ''} {error}"
    if isinstance(error, exceptions.AskError) or "not allowed in cluster mode" in text:
        return Unsupported(
            f"{place} is a node of a Cluster",
            hint="Pass a redis.asyncio.cluster.RedisCluster as client",
        )
    if _NO_CLUSTER in text:
        return Unsupported(f"{place} is no Cluster", hint="Pass a redis.asyncio.Redis as client")
    if "unknown command" in text:
        return Unsupported(
            f"{place} lacks a command that durably needs",
            hint="Use Redis 6.2 or newer, or Valkey, with scripts enabled",
        )
    if "WRONGTYPE" in text:
        return ForeignData(
            f"{place} has a key of durably's name that is not durably's",
            hint="Choose another database or ?namespace=",
        )
    for marks, what, hint in _UNAVAILABLE:
        if any(one in text if isinstance(one, str) else isinstance(error, one) for one in marks):
            return Unavailable(f"{place} {what}", hint=hint)
    return Unavailable(
        f"{place} cannot be used: {type(error).__name__}",
        hint="Check that it runs, its address, and TLS",
    )
