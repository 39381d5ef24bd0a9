"""``memory://``, registered as any stranger's backend is."""

from durably.errors import InvalidUrl
from durably.logstore import LogStore
from durably.memory import MemoryLogStore
from durably.plugins import CONTRACT, BackendSpec, hookimpl
from durably.urls import StorageUrl

__all__ = ["durably_backends", "open_url"]


@hookimpl
def durably_backends() -> list[BackendSpec]:
    """Describe the memory backend."""
    return [
        BackendSpec(
            name="memory",
            schemes=("memory",),
            open=f"{__name__}:open_url",
            contract=CONTRACT,
            capabilities=MemoryLogStore.capabilities,
            limits=MemoryLogStore.limits,
            place="durably.testing:MemoryPlace",
        )
    ]


def open_url(url: StorageUrl) -> LogStore:
    """Return the log store of ``memory://`` or ``memory://name``.

    Raises:
        InvalidUrl: the URL has a path, a port or a user, or an unknown option.
    """
    url.check_options({"namespace"})
    if url.path not in ("", "/") or url.port is not None or url.username is not None:
        raise InvalidUrl("memory:// takes a name alone", hint="Write memory:// or memory://name")
    return MemoryLogStore(url.host or None, namespace=url.options.get("namespace", ""))
