"""For tests: isolated prefixes of a bucket, and a bucket in memory."""

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from urllib.parse import quote, urlencode

from typing_extensions import override

import durably
from durably.testing import Clock, Handle, Place
from durably.urls import parse_url
from durably_s3._boto import BotoBucket
from durably_s3._bucket import Named
from durably_s3._keys import Keys
from durably_s3._listing import every
from durably_s3._patience import Patience
from durably_s3._shelf import MemoryBucket, Shelf
from durably_s3._url import settings_of

__all__ = ["MemoryBucket", "S3Place", "Shelf"]

PATIENCE = 30.0
"""Seconds."""


_layouts: dict[tuple[str, str | None], bytes] = {}
"""What the first place of each bucket and endpoint found out of the server, as it lies there."""


class S3Place(Place):
    """A fresh prefix below the URL's, with the URL's options.

    The first one of a process that is used finds out what the server does; in those after it
    the object that says so is there from the start, which saves a dozen requests each.
    """

    def __init__(self, url: str) -> None:
        parsed = parse_url(url)
        self._options = {k: v for k, v in parsed.options.items() if k != "namespace"}
        path = f"{parsed.path.strip('/')}/place-{uuid.uuid4().hex[:12]}".lstrip("/")
        self._base = f"s3://{parsed.host}/{quote(path)}"
        self._keys = Keys(root=f"{path}/")
        self._server = (parsed.host, self._options.get("endpoint_url"))
        self._begun = False
        self._opened: BotoBucket | None = None

    @property
    @override
    def url(self) -> str | None:
        return self._url("")

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        await self._begin()
        return durably.open(self._url(namespace), clock=clock)

    @override
    async def dump(self) -> Mapping[str, bytes] | None:
        await self._begin()
        names = [one.key for one in await self._objects()]
        gets = (partial(self._bucket.get, name) for name in names)
        objects = await asyncio.gather(*(Patience(PATIENCE).insist(get) for get in gets))
        read = zip(names, objects, strict=True)
        return {name: found.data for name, found in read if found is not None}

    @override
    async def wipe(self) -> None:
        try:
            keys = [one.key for one in await self._objects()]
            if self._keys.layout in keys and self._server not in _layouts:
                get = partial(self._bucket.get, self._keys.layout)
                found = await Patience(PATIENCE).insist(get)
                _layouts[self._server] = b"" if found is None else found.data
            for start in range(0, len(keys), 1000):
                remove = partial(self._bucket.delete_all, keys[start : start + 1000])
                await Patience(PATIENCE).insist(remove)
        finally:
            await self._bucket.aclose()
            self._opened = None

    async def _begin(self) -> None:
        """Say what is known of the server, unless that was done."""
        layout = None if self._begun else _layouts.get(self._server)
        self._begun = True
        if layout:
            put = partial(self._bucket.put, self._keys.layout, layout)
            await Patience(PATIENCE).insist(put)

    async def _objects(self) -> Sequence[Named]:
        found, _ = await every(self._bucket, self._keys.root, Patience(PATIENCE))
        return found

    @property
    def _bucket(self) -> BotoBucket:
        if self._opened is None:
            self._opened = BotoBucket(settings_of(parse_url(self._url(""))))
        return self._opened

    def _url(self, namespace: str) -> str:
        options = self._options | ({"namespace": namespace} if namespace else {})
        return f"{self._base}{'?' if options else ''}{urlencode(options)}"
