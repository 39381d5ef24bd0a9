"""The version of the format: marked, respected, and the same however many open at once."""

import asyncio

from durably import SchemaTooNew
from durably.testing import Handle, contents
from durably_conformance.building import said
from durably_conformance.context import T
from durably_conformance.keeping import keepers
from durably_conformance.operations import operations
from durably_conformance.planting import format_of, plant_format
from durably_conformance.registry import check

NEWER = 1_000_000


@check(
    "SCH-NEW-001",
    contract="storage",
    requires=("log_store",),
    reports=("openai/openai-agents-python#2502", "peters/horizon#397", "google/adk-python#456"),
)
async def a_newer_format_is_refused(t: T) -> None:
    """Where a newer version wrote, every operation is SchemaTooNew and changes nothing.

    The error names both versions, the one found and the newest supported.
    """
    handle = await t.connect()
    for keeper in keepers(t):
        await keeper.write(handle, "s", said("a"))
    known = await format_of(handle)
    await plant_format(handle, NEWER)
    before = await contents(handle.log_store), await t.place.dump()
    for name, act in operations(t, "s").items():
        late = await t.connect()
        error = await t.raises(SchemaTooNew, act(late), f"{name} on a newer format")
        t.eq((error.found, error.supported >= known), (NEWER, True), "the versions it names")
        t.ok(str(NEWER) in str(error), "the error says the version it found")
        t.ok(str(error.supported) in str(error), "the error says the version it supports")
    after = await contents(handle.log_store), await t.place.dump()
    t.eq(after, before, "what is stored after the refusals")


@check("SCH-MARK-001", contract="storage", requires=("log_store",))
async def the_first_write_marks_the_format(t: T) -> None:
    """Whatever is written first, the storage says from then on which format it has."""
    for keeper in keepers(t):
        place = t.another_place()
        writer, reader = await t.connect(place), await t.connect(place)
        await keeper.write(writer, "s", said("a"))
        t.ok(await format_of(reader) >= 1, f"the format is marked after a write to {keeper}")


@check("SCH-LOOK-001", level="should", contract="storage", requires=("log_store",))
async def looking_writes_nothing(t: T) -> None:
    """Reading from an empty storage leaves it empty."""
    handle, other = await t.connect(), await t.connect()
    for keeper in keepers(t):
        t.eq(await keeper.read(handle, "s"), [], f"{keeper} of an empty storage")
    t.eq(await contents(other.log_store), {}, "what the storage holds after that")


OPENERS = 8


async def _write(t: T, handle: Handle, number: int) -> None:
    for keeper in keepers(t):
        await keeper.write(handle, f"{number}", said(f"{number}"))


@check(
    "SCH-OPEN-001",
    contract="storage",
    reports=(
        "openai/openai-agents-python#4987",
        "openai/openai-agents-python#2854",
        "google/adk-python#4446",
    ),
)
async def many_may_open_first(t: T) -> None:
    """Eight that open an empty storage at once all write, and whoever opens it later reads it."""
    handles = await asyncio.gather(*(t.connect() for _ in range(OPENERS)))
    await asyncio.gather(*(_write(t, one, number) for number, one in enumerate(handles)))
    late = await t.connect()
    for keeper in keepers(t):
        for number in range(OPENERS):
            found = await keeper.read(late, f"{number}")
            t.eq(found, said(f"{number}"), f"{keeper} written by opener {number}")
        await keeper.write(late, "late", said("late"))
        t.eq(await keeper.read(await t.connect(), "late"), said("late"), f"{keeper} written later")
