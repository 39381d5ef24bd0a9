"""The one hook a backend implements, and the markers for it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from durably.plugins import BackendSpec

__all__ = ["PROJECT", "durably_backends", "hookimpl", "hookspec"]

PROJECT = "durably"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def durably_backends() -> "Sequence[BackendSpec]":
    """Describe the backends this plugin offers, as frozen data and without importing drivers."""
    raise RuntimeError("a specification is not called")
