"""The commands that installed distributions offer, found by their metadata."""

from collections.abc import Sequence
from importlib import metadata
from typing import Any

import msgspec
import typer

from durably._typing import override
from durably.commands import GROUP
from durably.errors import DurablyError

__all__ = ["CommandOffer", "add_command", "load_command", "offered_commands"]


class CommandOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution's claim to a command."""

    name: str
    distribution: str
    version: str
    entry: metadata.EntryPoint

    @override
    def __str__(self) -> str:
        return f"command {self.name!r} of {self.distribution} {self.version}"


def offered_commands() -> dict[str, list[CommandOffer]]:
    """Return the claims to each command, by its name; nothing is imported."""
    found: dict[tuple[str, str], CommandOffer] = {}
    for entry in metadata.entry_points(group=GROUP):
        distribution = entry.dist.name if entry.dist else "unknown"
        version = entry.dist.version if entry.dist else "unknown"
        offer = CommandOffer(
            name=entry.name, distribution=distribution, version=version, entry=entry
        )
        found.setdefault((entry.name, distribution), offer)
    claims: dict[str, list[CommandOffer]] = {}
    for _, offer in sorted(found.items()):
        claims.setdefault(offer.name, []).append(offer)
    return claims


def load_command(claims: Sequence[CommandOffer]) -> Any:  # noqa: ANN401 - a function, or an app
    """Import a command and try whether typer takes it.

    Raises:
        DurablyError: two distributions offer it, or the one that does cannot be used.
    """
    offer = claims[0]
    if len(claims) > 1:
        names = ", ".join(claim.distribution for claim in claims)
        raise DurablyError(
            f"command {offer.name!r} is offered by {names}", hint="Uninstall all but one of them"
        )
    try:
        command = offer.entry.load()
        trial = typer.Typer()
        add_command(trial, offer.name, command)
        typer.main.get_command(trial)
    except Exception as error:
        raise DurablyError(
            f"{offer} cannot be used: {type(error).__name__}: {error}",
            hint=f"Upgrade {offer.distribution}, or uninstall it",
        ) from error
    return command


def add_command(app: typer.Typer, name: str, command: Any) -> None:  # noqa: ANN401 - as above
    """Put a command into an app under its name.

    Raises:
        TypeError: it is neither a function nor a typer app.
    """
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    elif callable(command):
        app.command(name)(command)
    else:
        raise TypeError(f"{type(command).__name__} is neither a function nor a typer.Typer")
