"""A pytest plugin: has the tests that take a ``place`` run on the example's backend alone.

It is to be loaded before conftest.py, with ``-p plugin_folder``, where durably-folder is installed.
"""

import os

import durably_folder

import builders
import places


class FolderPlace(places.Place):
    """A folder as a place."""

    @property
    def url(self) -> str:
        return f"folder:///{self.file.with_suffix('')}"

    def log_store(self, *, namespace: str = "") -> durably_folder.FolderLogStore:
        return durably_folder.FolderLogStore(self.file.with_suffix(""), namespace=namespace)


def dump(place: FolderPlace) -> dict[str, bytes]:
    """Return everything a place holds, to be compared."""
    files = place.file.with_suffix("").rglob("*.log")
    return {str(path): path.read_bytes() for path in files}


def skip_fsync(descriptor: int) -> None:
    """Do nothing: what survives power loss is not what those tests see, and it takes most time."""


os.fsync = skip_fsync
builders.dump = dump
places.BACKENDS = ("folder",)
places.Place = FolderPlace
