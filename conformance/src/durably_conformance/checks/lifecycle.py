"""Opening, closing, cancelling, and other event loops: nothing half done, nothing in silence."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

from durably import DurablyError, RunHead, StorageClosed, WrongLoop
from durably.testing import Handle
from durably_conformance.building import said
from durably_conformance.context import T
from durably_conformance.keeping import Keeper, keepers
from durably_conformance.operations import operations
from durably_conformance.registry import check

PAIR = said("one", "two")
STEPS = range(6)
"""How many turns of the loop a call is given before something happens to it."""


@check(
    "LIFE-CLOSE-001",
    contract="storage",
    reports=("openai/openai-agents-python#4035", "openai/openai-agents-python#4109"),
)
async def nothing_works_after_a_close(t: T) -> None:
    """After a close every operation is StorageClosed, also that of nothing, and changes nothing."""
    handle, other = await t.connect(), await t.connect()
    for keeper in keepers(t):
        await keeper.write(handle, "s", PAIR)
        t.eq(await keeper.read(other, "s"), PAIR, f"{keeper} before the close")
    claim = await handle.checkpointer.claim("s") if t.capabilities.checkpointer else None
    await handle.aclose()
    for name, act in operations(t, "s").items():
        await t.raises(StorageClosed, act(handle), f"{name} after a close")
    if claim is not None:
        await t.raises(StorageClosed, claim.append(PAIR, RunHead()), "a claim's append")
        await t.raises(StorageClosed, claim.delete(), "a claim's delete")
    for keeper in keepers(t):
        t.eq(await keeper.read(other, "s"), PAIR, f"{keeper} as another handle sees it")


@check("LIFE-CLOSE-002", contract="storage")
async def closing_again_does_nothing(t: T) -> None:
    """Closing again does nothing, whether afterwards, at the same time or before any use."""
    unused, used, other = await t.connect(), await t.connect(), await t.connect()
    for keeper in keepers(t):
        await keeper.write(used, "s", PAIR)
        t.eq(await keeper.read(other, "s"), PAIR, f"{keeper} before the close")
    for handle in (unused, used):
        closed = await asyncio.gather(*(handle.aclose() for _ in range(3)), return_exceptions=True)
        t.eq(closed, [None] * 3, "what three closes at once answer")
        await handle.aclose()
    for keeper in keepers(t):
        t.eq(await keeper.read(other, "s"), PAIR, f"{keeper} as another handle sees it")


async def _started(call: Awaitable[object], steps: int) -> "asyncio.Future[object]":
    """Start a call, and give it so many turns of the loop."""
    task = asyncio.ensure_future(call)
    for _ in range(steps):
        await asyncio.sleep(0)
    return task


@check("LIFE-CLOSE-003", contract="storage", reports=("openai/openai-agents-python#4035",))
async def a_close_meets_a_write(t: T) -> None:
    """A write that meets a close is acknowledged and there, or refused; never half of it."""
    reader = await t.connect()
    for keeper in keepers(t):
        for steps in STEPS:
            handle = await t.connect()
            await keeper.read(handle, f"{steps}")
            task = await _started(keeper.write(handle, f"{steps}", PAIR), steps)
            await handle.aclose()
            [outcome] = await asyncio.gather(task, return_exceptions=True)
            found = await keeper.read(reader, f"{steps}")
            if isinstance(outcome, BaseException):
                t.is_a(outcome, DurablyError, f"what a write to {keeper} raises")
                t.ok(found in ([], PAIR), f"{keeper} has all of a refused write or nothing")
            else:
                t.eq(found, PAIR, f"what {keeper} has of an acknowledged write")


@check(
    "LIFE-CANCEL-001",
    contract="storage",
    reports=(
        "openai/openai-agents-python#4203",
        "TokenRhythm/opensquilla#1586",
        "redis/redis-py#2624",
    ),
)
async def a_cancelled_write_is_whole_or_absent(t: T) -> None:
    """A write cancelled at each of its first turns is there whole or absent, the next one works."""
    handle, other = await t.connect(), await t.connect()
    for keeper in keepers(t):
        for steps in STEPS:
            id_ = f"{steps}"
            task = await _started(keeper.write(handle, id_, PAIR), steps)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            found = await keeper.read(other, id_)
            t.ok(found in ([], PAIR), f"{keeper} has all of a cancelled write or nothing")
            for next_ in (handle, other):
                await keeper.write(next_, f"next {steps}", PAIR)
            found = await keeper.read(handle, f"next {steps}")
            t.eq(found[-2:], PAIR, f"what {keeper} has of the next write")


def _in_another_loop(call: Callable[[], Awaitable[object]]) -> "asyncio.Future[object]":
    """Make a call in an event loop of a thread of its own; the future has what came of it."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[object] = loop.create_future()

    async def awaited() -> object:
        return await call()

    def tell(outcome: object) -> None:
        if not answer.done():
            answer.set_result(outcome)

    def run() -> None:
        try:
            outcome: object = asyncio.run(awaited())
        except BaseException as error:  # noqa: BLE001 - told to the check, whatever it is
            outcome = error
        loop.call_soon_threadsafe(tell, outcome)

    threading.Thread(target=run, daemon=True).start()
    return answer


@check("LIFE-LOOP-001", contract="storage", reports=("redis-developer/langgraph-redis#179",))
async def a_second_loop_works_or_is_refused(t: T) -> None:
    """A handle used in a second event loop works there, or is refused with WrongLoop at once."""
    handle = await t.connect()
    for keeper in keepers(t):
        await keeper.write(handle, "s", PAIR)
        answers = (
            await _in_another_loop(lambda: keeper.read(handle, "s")),  # noqa: B023 - awaited here
            await _in_another_loop(lambda: _written(keeper, handle)),  # noqa: B023
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                t.is_a(answer, WrongLoop, f"what {keeper} raises in a second loop")
            else:
                t.eq(answer, PAIR, f"what {keeper} answers in a second loop")
        await keeper.write(handle, "after", PAIR)
        t.eq(await keeper.read(handle, "after"), PAIR, f"{keeper} in the first loop afterwards")


async def _written(keeper: Keeper, handle: Handle) -> object:
    await keeper.write(handle, "second", PAIR)
    return await keeper.read(handle, "second")
