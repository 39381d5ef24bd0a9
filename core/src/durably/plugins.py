"""Backends as plugins: known by their metadata, imported when their scheme is asked for.

A distribution that offers a backend declares an entry point in the group ``durably.backends``
for each of its URL schemes. The entry point's value is a light module with one function::

    from durably.plugins import BackendSpec, hookimpl


    @hookimpl
    def durably_backends():
        return [BackendSpec(name="redis", schemes=("redis", "rediss"), ...)]

Finding is ours and reads metadata alone: a broken plugin harms nobody else, and two that offer
one scheme are a conflict in words. pluggy checks the hook and calls it.
"""

import importlib
import os
from collections.abc import Callable
from importlib import metadata

import msgspec

from durably._asking import ask
from durably._hooks import CONTRACT, BackendSpec, hookimpl
from durably._typing import override
from durably.errors import (
    BackendBroken,
    BackendConflict,
    BackendNotInstalled,
    DurablyError,
    UnknownScheme,
)
from durably.logstore import LogStore
from durably.storage import Storage
from durably.urls import StorageUrl, closest

__all__ = [
    "CONTRACT",
    "GROUP",
    "BackendSpec",
    "Backends",
    "Offer",
    "StorageUrl",
    "backends",
    "hookimpl",
    "open_backend",
    "register",
    "unregister",
]

GROUP = "durably.backends"
DISABLE = "DURABLY_DISABLE_BACKENDS"
"""An environment variable: schemes that are not to be used, with commas between them."""

FIRST_PARTY = {"redis": "redis", "rediss": "redis", "s3": "s3", "sqlite": "sqlite"}
"""Schemes of our own distributions, and the extra that installs each."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution's claim to a scheme, read from its metadata."""

    scheme: str
    distribution: str
    version: str
    entry: metadata.EntryPoint

    @override
    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


class _Registered(msgspec.Struct, frozen=True):
    plugin: object
    spec: BackendSpec


class Backends:
    """The backends of a process: those registered, and those installed distributions offer."""

    def __init__(self) -> None:
        self._registered: dict[str, _Registered] = {}
        self._found: dict[str, BackendSpec] = {}

    def register(self, plugin: object) -> None:
        """Take an application's own plugin; its schemes win over those of distributions.

        Raises:
            BackendBroken: it does not implement the hook, or returns something else.
            BackendConflict: another registered plugin has one of its schemes.
            ContractMismatch: it was made for another contract.
        """
        who = f"the registered plugin {_label(plugin)}"
        mine = {
            scheme: _Registered(plugin, spec)
            for spec in ask(plugin, who, name=who)
            for scheme in spec.schemes
        }
        others = {
            scheme: one for scheme, one in self._registered.items() if one.plugin is not plugin
        }
        for scheme in mine:
            if scheme in others:
                rivals = (others[scheme].plugin, plugin)
                raise BackendConflict(scheme, tuple(f"plugin {_label(one)}" for one in rivals))
        self._registered = others | mine

    def unregister(self, plugin: object) -> None:
        """Forget a registered plugin.

        Raises:
            ValueError: it is not registered.
        """
        others = {
            scheme: one for scheme, one in self._registered.items() if one.plugin is not plugin
        }
        if len(others) == len(self._registered):
            raise ValueError(f"the plugin {_label(plugin)} is not registered")
        self._registered = others

    def find(self, scheme: str) -> BackendSpec:
        """Return the backend of a scheme; ``redis+cluster`` is looked up as ``redis``.

        Raises:
            UnknownScheme: nothing offers it.
            BackendNotInstalled: a distribution of ours that is not installed does, or the
                environment disables it.
            BackendConflict: two distributions do.
            BackendBroken: the one that does cannot be used.
            ContractMismatch: the one that does was made for another contract.
        """
        base = scheme.partition("+")[0]
        if base in _disabled():
            raise BackendNotInstalled(
                f"backend {base!r} is disabled", hint=f"Take it out of {DISABLE} to use it"
            )
        if base in self._registered:
            return self._registered[base].spec
        if base not in self._found:
            self._found[base] = self._load(self._offer(base))
        return self._found[base]

    def schemes(self) -> tuple[str, ...]:
        """Return every scheme that is registered or offered and not disabled, sorted."""
        names = {offer.scheme for offer in offers()} | set(self._registered)
        return tuple(sorted(names - _disabled()))

    def _offer(self, scheme: str) -> Offer:
        claims = [offer for offer in offers() if offer.scheme == scheme]
        if not claims:
            raise self._unknown(scheme)
        if len(claims) > 1:
            raise BackendConflict(scheme, tuple(claim.distribution for claim in claims))
        return claims[0]

    def _unknown(self, scheme: str) -> DurablyError:
        if scheme in FIRST_PARTY:
            extra = FIRST_PARTY[scheme]
            return BackendNotInstalled(
                f"no backend for {scheme}:// is installed",
                hint=f'Install it with: pip install "durably[{extra}]"',
            )
        known = self.schemes()
        guess = closest(scheme, {*known, *FIRST_PARTY})
        return UnknownScheme(scheme, installed=known, suggestion=guess)

    def _load(self, offer: Offer) -> BackendSpec:
        who = f"backend {offer.scheme!r} of {offer}"
        try:
            plugin = offer.entry.load()
        except Exception as error:
            raise BackendBroken(
                f"{who} failed to import: {type(error).__name__}: {error}"
            ) from error
        offered = {one.scheme for one in offers() if one.distribution == offer.distribution}
        specs = ask(plugin, who, name=offer.distribution)
        claimed = {scheme for spec in specs for scheme in spec.schemes}
        if not claimed <= offered:
            extra = ", ".join(sorted(claimed - offered))
            raise BackendBroken(f"{who} claims {extra} without an entry point of that name")
        for spec in specs:
            if offer.scheme in spec.schemes:
                return spec
        raise BackendBroken(f"{who} describes no backend for {offer.scheme}://")


def _label(plugin: object) -> str:
    return repr(getattr(plugin, "__name__", type(plugin).__name__))


def _disabled() -> set[str]:
    return {name.strip() for name in os.environ.get(DISABLE, "").split(",") if name.strip()}


def offers() -> list[Offer]:
    """Return what installed distributions offer, by their metadata; nothing is imported."""
    return sorted(
        (_offer(entry) for entry in metadata.entry_points(group=GROUP)),
        key=lambda offer: (offer.scheme, offer.distribution, offer.entry.value),
    )


def _offer(entry: metadata.EntryPoint) -> Offer:
    """Return an entry point as an offer; one that lost the rest of its metadata is nameless."""
    distribution = entry.dist
    return Offer(
        scheme=entry.name,
        distribution=(distribution and distribution.name) or "unknown",
        version=(distribution and distribution.version) or "unknown",
        entry=entry,
    )


def open_backend(spec: BackendSpec, url: StorageUrl) -> LogStore | Storage:
    """Import a backend and let it make what a URL describes.

    Raises:
        BackendNotInstalled: something it requires is not installed.
        BackendBroken: it cannot be imported for another reason, or makes something else.
        InvalidUrl: it cannot read the URL or one of its options.
    """
    try:
        opened = _imported(spec)(url)
    except DurablyError:
        raise
    except ImportError as error:
        raise _unimportable(spec, error) from error
    except Exception as error:
        raise BackendBroken(
            f"backend {spec.name!r} failed to open: {type(error).__name__}",
            hint="Its author finds the cause in the error behind this one",
        ) from error
    if not isinstance(opened, LogStore | Storage):
        raise BackendBroken(
            f"backend {spec.name!r} opened a value of type {type(opened).__name__}",
            hint="Return a LogStore or a Storage",
        )
    return opened


def _imported(spec: BackendSpec) -> Callable[[StorageUrl], object]:
    module, _, function = spec.open.partition(":")
    try:
        make: Callable[[StorageUrl], object] = getattr(importlib.import_module(module), function)
    except ImportError:
        raise
    except Exception as error:
        raise BackendBroken(
            f"backend {spec.name!r} failed to import: {type(error).__name__}: {error}"
        ) from error
    return make


def _unimportable(spec: BackendSpec, error: ImportError) -> DurablyError:
    """Say what to install, if it is a module that the backend requires; else that it is broken."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        for module, requirement in spec.requires:
            if _lies_in(error.name, module) or _lies_in(module, error.name):
                return BackendNotInstalled(
                    f"backend {spec.name!r} needs {requirement!r}, which is not installed",
                    hint=f'Install it with: pip install "{requirement}"',
                )
    return BackendBroken(f"backend {spec.name!r} failed to import: {type(error).__name__}: {error}")


def _lies_in(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


backends = Backends()
"""Those of this process."""

register = backends.register
unregister = backends.unregister
