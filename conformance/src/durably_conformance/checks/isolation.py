"""One storage holds many kinds of things, in many namespaces: none is taken for another."""

from durably.testing import Handle
from durably_conformance.building import head, said, snapshot
from durably_conformance.context import T
from durably_conformance.reading_back import walked
from durably_conformance.registry import check

LEAKS = (
    "google/adk-python#1641",
    "google/adk-python-community#180",
    "microsoft/agent-framework#7471",
    "microsoft/agent-framework#5942",
)
CONTRACTS = ("sessions", "checkpointer", "checkpoint_saver")


async def _write(handle: Handle, contract: str, id_: str, text: str) -> None:
    """Store a text under an id by one contract."""
    match contract:
        case "sessions":
            await handle.sessions.append(id_, said(text), run_id=id_)
        case "checkpointer":
            await handle.checkpointer.append(id_, said(text), head())
        case _:
            await handle.checkpoint_saver().append(id_, snapshot(text))


async def _read(handle: Handle, contract: str, id_: str) -> list[object]:
    """Return what one contract has stored under an id."""
    match contract:
        case "sessions":
            return list(await handle.sessions.load(id_))
        case "checkpointer":
            run = await handle.checkpointer.load(id_)
            return [] if run is None else list(run.entries)
        case _:
            found = await handle.checkpoint_saver().list(id_)
            return [entry for one in found for entry in one.snapshot.messages]


async def _remove(handle: Handle, contract: str, id_: str) -> None:
    """Remove what one contract has stored under an id."""
    match contract:
        case "sessions":
            await handle.sessions.clear(id_)
        case "checkpointer":
            await handle.checkpointer.delete(id_)
        case _:
            await handle.checkpoint_saver().delete(id_)


@check("ISO-001", contract="storage", requires=CONTRACTS, reports=LEAKS)
async def one_id_is_three_things(t: T) -> None:
    """One id as a session, as a run and as a thread is three things, each removed alone."""
    one, other = await t.connect(), await t.connect()
    for id_ in ("same", "a/b", "*"):
        for contract in CONTRACTS:
            await _write(one, contract, id_, contract)
        for contract in CONTRACTS:
            t.eq(await _read(other, contract, id_), said(contract), f"{contract} of {id_!a}")
        for position, contract in enumerate(CONTRACTS):
            await _remove(other, contract, id_)
            t.eq(await _read(one, contract, id_), [], f"{contract} of {id_!a} after its removal")
            for later in CONTRACTS[position + 1 :]:
                t.eq(await _read(one, later, id_), said(later), f"{later} of {id_!a}, not removed")


SPACES = ("", "a", "A", "a/b", "a ", "x")


@check("ISO-002", contract="storage", requires=("namespaces",), reports=LEAKS)
async def namespaces_share_nothing(t: T) -> None:
    """The same ids in two namespaces are different things, and removing one removes no other."""
    contracts = [name for name in CONTRACTS if getattr(t.capabilities, name)]
    handles = {space: await t.connect(namespace=space) for space in SPACES}
    for space, handle in handles.items():
        for contract in contracts:
            t.eq(
                await _read(handle, contract, f"x {contract}"),
                [],
                f"{contract} in a fresh {space!a}",
            )
            await _write(handle, contract, f"x {contract}", space)
    later = await t.connect(namespace="a")
    for contract in contracts:
        t.eq(
            await _read(later, contract, f"x {contract}"),
            said("a"),
            f"{contract} in 'a', opened later",
        )
        await _remove(later, contract, f"x {contract}")
    for space, handle in handles.items():
        for contract in contracts:
            want = [] if space == "a" else said(space)
            t.eq(await _read(handle, contract, f"x {contract}"), want, f"{contract} in {space!a}")
        if t.capabilities.checkpointer:
            t.eq(len(await walked(t, handle)), int(space != "a"), f"runs listed in {space!a}")
