"""For tests: isolated prefixes of a bucket, and a bucket in memory."""

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
from durably_s3._bucket import Bucket, Named
from durably_s3._listing import every
from durably_s3._patience import Patience
from durably_s3._shelf import MemoryBucket, Shelf
from durably_s3._url import settings_of

__all__ = ["MemoryBucket", "S3Place", "Shelf"]

PATIENCE = 30.0
"""Seconds."""


class S3Place(Place):
    """A fresh prefix below the URL's, with the URL's options."""

    def __init__(self, url: str) -> None:
        parsed = parse_url(url)
        self._options = {k: v for k, v in parsed.options.items() if k != "namespace"}
        path = f"{parsed.path.strip('/')}/place-{uuid.uuid4().hex[:12]}".lstrip("/")
        self._base = f"s3://{parsed.host}/{quote(path)}"
        self._prefix = f"{path}/"

    @property
    @override
    def url(self) -> str | None:
        return self._url("")

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        return durably.open(self._url(namespace), clock=clock)

    @override
    async def dump(self) -> Mapping[str, bytes] | None:
        bucket = self._bucket()
        try:
            names = [one.key for one in await self._objects(bucket)]
            objects = [await Patience(PATIENCE).insist(partial(bucket.get, name)) for name in names]
        finally:
            await bucket.aclose()
        read = zip(names, objects, strict=True)
        return {name: found.data for name, found in read if found is not None}

    @override
    async def wipe(self) -> None:
        bucket = self._bucket()
        try:
            keys = [one.key for one in await self._objects(bucket)]
            for start in range(0, len(keys), 1000):
                await bucket.delete_all(keys[start : start + 1000])
        finally:
            await bucket.aclose()

    async def _objects(self, bucket: Bucket) -> Sequence[Named]:
        found, _ = await every(bucket, self._prefix, Patience(PATIENCE))
        return found

    def _bucket(self) -> BotoBucket:
        return BotoBucket(settings_of(parse_url(self._url(""))))

    def _url(self, namespace: str) -> str:
        options = self._options | ({"namespace": namespace} if namespace else {})
        return f"{self._base}{'?' if options else ''}{urlencode(options)}"
