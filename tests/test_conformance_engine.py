"""The engine of the conformance suite: what becomes of a check, and of a run."""

import asyncio
import subprocess
import sys
from types import SimpleNamespace

import pytest

from durably import Capabilities, Durability, MemoryLogStore, Support, Writers
from durably.testing import KINDS, MemoryPlace
from durably_conformance import Registry, Report, UrlHarness, all_checks, judge, run
from durably_conformance.building import batch, log, said
from durably_conformance.harness import NamespacePlace
from durably_conformance.registry import FAMILIES
from durably_conformance.report import digest_of
from durably_conformance.selftest.mutating import MemoryMutant

NO_TRIM = Capabilities(
    durability=Durability.NOTHING, writers=Writers.ONE_PROCESS, trim=Support.no("sealed")
)
LINK = "https://example.org/1"


def one_check(function, **options):
    """Return a function as a check."""
    registry = Registry()
    registry.check("CHK-001", **({"contract": "session"} | options))(function)
    return registry.checks[0]


async def passing(t):
    """It holds."""
    t.eq(1, 1, "one")


async def failing(t):
    """It does not hold."""
    t.eq("x" * 10_000, "y" * 10_000, "a long text")


async def vacuous(t):
    """It asserts nothing."""
    await t.connect()


async def hanging(t):
    """It never ends."""
    t.ok(1, "something")
    await asyncio.Event().wait()


async def swallowing(t):
    """It catches its own failure."""
    try:
        t.fail("broken")
    except Exception:  # noqa: BLE001 - as a careless check would
        t.ok(1, "something")


async def raising(t):
    """It meets an error of the backend's driver."""
    t.ok(1, "something")
    raise KeyError("driver")


async def unfired(t):
    """Its fault does not happen."""
    t.ok(1, "something")
    t.fired("answers_cut", 0)


def verdict(function, *, harness=None, timeout=5.0, **options):
    one = one_check(function, **options)
    return asyncio.run(judge(harness or MemoryMutant(), one, timeout=timeout))


@pytest.mark.parametrize(
    ("function", "status", "reason"),
    [
        (passing, "passed", None),
        (failing, "failed", "a long text: got"),
        (vacuous, "error", "vacuous"),
        (hanging, "error", "hung"),
        (swallowing, "failed", "broken"),
        (raising, "failed", "raised KeyError: 'driver'"),
        (unfired, "failed", "the fault did not fire: answers_cut"),
    ],
)
def test_statuses(function, status, reason):
    """A check passes, fails, or could not judge; but for a pass, it says why in short."""
    found = verdict(function, timeout=0.05 if function is hanging else 5.0)
    assert found.status == status
    assert (found.reason or "").startswith(reason or "")
    assert len(found.reason or "") <= 400


def test_a_capability_declared_absent_is_unsupported():
    """A check of what is declared absent does not run, and repeats the reason."""
    found = verdict(failing, harness=MemoryMutant(capabilities=NO_TRIM), requires=("trim",))
    assert (found.status, found.reason) == ("unsupported", "trim: no: sealed")


def test_a_weak_durability_is_unsupported():
    """A check that requires durability does not apply to memory."""
    assert verdict(failing, requires=("durability",)).reason == "durability: nothing"


def test_an_undeclared_capability_is_not_guessed():
    """A harness that does not say whether it has something does not conform."""
    bare = SimpleNamespace(**dict.fromkeys(("sessions", "log_store"), 1))
    harness = MemoryMutant(capabilities=bare)
    assert verdict(passing, harness=harness, requires=("trim",)).status == "undeclared"


def test_known_failures_fail_the_verdict_and_go_stale():
    """A known failure is named as one; a check that passes in spite of its excuse is not."""
    harness = MemoryMutant()
    harness.known_failures = {"CHK-001": LINK}
    assert verdict(failing, harness=harness).status == "known_failure"
    assert verdict(passing, harness=harness).status == "unexpected_pass"
    report = run(harness, checks=[one_check(passing)])
    assert report.level == "nonconforming"


def test_an_excuse_for_no_check_is_stale():
    """An excuse that names no check keeps a backend from conforming."""
    harness = MemoryMutant()
    harness.known_failures = {"CHK-999": LINK}
    report = run(harness, checks=[one_check(passing)])
    assert report.why == ("known_failures names CHK-999, which is no check",)


def test_a_broken_harness_is_an_error():
    """A harness that has no place cannot be judged, and that is no failure of the backend."""

    def broken(_):
        raise OSError("no server")

    found = verdict(vacuous, harness=MemoryMutant(place=broken))
    assert (found.status, found.reason) == ("error", "no place: OSError: no server")


@pytest.mark.parametrize(
    ("function", "options", "level"),
    [
        (passing, {}, "core"),
        (failing, {}, "nonconforming"),
        (vacuous, {}, "incomplete"),
        (failing, {"level": "should"}, "incomplete"),
        (failing, {"level": "candidate"}, "incomplete"),
    ],
)
def test_levels(function, options, level):
    """One word says it; a check that is no must makes and breaks no verdict."""
    assert run(MemoryMutant(), checks=[one_check(function, **options)]).level == level


def test_what_was_left_out_is_incomplete():
    """A run of some checks is never a pass, and says which were left out."""
    report = run(UrlHarness("memory://"), only=["HAR-*", "SES-IDEM-001"])
    assert report.level == "incomplete"
    assert report.result("SES-IDEM-001").status == "passed"
    assert report.result("CKP-APP-001").reason == "not chosen"


def test_full_needs_every_family():
    """The level full takes a passed check of every family, and none that did not run."""
    registry = Registry()
    for number, family in enumerate(FAMILIES):
        registry.check(f"CHK-00{number}", contract="session", family=family)(passing)
    whole = registry.checks
    assert run(MemoryMutant(), checks=whole, profile="full").level == "full"
    assert run(MemoryMutant(), checks=whole, profile="quick").level == "core"
    less = run(MemoryMutant(), checks=whole[:-1], profile="full")
    assert (less.level, less.why) == ("core", ("the suite has no network checks",))


def test_a_dishonest_harness_stops_the_run():
    """Where a check about the harness does not pass, nothing else runs."""
    registry = Registry()
    registry.check("CHK-001", contract="session")(passing)
    registry.check("HAR-001", contract="harness")(failing)
    report = run(MemoryMutant(), checks=registry.checks)
    assert [one.status for one in report.checks] == ["failed", "not_run"]
    assert report.level == "nonconforming"


@pytest.mark.parametrize(
    ("id_", "options", "words"),
    [
        ("CHK-001", {}, "two checks are called"),
        ("check one", {}, "is no id"),
        ("CHK-002", {"requires": ("wings",)}, "'wings', which is no capability"),
    ],
)
def test_the_registry_refuses(id_, options, words):
    """An id that is taken or none, and an unknown capability, are refused."""
    registry = Registry()
    registry.check("CHK-001", contract="session")(passing)
    with pytest.raises(ValueError, match=words):
        registry.check(id_, contract="session", **options)(passing)


def test_the_registry_asks_for_a_rule():
    """A check without a docstring is refused."""

    async def nameless(t):
        t.ok(1, "one")

    with pytest.raises(ValueError, match="that is its rule"):
        one_check(nameless)


def test_equal_seeds_give_equal_reports():
    """Two runs with one seed differ in times alone, and come back from JSON as they were."""

    def timeless(report):
        document = report.to_json()
        assert Report.from_json(document) == report
        environment = report.environment
        results = [(one.id, one.status, one.assertions, one.reason) for one in report.checks]
        return (report.suite, report.counts, report.why, environment.python, results)

    first, second = (timeless(run(UrlHarness("memory://"), seed=7)) for _ in range(2))
    assert first == second


def test_the_digest_covers_ids_levels_and_source():
    """A check more, another level, or another text gives another digest."""
    whole = all_checks()
    registry = Registry()
    for number, level in enumerate(("must", "should")):
        registry.check(f"CHK-00{number}", level=level, contract="session")(passing)
    one, other = registry.checks
    digests = {digest_of(whole), digest_of(whole[1:]), digest_of([one]), digest_of([other])}
    assert len(digests) == 4
    assert digest_of(whole) == digest_of(tuple(reversed(whole)))


SCRIPT = """
from durably_conformance import run
from durably_conformance.selftest.hollow import Hollow
from durably_conformance.selftest.mutants_sessions import MUTANTS
print(run(Hollow()).level, [run(one.harness()).level for one in MUTANTS])
"""


def test_optimized_python_gives_the_same_verdict():
    """``python -O`` removes asserts, and changes no verdict."""
    told = {
        flag: subprocess.run(
            [sys.executable, *flag, "-c", SCRIPT], capture_output=True, text=True, check=True
        ).stdout
        for flag in ((), ("-O",))
    }
    assert told[()] == told["-O",]
    assert "core" not in told[()]


@pytest.mark.parametrize("scheme", ["memory://", "sqlite://", "sqlite:///{}/x.db"])
def test_a_url_is_a_harness(scheme, tmp_path):
    """A URL is enough to judge an installed backend, and leaves nothing behind."""
    report = run(UrlHarness(scheme.format(tmp_path)))
    assert report.level == "core", report.why
    assert list(tmp_path.iterdir()) == []


async def test_random_namespaces_are_isolated_and_wiped(tmp_path):
    """Where a backend describes no places, random namespaces of one storage serve as them."""
    url = f"sqlite:///{tmp_path}/x.db"
    one, other = NamespacePlace(url), NamespacePlace(url)
    handles = [await place.connect() for place in (one, other)]
    await handles[0].sessions.append("s", said("a"))
    await handles[0].log_store.append(log(), batch(b"a"))
    assert await handles[1].sessions.load("s") == []
    await one.wipe()
    assert await handles[0].sessions.load("s") == []
    for handle in handles:
        await handle.aclose()


async def test_a_wiped_place_in_memory_is_empty():
    """Wiping removes every log of the kinds that tests use."""
    place = MemoryPlace()
    handle = await place.connect()
    for kind in KINDS:
        await handle.log_store.append(log(kind=kind), batch(b"a"))
    assert len(await place.dump()) >= len(KINDS)
    await place.wipe()
    assert await place.dump() == {}
    await handle.aclose()


def test_support_that_says_no_says_why():
    """A no without a reason is refused, and a no is false."""
    with pytest.raises(ValueError, match="why"):
        Support.no(" ")
    assert not Support.no("sealed")
    assert MemoryLogStore.capabilities.rewind
