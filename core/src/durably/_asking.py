"""Asking a plugin what it describes: pluggy calls its hook, and the answer is checked."""

from collections.abc import Sequence
from typing import cast

import msgspec
import pluggy

from durably import _hooks
from durably._hooks import CONTRACT, BackendSpec
from durably.errors import BackendBroken, ContractMismatch

__all__ = ["ask"]

HOOK = _hooks.durably_backends.__name__


def ask(plugin: object, who: str, *, name: str) -> Sequence[BackendSpec]:
    """Return what a plugin describes, checked.

    Each is asked by a manager of its own, so that one that was refused is refused again in the
    same words, and one module may stand behind several schemes.

    Raises:
        BackendBroken: it implements no such hook, or the hook fails or returns something else.
        ContractMismatch: it describes a backend made for another contract.
    """
    manager = pluggy.PluginManager(_hooks.PROJECT)
    manager.add_hookspecs(_hooks)
    try:
        manager.register(plugin)
        manager.check_pending()
        answers = getattr(manager.hook, HOOK)()
    except Exception as error:
        raise BackendBroken(f"{who} cannot be used: {type(error).__name__}: {error}") from error
    if not answers:
        raise BackendBroken(f"{who} implements no hook {HOOK} that describes a backend")
    return _checked(answers[0], who, name)


def _checked(answer: object, who: str, name: str) -> Sequence[BackendSpec]:
    """Return the answer of a plugin's hook, if it is what the hook must return."""
    if not isinstance(answer, list | tuple):
        raise BackendBroken(
            f"{who} is described by a value of type {type(answer).__name__}",
            hint=f"Return a list of BackendSpec from {HOOK}",
        )
    specs = [_checked_spec(spec, who, name) for spec in cast("Sequence[object]", answer)]
    if not specs:
        raise BackendBroken(f"{who} implements no hook {HOOK} that describes a backend")
    schemes = [scheme for spec in specs for scheme in spec.schemes]
    if len(set(schemes)) < len(schemes):
        raise BackendBroken(f"{who} describes one scheme twice")
    return specs


def _checked_spec(spec: object, who: str, name: str) -> BackendSpec:
    if not isinstance(spec, BackendSpec):
        raise BackendBroken(f"{who} describes a {type(spec).__name__}, not a BackendSpec")
    try:
        checked = msgspec.convert(msgspec.structs.asdict(spec), BackendSpec)
    except msgspec.ValidationError as error:
        raise BackendBroken(f"{who} describes itself wrongly: {error}") from error
    major, minor = checked.contract
    if major != CONTRACT[0] or minor > CONTRACT[1]:
        raise ContractMismatch(name, implemented=checked.contract, spoken=CONTRACT)
    return checked
