"""Stores on a server of S3, reached through a proxy: what the tests of the backend begin with."""

import traceback
from urllib.parse import quote, urlencode

import msgspec
import pytest

from durably import DurablyError
from durably_s3 import S3LogStore, Settings
from durably_s3._keys import Keys
from durably_s3._layout import Layout

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYnottold"  # noqa: S105 - not told anywhere
CONTENT = b"stored content"
NOT_TOLD = (SECRET, "nottold", CONTENT.decode())


class Site:
    """A prefix of a bucket behind a proxy, in an environment that has the server's credentials."""

    def __init__(self, proxy, keep) -> None:
        self.proxy = proxy
        self.server = proxy.server
        self.bucket = self.server.shared
        self.prefix = self.server.prefix().strip("/")
        self.keys = Keys(root=f"{self.prefix}/")
        self.raw = proxy.server.client()
        self._keep = keep

    def mark(self) -> None:
        """Store what the first change finds out of a server, by 16 requests."""
        found = Layout(layout=1, can_delete=True, is_ordered=True)
        self.put(self.keys.layout, msgspec.json.encode(found))

    def settings(self, **options) -> Settings:
        given = {"bucket": self.bucket, "prefix": self.prefix, "endpoint_url": self.proxy.endpoint}
        return Settings(**(given | options))

    def store(self, *, namespace="", client=None, **options) -> S3LogStore:
        """Return a store with a client of its own, closed when the test ends."""
        settings = self.settings(**options)
        return self._keep(S3LogStore(settings, namespace=namespace, client=client))

    def url(self, **options) -> str:
        query = urlencode({"endpoint_url": self.proxy.endpoint} | options)
        return f"s3://{self.bucket}/{quote(self.prefix)}?{query}"

    def dump(self) -> dict[str, bytes]:
        """Return every object of this site, past the proxy."""
        return self.server.dump(self.bucket, f"{self.prefix}/")

    def chunks(self) -> dict[str, bytes]:
        dump = self.dump()
        return {key: data for key, data in dump.items() if key.startswith(self.keys.chunks)}

    def put(self, key: str, data: bytes) -> None:
        """Store an object past the proxy and past the backend."""
        self.raw.put_object(Bucket=self.bucket, Key=key, Body=data)

    def delete(self, key: str) -> None:
        self.raw.delete_object(Bucket=self.bucket, Key=key)


def about(log, *methods):
    """Return whether a request is one of these methods on the tip of a log of no namespace."""
    ending = Keys(root="").tip(log)

    def predicate(exchange) -> bool:
        return exchange.key.endswith(ending) and exchange.method in (methods or (exchange.method,))

    return predicate


def on(*methods):
    """Return whether a request is one of these methods, on whatever object."""
    return lambda exchange: exchange.method in methods


def chunk_of(exchange) -> bool:
    """Whether a request is about a chunk."""
    return "/durably/c/" in exchange.key


async def refused(awaitable, error, match=None):
    """Await what must fail, and return the error: typed, with a remedy, and without secrets."""
    with pytest.raises(error, match=match) as caught:
        await awaitable
    assert type(caught.value) is error
    assert isinstance(caught.value, DurablyError)
    assert caught.value.hint
    told = "".join(traceback.format_exception(caught.value)) + repr(everything(caught.value))
    assert [one for one in NOT_TOLD if one in told] == []
    return caught.value


def everything(error, seen=()):
    """Return what an error and all those behind it say of themselves."""
    if error is None or error in seen:
        return []
    seen = (*seen, error)
    own = [repr(error), str(error), error.args, vars(error)]
    return own + everything(error.__cause__, seen) + everything(error.__context__, seen)
