"""``folder:`` URLs."""

from durably import InvalidUrl
from durably.plugins import StorageUrl
from durably_folder._store import FolderLogStore

__all__ = ["open_url"]


def open_url(url: StorageUrl) -> FolderLogStore:
    """Return the log store of ``folder:///relative`` or ``folder:////absolute``.

    Raises:
        InvalidUrl: the URL names no folder, or has a host or an unknown option.
        InvalidId: the namespace is not legal as an id.
    """
    url.check_options({"namespace"})
    path = url.path.removeprefix("/")
    if not path or "\x00" in path:
        raise InvalidUrl("this folder:// URL names no folder", hint="Write folder:///path")
    if url.host or url.port is not None or url.username is not None:
        raise InvalidUrl("a folder:// URL has a path alone", hint="Write folder:///path")
    return FolderLogStore(path, namespace=url.options.get("namespace", ""))
