"""What a stranger names, a URL or a harness of their own, as a harness that can be reached."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from pkgutil import resolve_name
from urllib.parse import quote

from durably import DurablyError, Unavailable
from durably.testing import Handle, Harness, Place
from durably_conformance.context import is_an_end, said
from durably_conformance.harness import UrlHarness

__all__ = ["CannotRun", "harness_of", "reach", "resolved"]

PATIENCE = 30.0
"""Seconds for a backend to answer at all."""

_VARIABLE = re.compile(r"\$\{([^{}]*)\}")


class CannotRun(Exception):
    """Wrong usage, or a harness that cannot be had or reached: one line, with what to do."""


def resolved(target: str) -> str:
    """Return a target with each ``${NAME}`` replaced by that environment variable.

    Inside a URL its value is percent-encoded; a target that is one reference is taken as it is.

    Raises:
        CannotRun: a variable is not set.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise CannotRun(f"the environment variable {match[1]!a} is not set")
        given = os.environ[match[1]]
        return given if whole else quote(given, safe="")

    whole = _VARIABLE.fullmatch(target) is not None
    return _VARIABLE.sub(value, target)


def harness_of(target: str) -> Harness:
    """Return the harness of a URL, or the one that ``package.module:name`` is or makes.

    Raises:
        CannotRun: there is none; the message says which and why.
    """
    return _of_url(target) if "://" in target else _of_reference(target)


def _of_url(url: str) -> Harness:
    try:
        return UrlHarness(url)
    except DurablyError as error:
        raise CannotRun(str(error)) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise CannotRun(f"{url} cannot be opened: {said(error)}") from error


def _of_reference(reference: str) -> Harness:
    module, colon, name = reference.partition(":")
    if not (module and colon and name):
        raise CannotRun(
            f"{reference!a} is no harness. Write a URL such as mydb://localhost/test,"
            " or package.module:harness"
        )
    found = _found(reference, module, name)
    if callable(found):
        found = _made(reference, found)
    if not isinstance(found, Harness):
        raise CannotRun(
            f"{reference} is no durably.testing.Harness, nor a function that returns one, but of"
            f" type {type(found).__name__}"
        )
    missing = [one for one in ("name", "capabilities") if not hasattr(found, one)]
    if missing:
        raise CannotRun(f"the harness {reference} has no {missing[0]}. Declare it in its class")
    return found


def _found(reference: str, module: str, name: str) -> object:
    try:
        return resolve_name(reference)
    except AttributeError as error:
        raise CannotRun(f"the module {module} has no {name}: {said(error)}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        hint = "Run it where the module lies, or install it"
        raise CannotRun(
            f"the harness {reference} cannot be imported: {said(error)}."
            + (f" {hint}" if isinstance(error, ModuleNotFoundError) else "")
        ) from error


def _made(reference: str, make: object) -> object:
    try:
        return make() if callable(make) else make
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise CannotRun(f"{reference} does not make a harness: {said(error)}") from error


async def reach(harness: Harness) -> None:
    """Open the backend once, so that one that is not there is not judged.

    What else is wrong with it is for the checks to say.

    Raises:
        CannotRun: it gives no place, cannot be opened, or does not answer.
    """
    try:
        place = harness.place()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise CannotRun(f"{harness.name} gives no place to test in: {said(error)}") from error
    try:
        async with asyncio.timeout(PATIENCE):
            await _look(harness, place)
    except TimeoutError as error:
        raise CannotRun(f"{harness.name} gave no answer in {PATIENCE:g} seconds") from error
    finally:
        await _tried(place.wipe)


async def _tried(ending: Callable[[], Awaitable[None]]) -> None:
    """Close or wipe something; what it raises is for a check to find."""
    try:
        await ending()
    except BaseException as error:
        if is_an_end(error):
            raise


async def _look(harness: Harness, place: Place) -> None:
    try:
        handle = await place.connect()
    except BaseException as error:
        if is_an_end(error):
            raise
        raise CannotRun(f"{harness.name} cannot be opened: {said(error)}") from error
    try:
        await _ask(harness, handle)
    finally:
        await _tried(handle.aclose)


async def _ask(harness: Harness, handle: Handle) -> None:
    """Ask for a session that nobody wrote: most backends connect with their first operation."""
    try:
        await handle.sessions.load("nobody")
    except (Unavailable, OSError) as error:
        raise CannotRun(f"{harness.name} cannot be reached: {said(error)}") from error
    except BaseException as error:
        if is_an_end(error):
            raise
        # else a check will find it, and say which rule it breaks
