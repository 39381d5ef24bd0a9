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
from collections.abc import Sequence
from importlib import metadata

import msgspec
import pluggy

from durably import _hooks
from durably._hooks import hookimpl
from durably._typing import override
from durably.capabilities import Capabilities, Limits
from durably.errors import (
    BackendBroken,
    BackendConflict,
    BackendNotInstalled,
    ContractMismatch,
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
    "backends",
    "hookimpl",
    "open_backend",
    "register",
    "unregister",
]

CONTRACT = (1, 0)
"""The version of the contract between core and backends: a backend's major must be this one,
its minor no newer."""

GROUP = "durably.backends"
DISABLE = "DURABLY_DISABLE_BACKENDS"
"""An environment variable: schemes that are not to be used, with commas between them."""

FIRST_PARTY = {"sqlite": "sqlite"}
"""Schemes of our own distributions, and the extra that installs each."""


class BackendSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend says of itself.

    ``open`` is ``"package.module:function"``; the function takes a ``StorageUrl`` and returns a
    ``LogStore``, or a ``Storage`` with contracts of its own. ``requires`` names what it imports
    and how that is installed, as in ``(("redis", "redis>=5"),)``.
    """

    name: str
    schemes: tuple[str, ...]
    open: str
    contract: tuple[int, int]
    capabilities: Capabilities
    requires: tuple[tuple[str, str], ...] = ()
    limits: Limits = Limits()


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution's claim to a scheme, read from its metadata."""

    scheme: str
    distribution: str
    version: str
    entry: metadata.EntryPoint

    @override
    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


class Backends:
    """The backends of a process: those registered, and those installed distributions offer."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager(_hooks.PROJECT)
        self._manager.add_hookspecs(_hooks)
        self._registered: dict[str, BackendSpec] = {}
        self._found: dict[str, BackendSpec] = {}

    def register(self, plugin: object) -> None:
        """Take an application's own plugin; its schemes win over those of distributions.

        Raises:
            BackendBroken: it does not implement the hook, or returns something else.
            ContractMismatch: it was made for another contract.
        """
        for spec in self._ask(plugin, f"the registered plugin {_label(plugin)}"):
            self._registered |= dict.fromkeys(spec.schemes, spec)

    def unregister(self, plugin: object) -> None:
        """Forget a registered plugin."""
        specs = self._call(plugin)
        self._manager.unregister(plugin)
        for spec in specs:
            for scheme in spec.schemes:
                self._registered.pop(scheme, None)

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
        known = self._registered.get(base) or self._found.get(base)
        if known is None:
            known = self._found[base] = self._load(self._offer(base))
        return known

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
        for spec in self._ask(plugin, who, name=offer.distribution):
            if not offered.issuperset(spec.schemes):
                claimed = ", ".join(sorted(set(spec.schemes) - offered))
                raise BackendBroken(f"{who} claims {claimed} without an entry point of that name")
            if offer.scheme in spec.schemes:
                return spec
        raise BackendBroken(f"{who} describes no backend for {offer.scheme}://")

    def _ask(self, plugin: object, who: str, *, name: str | None = None) -> Sequence[BackendSpec]:
        """Register a plugin unless it is, and return what it describes, checked."""
        was_known = self._manager.is_registered(plugin)
        try:
            if not was_known:
                self._manager.register(plugin)
            self._manager.check_pending()
            specs = self._call(plugin)
            _check(specs, who, name or who)
        except DurablyError:
            self._forget(plugin, known=was_known)
            raise
        except Exception as error:
            self._forget(plugin, known=was_known)
            raise BackendBroken(f"{who} cannot be used: {type(error).__name__}: {error}") from error
        return specs

    def _forget(self, plugin: object, *, known: bool) -> None:
        if not known and self._manager.is_registered(plugin):
            self._manager.unregister(plugin)

    def _call(self, plugin: object) -> Sequence[BackendSpec]:
        others = [one for one in self._manager.get_plugins() if one is not plugin]
        answers = self._manager.subset_hook_caller("durably_backends", others)()
        return [spec for answer in answers for spec in answer]


def _check(specs: Sequence[object], who: str, name: str) -> None:
    if not specs:
        raise BackendBroken(f"{who} implements no hook durably_backends that describes a backend")
    for spec in specs:
        if not isinstance(spec, BackendSpec):
            raise BackendBroken(f"{who} describes a {type(spec).__name__}, not a BackendSpec")
        try:
            msgspec.convert(spec, BackendSpec)
            msgspec.convert(msgspec.structs.asdict(spec), BackendSpec)
        except msgspec.ValidationError as error:
            raise BackendBroken(f"{who} describes itself wrongly: {error}") from error
        major, minor = spec.contract
        if major != CONTRACT[0] or minor > CONTRACT[1]:
            raise ContractMismatch(name, implemented=spec.contract, spoken=CONTRACT)


def _label(plugin: object) -> str:
    return repr(getattr(plugin, "__name__", type(plugin).__name__))


def _disabled() -> set[str]:
    return {name.strip() for name in os.environ.get(DISABLE, "").split(",") if name.strip()}


def offers() -> list[Offer]:
    """Return what installed distributions offer, by their metadata; nothing is imported."""
    found: dict[tuple[str, str], Offer] = {}
    for entry in metadata.entry_points(group=GROUP):
        distribution = entry.dist.name if entry.dist else "unknown"
        version = entry.dist.version if entry.dist else "unknown"
        offer = Offer(scheme=entry.name, distribution=distribution, version=version, entry=entry)
        found.setdefault((entry.name, distribution), offer)
    return sorted(found.values(), key=lambda offer: (offer.scheme, offer.distribution))


def open_backend(spec: BackendSpec, url: StorageUrl) -> LogStore | Storage:
    """Import a backend and let it make what a URL describes.

    Raises:
        BackendNotInstalled: something it requires is not installed.
        BackendBroken: it cannot be imported for another reason.
        InvalidUrl: it cannot read the URL or one of its options.
    """
    module, _, function = spec.open.partition(":")
    try:
        make = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        missing = dict(spec.requires).get((error.name or "").partition(".")[0])
        if missing is None:
            raise BackendBroken(f"backend {spec.name!r} failed to import: {error}") from error
        raise BackendNotInstalled(
            f"backend {spec.name!r} needs {missing!r}, which is not installed",
            hint=f'Install it with: pip install "{missing}"',
        ) from error
    except Exception as error:
        raise BackendBroken(
            f"backend {spec.name!r} failed to import: {type(error).__name__}: {error}"
        ) from error
    opened: LogStore | Storage = make(url)
    return opened


backends = Backends()
"""Those of this process."""

register = backends.register
unregister = backends.unregister
