"""Backends that end what judges them: by SystemExit, a CancelledError, or by hiding a failure."""

import asyncio

import pytest

import durably
from durably.testing import Harness, MemoryPlace
from durably_conformance import judge, run, targets
from durably_conformance.cli import main
from durably_conformance.context import CheckFailed, DoesNotApply, HarnessFailed, T
from durably_conformance.logs import meanwhile
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.targets import CannotRun, harness_of, reach
from prepared import checks, holding

ENDS = (SystemExit(0), asyncio.CancelledError(), GeneratorExit())
NAMES = [type(one).__name__ for one in ENDS]


class Foul(Harness):
    """Memory, of which one method of a place or its handles ends what calls it."""

    name = "foul"
    capabilities = durably.MemoryLogStore.capabilities

    def __init__(self, end=None, where=""):
        self.end = end
        self.where = where
        self.wiped = 0

    def place(self):
        if self.where == "place":
            raise self.end
        place = MemoryPlace()
        connect = place.connect

        async def connected(**options):
            if self.where == "connect":
                raise self.end
            handle = await connect(**options)
            if self.where == "aclose":
                handle.aclose = self._closing(handle.aclose)
            if self.where == "load":
                handle.sessions.load = self._ending
            if self.where == "describe":
                handle.log_store.describe = self._ending
            return handle

        async def wiped():
            self.wiped += 1
            if self.where == "wipe":
                raise self.end

        place.connect, place.wipe = connected, wiped
        return place

    async def _ending(self, *_, **__):
        raise self.end

    def _closing(self, close):
        async def closing():
            await close()
            raise self.end

        return closing


def judged(function, harness=None):
    [one] = checks(function)
    return asyncio.run(judge(harness or MemoryMutant(), one, timeout=5.0))


async def loading(t):
    """A session can be loaded."""
    handle = await t.connect()
    t.eq(await handle.sessions.load("s"), [], "nothing")


async def expecting(t):
    """What is wrong is refused."""
    handle = await t.connect()
    await t.raises(durably.InvalidId, handle.sessions.load("s"), "a load")


@pytest.mark.parametrize("end", ENDS, ids=NAMES)
@pytest.mark.parametrize(
    ("function", "where", "status"),
    [
        (loading, "load", "failed"),
        (expecting, "load", "failed"),
        (loading, "connect", "failed"),
        (loading, "aclose", "failed"),
        (loading, "place", "error"),
        (loading, "wipe", "error"),
    ],
)
def test_an_end_is_what_a_backend_raised(end, function, where, status):
    """Whatever a backend raises is judged, and the run goes on."""
    found = judged(function, Foul(end, where))
    assert found.status == status
    assert type(end).__name__ in found.reason


def test_a_run_goes_on_and_has_a_verdict():
    """A check after one that the backend ended is judged, too."""
    report = run(Foul(SystemExit(0), "load"), checks=checks(loading, holding))
    assert [one.status for one in report.checks] == ["failed", "passed"]
    assert report.level == "nonconforming"


async def test_who_is_cancelled_is_cancelled():
    """A cancel of the run itself is no failure of the backend."""
    begun = asyncio.Event()

    async def waiting(t):
        """It waits."""
        begun.set()
        await t.raises(ValueError, asyncio.Event().wait(), "a wait")

    [one] = checks(waiting)
    task = asyncio.create_task(judge(MemoryMutant(), one))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_an_interrupt_ends_the_run():
    """Who presses Ctrl-C is not taken for a backend."""
    with pytest.raises(KeyboardInterrupt):
        judged(loading, Foul(KeyboardInterrupt(), "connect"))


@pytest.mark.parametrize("later", [DoesNotApply("no"), HarnessFailed("no"), KeyError("no"), *ENDS])
def test_the_first_failure_counts(later):
    """A failure that a check caught outweighs whatever comes later."""

    async def hiding(t):
        """It hides its failure."""
        try:
            t.fail("broken first")
        except Exception:  # noqa: BLE001 - as a careless check would
            t.ok(1, "something")
        try:
            t.fail("broken second")
        except Exception:  # noqa: BLE001 - as a careless check would
            raise later from None

    found = judged(hiding)
    assert (found.status, found.reason) == ("failed", "broken first")


@pytest.mark.parametrize("end", ENDS, ids=NAMES)
@pytest.mark.parametrize("where", ["place", "connect"])
async def test_what_ends_when_reached_cannot_run(end, where):
    """A backend that ends while it is opened cannot be judged."""
    with pytest.raises(CannotRun, match=type(end).__name__):
        await reach(Foul(end, where))


@pytest.mark.parametrize("end", ENDS, ids=NAMES)
@pytest.mark.parametrize("where", ["load", "aclose", "wipe"])
async def test_what_ends_later_is_for_the_checks(end, where):
    """What else a backend raises while it is reached is left to the checks."""
    await reach(Foul(end, where))


@pytest.mark.parametrize("end", ENDS, ids=NAMES)
def test_a_harness_that_ends_cannot_run(end, monkeypatch):
    """A function that makes a harness, and a URL that opens one, may end, too."""

    def make(*_):
        raise end

    monkeypatch.setattr(targets, "UrlHarness", make)
    monkeypatch.setattr(targets, "resolve_name", lambda _: make)
    for target in ("foul://", "pkg:harness"):
        with pytest.raises(CannotRun, match=type(end).__name__):
            harness_of(target)


def _in_a_task(where):
    """Return a harness whose backend ends in a task of its own, past whoever waits for it."""
    harness = Foul(None, where)

    async def ending(*_, **__):
        async def end():
            raise SystemExit(0)

        return await asyncio.create_task(end())

    harness._ending = ending
    return harness


def test_the_end_of_a_task_is_no_end_of_the_run():
    """SystemExit in a task of the backend's leaves no loop to go on in, and is an error."""
    with pytest.raises(RuntimeError, match="ended the event loop: SystemExit"):
        run(_in_a_task("load"), checks=checks(loading))


@pytest.mark.parametrize("where", ["load", "describe"])
def test_no_backend_ends_the_command_with_0(where, monkeypatch, capsys):
    """Without a verdict the exit code is not that of one who conforms."""
    monkeypatch.setattr("durably_conformance.commands.harness_of", lambda _: _in_a_task(where))
    monkeypatch.setattr("durably_conformance.commands.all_checks", lambda: checks(holding))
    assert main(["run", "foul://me:hunter2@host/"]) == 2
    complaint = capsys.readouterr().err
    assert "cannot be judged" in complaint
    assert "SystemExit: 0" in complaint


def test_a_description_that_fails_is_cleaned_up():
    """Where a backend cannot describe itself, its place is wiped all the same."""
    for end in (ValueError("no"), SystemExit(0)):
        harness = Foul(end, "describe")
        assert run(harness, checks=checks(holding)).backend.engine == ""
        assert harness.wiped == 1


@pytest.mark.parametrize("distribution", ["no-such-distribution", "", "a/b"])
def test_a_wrong_distribution_loses_no_report(distribution):
    """A distribution that is not installed has no version."""
    harness = Foul()
    harness.distribution = distribution
    assert run(harness, checks=checks(holding)).backend.version == ""


async def test_a_change_ends_before_its_onlookers():
    """Where a look fails, the change beside it has ended when that is told."""
    ended = []

    async def change():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(1)

    async def look():
        await asyncio.sleep(0)
        raise ValueError("seen")

    with pytest.raises(ValueError, match="seen"):
        await meanwhile(change(), look)
    assert ended == [1]


def test_what_no_timeout_can_interrupt_is_said(capsys):
    """Help says that a backend which blocks the loop cannot be interrupted."""
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "nothing can interrupt a backend that blocks the event loop" in told


async def test_every_handle_is_closed():
    """One that ends what closes it keeps no other open."""
    t = T(MemoryMutant())
    first, second = await t.connect(), await t.connect()
    closed = []

    async def close():
        closed.append(1)
        raise SystemExit(0)

    closes = first.aclose, second.aclose
    first.aclose = second.aclose = close
    with pytest.raises(CheckFailed, match="closing a handle: SystemExit: 0"):
        await t.close()
    assert closed == [1, 1]
    for close_it in closes:
        await close_it()
