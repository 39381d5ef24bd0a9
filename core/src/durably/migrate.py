"""Snapshots of an earlier version of an application, brought up to date one version at a time."""

import copy
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

import msgspec

from durably.checks import check_count
from durably.codec import named
from durably.entries import JsonObject
from durably.errors import MigrationError, SchemaTooNew

__all__ = ["Migrators", "Step", "check_known", "version_of"]

Step: TypeAlias = Callable[[JsonObject], JsonObject]
"""Takes the JSON object of a snapshot and returns that of the next version."""


class Migrators(msgspec.Struct, frozen=True, kw_only=True):
    """The version of snapshots an application writes, and the steps up to it.

    A step ``n`` takes a snapshot of version ``n`` as its whole JSON object, messages and what
    this version of durably does not know included, and returns it at version ``n + 1``; the
    object is the step's own, to be changed as it likes. Where the step leaves ``version`` alone
    it is set. A snapshot stored without a version has version 0, from which a step changes
    nothing unless one is given.

    Raises:
        InvalidLimit: ``version`` is not an integer of at least 1, or a step is not from a
            version below it.
        TypeError: a step cannot be called.
    """

    version: int
    steps: Mapping[int, Step] = {}

    def __post_init__(self) -> None:
        check_count("version", self.version, minimum=1)
        for number, step in self.steps.items():
            check_count("a step's version", number, maximum=self.version - 1)
            if not callable(step):
                raise TypeError(f"step {number} cannot be called: it is {named(step)}")
        msgspec.structs.force_setattr(self, "steps", dict(self.steps))

    def migrate(self, snapshot: JsonObject, *, place: str = "the snapshot") -> JsonObject:
        """Return a snapshot at ``version``; the one given stays as it is.

        This is what reading does; call it to test steps against what was stored. ``place`` is
        the snapshot's name in errors.

        Raises:
            InvalidLimit: the snapshot's version is not an integer of at least 0.
            SchemaTooNew: it is of a later version than this one.
            MigrationError: a step is missing, failed, left its version out, or returned what is
                no JSON object.
        """
        found = version_of(snapshot)
        check_known(found, self, place)
        try:
            migrated = copy.deepcopy(snapshot)
        except RecursionError:
            raise MigrationError(
                place, found=found, wanted=self.version, reason="it is nested too deep"
            ) from None
        for number in range(found, self.version):
            try:
                migrated = self._advanced(migrated, number)
            except _StepError as error:
                raise MigrationError(
                    place, found=found, wanted=self.version, reason=str(error)
                ) from error.__cause__
        return migrated

    def _advanced(self, snapshot: JsonObject, number: int) -> JsonObject:
        """Return a snapshot of one version at the next one."""
        step = self.steps.get(number, _leave if number == 0 else None)
        if step is None:
            raise _StepError(f"there is no step from version {number}")
        try:
            advanced = cast("object", step(snapshot))
        except Exception as error:
            raise _StepError(f"step {number} raised {type(error).__name__}") from error
        if not isinstance(advanced, dict):
            raise _StepError(f"step {number} returned {named(advanced)}, not a JSON object")
        fields = dict(cast("JsonObject", advanced))
        version = fields.get("version", number)
        if type(version) is not int or version not in {number, number + 1}:
            shown = version if type(version) is int else named(version)
            raise _StepError(f"step {number} set the version {shown}, not {number + 1}")
        fields["version"] = number + 1
        return fields


class _StepError(Exception):
    pass


def _leave(snapshot: JsonObject) -> JsonObject:
    return snapshot


def version_of(snapshot: JsonObject) -> int:
    """Return the version a snapshot's JSON object names, 0 where it names none.

    Raises:
        InvalidLimit: it is not an integer of at least 0.
    """
    version = snapshot.get("version", 0)
    check_count("version", version)
    return int(version)


def check_known(found: int, migrators: Migrators, place: str) -> None:
    """Refuse a version later than that of the migrators.

    Raises:
        SchemaTooNew: it is.
    """
    if found > migrators.version:
        raise SchemaTooNew(
            place, found=found, supported=migrators.version, distribution="the application"
        )
