"""A folder of files as a backend of durably: ``folder:///path``."""

from durably_folder._store import FolderLogStore
from durably_folder._url import open_url

__all__ = ["FolderLogStore", "open_url"]
