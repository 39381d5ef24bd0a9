"""The one hook a backend implements, what it returns, and the markers for it."""

from collections.abc import Sequence

import msgspec
import pluggy

from durably.capabilities import Capabilities, Limits

__all__ = ["CONTRACT", "PROJECT", "BackendSpec", "durably_backends", "hookimpl", "hookspec"]

PROJECT = "durably"

CONTRACT = (1, 0)
"""The version of the contract between core and backends: a backend's major must be this one,
its minor no newer."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class BackendSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend says of itself.

    ``open`` is ``"package.module:function"``; the function takes a ``StorageUrl`` and returns a
    ``LogStore``, or a ``Storage`` with contracts of its own. ``requires`` names what it imports
    and how that is installed, as in ``(("redis", "redis>=5"),)``. ``place``, for tests, is
    ``"package.module:function"``, too; the function takes the text of a URL and returns a fresh
    ``durably.testing.Place`` beside what the URL names. Without it, tests use random namespaces.
    ``read_options`` are options of the URL, as in ``(("create", "never"),)``, that tools add which
    need a storage that is there, so that a mistyped URL creates nothing; what the URL itself says
    stays.
    """

    name: str
    schemes: tuple[str, ...]
    open: str
    contract: tuple[int, int]
    capabilities: Capabilities
    requires: tuple[tuple[str, str], ...] = ()
    limits: Limits = Limits()
    place: str = ""
    read_options: tuple[tuple[str, str], ...] = ()


@hookspec
def durably_backends() -> Sequence[BackendSpec]:
    """Describe the backends this plugin offers, as frozen data and without importing drivers."""
    raise RuntimeError("a specification is not called")
