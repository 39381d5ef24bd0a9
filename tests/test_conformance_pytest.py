"""``suite``: the checks as tests of pytest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from durably_conformance import all_checks
from durably_conformance.pytest import suite

SUPPORT = Path(__file__).parent / "support"
CHECKS = """
import durably_conformance.pytest as front
from durably_conformance.selftest.mutating import MemoryMutant
from prepared import broken, checks, holding, vacuous

front.all_checks = lambda: (
    *checks(holding, broken, vacuous),
    *checks(broken, first=4, level="should"),
    *checks(broken, holding, first=5),
    *checks(broken, first=7, requires=("durability",)),
    *checks(broken, first=8, family="crash"),
)
harness = MemoryMutant()
harness.known_failures = {"CHK-005": "somebody/something#7", "CHK-006": "somebody/something#8"}
TestMine = front.suite(harness)
"""
UNREACHABLE = """
from durably_conformance.pytest import suite

TestUrl = suite("sqlite:////no/such/folder/x.db")
TestReference = suite("no_such_module:harness")
"""


pytestmark = pytest.mark.xdist_group("suite")


def run_pytest(folder, source, *arguments):
    """Run pytest on a file in an empty folder, and return what it printed."""
    (folder / "test_mine.py").write_text(source)
    path = os.pathsep.join(filter(None, [str(SUPPORT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "pytest", "--color=no", "-W", "error"]
    command += ["-p", "no:cacheprovider", "-p", "no:asyncio"]
    told = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 1, told.stdout + told.stderr
    return told.stdout


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """What pytest prints of checks that come to every status."""
    return run_pytest(tmp_path_factory.mktemp("mine"), CHECKS, "-v", "-rxs")


def test_a_test_for_each_check(out):
    """Each check ends as the verdict counts it: what it forgives is an expected failure."""
    for number, outcome in enumerate(
        ("PASSED", "FAILED", "FAILED", "XFAIL", "XFAIL", "FAILED", "SKIPPED"), 1
    ):
        assert f"TestMine::test_check[CHK-{number:03}] {outcome}" in out
    assert "CHK-008" not in out


def test_a_failure_is_its_rule_and_no_traceback(out):
    """A failure says id, rule, what was got and wanted, and nothing else."""
    assert (
        "CHK-002: It does not hold.\n"
        "  what was stored: got 'got it', want 'wanted it'\n"
        "  What it asks for: durably-conformance explain CHK-002\n"
    ) in out
    assert "prepared.py" not in out


@pytest.mark.parametrize(
    "reason",
    [
        "CHK-003: It asserts nothing.\n  not judged: vacuous: it asserted nothing",
        "test_check[CHK-004] - should: what was stored: got",
        "test_check[CHK-005] - must: somebody/something#7 (what was stored: got",
        "  passed in spite of its excuse: it passes, so the excuse is stale: somebody/something#8",
        "durability: nothing",
    ],
)
def test_each_outcome_says_why(out, reason):
    """What is no pass carries its reason: the declared one, the excuse, or what went wrong."""
    assert reason in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-x",), "1 failed, 1 passed"),
        (("-k", "CHK-002"), "1 failed, 6 deselected"),
        (("-n", "2"), "3 failed, 1 passed, 1 skipped, 2 xfailed"),
    ],
)
def test_options_work_as_ever(tmp_path, arguments, words):
    """Since checks are tests of their own, -x, -k and xdist do what they do."""
    assert words in run_pytest(tmp_path, CHECKS, *arguments)


def test_a_harness_that_is_not_there_fails_in_words(tmp_path):
    """What cannot be imported or opened is collected, and each test of it says which and why."""
    told = run_pytest(tmp_path, UNREACHABLE, "-k", "HAR-001")
    assert "sqlite cannot be opened: " in told
    assert "the harness no_such_module:harness cannot be imported: ModuleNotFoundError" in told
    assert "targets.py" not in told


def ids(made):
    (mark,) = made.test_check.pytestmark
    return [one.id for one in mark.args[1]]


def test_the_profile_full_has_every_family():
    """Quick leaves out the families that take their time; full has all checks."""
    assert ids(suite("memory://", profile="full")) == [one.id for one in all_checks()]
    named = [one.id for one in all_checks() if one.family == "named"]
    assert ids(suite("memory://")) == named


def test_some_checks_can_be_chosen():
    """Only those are tests that one of the ids or patterns names."""
    made = suite("memory://", only=("HAR-001", "LOG-APP-00[12]", "NONE-*"))
    assert ids(made) == ["HAR-001", "LOG-APP-001", "LOG-APP-002"]


def test_pytest_is_needed_by_that_module_alone():
    """The suite and its command run where pytest is not installed."""
    code = "import sys; sys.modules['pytest'] = None; import durably_conformance.cli"
    subprocess.run([sys.executable, "-c", code], check=True)
