"""Sizes and counts: what is allowed is accepted to the last byte, the next is refused in words."""

from durably import RecordTooLarge
from durably.logstore import LogId
from durably.testing import Handle
from durably_conformance.building import batch, head, log, said
from durably_conformance.context import DoesNotApply, T
from durably_conformance.keeping import keepers
from durably_conformance.registry import check

MEBIBYTE = 1024 * 1024
REACHABLE = 16 * MEBIBYTE
"""A larger limit takes too long to reach; what lies below it is tried at one mebibyte."""

COSTLY = 64 * MEBIBYTE


async def _not_stored(t: T, handle: Handle, id_: LogId) -> None:
    t.ok(await handle.log_store.read(id_) is None, "nothing of it is stored")


def _is_about(t: T, error: RecordTooLarge, size: int, limit: int) -> None:
    t.eq((error.size, error.limit), (size, limit), "size and limit that the error names")


@check("LIM-LOG-001", contract="logstore")
async def a_record_may_be_as_large_as_the_limit(t: T) -> None:
    """A record of exactly the declared limit is stored whole; one byte more is RecordTooLarge."""
    limit = t.limits.record_bytes
    handle, reader = await t.connect(), await t.connect()
    data = b"\x00\xff" * (min(limit, MEBIBYTE) // 2) if limit > REACHABLE else b"\xff" * limit
    await handle.log_store.append(log("large"), batch(data))
    stored = await reader.log_store.read(log("large"))
    t.ok(stored and stored.records[0].data == data, f"{len(data)} bytes come back as they were")
    if limit <= COSTLY:
        append = handle.log_store.append(log("larger"), batch(bytes(limit + 1)))
        error = await t.raises(RecordTooLarge, append, "a record of one byte more")
        _is_about(t, error, limit + 1, limit)
        await _not_stored(t, reader, log("larger"))


@check("LIM-LOG-002", contract="logstore")
async def a_head_may_be_as_large_as_the_limit(t: T) -> None:
    """A head of exactly the declared limit is stored whole; one byte more is RecordTooLarge."""
    limit = min(t.limits.head_bytes, REACHABLE)
    handle, reader = await t.connect(), await t.connect()
    data = b"\xff" * limit
    await handle.log_store.append(log("large"), batch(head=data))
    stored = await reader.log_store.read(log("large"))
    t.ok(stored and stored.state.head == data, f"{limit} bytes come back as they were")
    if limit == t.limits.head_bytes:
        append = handle.log_store.append(log("larger"), batch(b"1", head=bytes(limit + 1)))
        error = await t.raises(RecordTooLarge, append, "a head of one byte more")
        _is_about(t, error, limit + 1, limit)
        await _not_stored(t, reader, log("larger"))


@check(
    "LIM-REC-001",
    contract="storage",
    reports=("agno-agi/agno#3923", "agno-agi/agno#8805"),
)
async def entries_may_be_as_large_as_the_limit(t: T) -> None:
    """Entries that take exactly the declared limit are stored; one byte more stores nothing.

    The limit is in bytes of UTF-8, and for a thread it is about the whole snapshot, however
    little of it is new.
    """
    limit = t.limits.record_bytes
    handle, reader = await t.connect(), await t.connect()
    for keeper in keepers(t):
        await keeper.write(handle, "s", said("a"))
        t.eq(await keeper.read(reader, "s"), said("a"), f"small entries of {keeper}")
    if limit > REACHABLE:
        raise DoesNotApply(f"a limit of {limit} bytes takes long to reach; see LIM-LOG-001")
    for keeper in keepers(t):
        write = keeper.write(handle, "x", said("x" * limit))
        error = await t.raises(RecordTooLarge, write, f"too large entries of {keeper}")
        around = error.size - limit
        most = limit - around
        wide = "\u00e9" * (limit // 2)
        for text, size in (("x" * (most + 1), limit + 1), (wide, around + len(wide.encode()))):
            write = keeper.write(handle, "x", said(text))
            error = await t.raises(RecordTooLarge, write, f"too large entries of {keeper}")
            _is_about(t, error, size, limit)
        t.eq(await keeper.read(reader, "x"), [], f"{keeper} after the refusals")
        await keeper.write(handle, "x", said("x" * most))
        t.ok(await keeper.read(reader, "x") == said("x" * most), f"{keeper} holds the limit")
        if keeper.kind == "thread":
            write = keeper.write(handle, "x", said("x" * most, "y"))
            await t.raises(RecordTooLarge, write, "a snapshot that is too large as a whole")
        else:
            await keeper.write(handle, "x", said("y"))
            t.eq(len(await keeper.read(reader, "x")), 2, f"entries of {keeper} above one limit")


@check("LIM-HEAD-001", contract="checkpointer")
async def a_head_of_a_run_may_be_as_large_as_the_limit(t: T) -> None:
    """A run's head that takes exactly the limit is stored; one byte more stores no entry either."""
    limit = t.limits.head_bytes
    runs, other = (await t.connect()).checkpointer, (await t.connect()).checkpointer
    append = runs.append("r", said("a"), head(output="x" * limit))
    error = await t.raises(RecordTooLarge, append, "a head that is too large")
    most = 2 * limit - error.size
    append = runs.append("r", said("a"), head(output="x" * (most + 1)))
    _is_about(t, await t.raises(RecordTooLarge, append, "one byte more"), limit + 1, limit)
    t.ok(await other.load("r") is None, "nothing of it is stored")
    claim = await runs.claim("r")
    await t.raises(RecordTooLarge, claim.append([], head(output="x" * limit)), "a claim's save")
    await claim.append(said("a"), head(output="x" * most))
    run = await other.load("r")
    t.ok(run and run.head.output == "x" * most, "a head of exactly the limit comes back")
