"""Isolated folders for tests."""

import asyncio
import shutil
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from typing_extensions import override

from durably import Storage
from durably.testing import Clock, Handle, Place
from durably_folder._store import FolderLogStore

__all__ = ["FolderPlace"]


class FolderPlace(Place):
    """A fresh folder beside the URL's."""

    def __init__(self, url: str) -> None:
        named = Path(unquote(urlsplit(url).path).removeprefix("/")).absolute()
        self._folder = named.with_name(f"{named.name}-{uuid.uuid4().hex}")

    @property
    @override
    def url(self) -> str | None:
        return f"folder:///{quote(str(self._folder))}"

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        return Storage(FolderLogStore(self._folder, namespace=namespace), clock=clock)

    @override
    async def dump(self) -> Mapping[str, bytes] | None:
        return await asyncio.to_thread(self._files)

    @override
    async def wipe(self) -> None:
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _files(self) -> dict[str, bytes]:
        found = self._folder.rglob("*.log")
        return {str(path.relative_to(self._folder)): path.read_bytes() for path in found}
