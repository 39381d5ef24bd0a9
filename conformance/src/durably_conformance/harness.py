"""Any installed backend as a harness: a URL is enough."""

import time
import uuid
from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from urllib.parse import quote

from typing_extensions import override

import durably
from durably import InvalidUrl, Storage
from durably.plugins import backends, open_backend
from durably.plugins import offers as all_offers
from durably.testing import Clock, Handle, Harness, Place, remove_all
from durably.urls import parse_url

__all__ = ["NamespacePlace", "UrlHarness"]


class UrlHarness(Harness):
    """The backend a URL opens, with its own declaration.

    Places are what the backend's ``BackendSpec.place`` makes of the URL; without one, random
    namespaces of the storage at the URL, whose logs are deleted afterwards.

    Raises:
        InvalidUrl: the URL cannot be read, or the backend has no namespaces and no places.
    """

    def __init__(self, url: str, *, known_failures: Mapping[str, str] | None = None) -> None:
        spec = backends.find(parse_url(url).scheme)
        storage = durably.open(url)
        self.name = spec.name
        self.capabilities = storage.capabilities
        self.limits = storage.limits
        self.known_failures = dict(known_failures or {})
        self.distribution = _distribution(parse_url(url).scheme)
        self._url = url
        self._make: Callable[[str], Place] = (
            resolve_name(spec.place) if spec.place else NamespacePlace
        )
        if not spec.place and not self.capabilities.namespaces:
            raise InvalidUrl(
                f"{spec.name} has no namespaces, and describes no places",
                hint="Give BackendSpec a place, or write a durably.testing.Harness",
            )

    @override
    def place(self) -> Place:
        return self._make(self._url)


def _distribution(scheme: str) -> str:
    base = scheme.partition("+")[0]
    found = [offer.distribution for offer in all_offers() if offer.scheme == base]
    return found[0] if found else ""


class NamespacePlace(Place):
    """A random namespace of the storage at a URL.

    Raises:
        InvalidUrl: the URL has a namespace already.
    """

    def __init__(self, url: str) -> None:
        if "namespace" in parse_url(url).options:
            raise InvalidUrl("tests use namespaces of their own", hint="Leave ?namespace= out")
        self._plain = url
        self._name = f"conformance-{uuid.uuid4().hex}"
        self._used: set[str] = {""}

    @property
    @override
    def url(self) -> str | None:
        return self._url("")

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        self._used.add(namespace)
        return durably.open(self._url(namespace), clock=clock)

    @override
    async def wipe(self) -> None:
        for namespace in sorted(self._used):
            url = parse_url(self._url(namespace))
            opened = open_backend(backends.find(url.scheme), url)
            try:
                await remove_all(opened.log_store if isinstance(opened, Storage) else opened)
            finally:
                await opened.aclose()

    def _url(self, namespace: str) -> str:
        whole = f"{self._name}.{namespace}" if namespace else self._name
        joint = "&" if "?" in self._plain else "?"
        return f"{self._plain}{joint}namespace={quote(whole, safe='')}"
