"""``durably backends``: a row for each scheme, whatever state its plugin is in."""

import pytest

from cli_runs import install, objects, run

KEYS = [
    "scheme",
    "distribution",
    "version",
    "contract",
    "capabilities",
    "limits",
    "usable",
    "problem",
]
PLUGIN = """
from durably import Capabilities, Durability, Writers
from durably.plugins import BackendSpec, hookimpl

@hookimpl
def durably_backends():
    return [BackendSpec(
        name="x",
        schemes=("x",),
        open="x_store:open_url",
        contract=({major}, 0),
        requires=(("x_driver", "x-driver>=2"),),
        capabilities=Capabilities(durability=Durability.NOTHING, writers=Writers.MANY_HOSTS),
    )]
"""
GOOD = PLUGIN.format(major=1)
STORE = "def open_url(url): raise RuntimeError('never opened')\n"
FAULTS = {
    "plugin": ("raise RuntimeError('boom')", STORE, "RuntimeError: boom"),
    "contract": (PLUGIN.format(major=9), STORE, "implements contract 9.0, this durably speaks"),
    "hook": ("", STORE, "implements no hook"),
    "driver": (GOOD, "import x_driver", 'pip install "x-driver>=2"'),
    "store": (GOOD, "import no_such", "No module named 'no_such'"),
    "function": (GOOD, "", "open_url"),
    "at import": (GOOD, "1 / 0", "ZeroDivisionError"),
}


def rows(environment=None):
    """Return the rows by scheme, after a look at how they are made."""
    told = run("backends", "--json", environment=environment)
    assert (told.returncode, told.stderr) == (0, "")
    found = objects(told)
    assert all(list(row) == KEYS for row in found)
    return {row["scheme"]: row for row in found}


@pytest.fixture
def others(tmp_path):
    return {"PYTHONPATH": str(tmp_path)}


def plugin(folder, name, *, source=GOOD, store=STORE, module="x_plugin"):
    modules = {module: source, "x_store": store}
    install(folder, name, {"x": module}, group="durably.backends", **modules)


def test_ours_are_usable():
    """Memory and SQLite are there, with what they declare."""
    found = rows()
    assert found["sqlite"]["distribution"] == "durably-sqlite"
    assert found["sqlite"]["capabilities"] == {"durability": "power_loss", "writers": "one_host"}
    assert found["memory"]["limits"] == {"record_bytes": 64 * 1024 * 1024, "head_bytes": 65536}
    assert all(found[one]["usable"] and found[one]["problem"] is None for one in found)
    assert found["memory"]["contract"] == "1.0"


def test_a_table_has_a_line_for_each():
    """Without --json there is a heading and a line for each scheme."""
    heading, *lines = run("backends").stdout.splitlines()
    assert heading.split()[:3] == ["SCHEME", "DISTRIBUTION", "VERSION"]
    assert [line.split()[0] for line in lines] == sorted(rows())
    assert all(line.split()[-1] == "yes" for line in lines)


def test_a_strangers_backend_is_a_row(tmp_path, others):
    """One that can be imported is usable; nothing is opened to find out."""
    plugin(tmp_path, "x-backend")
    row = rows(others)["x"]
    assert (row["distribution"], row["version"], row["usable"]) == ("x-backend", "1.5", True)
    assert row["capabilities"] == {"durability": "nothing", "writers": "many_hosts"}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_broken_one_is_a_row_that_says_why(tmp_path, others, fault):
    """The others are as they were, and the exit code is 0."""
    source, store, reason = FAULTS[fault]
    plugin(tmp_path, "x-backend", source=source, store=store)
    found = rows(others)
    row = found.pop("x")
    assert (row["distribution"], row["usable"]) == ("x-backend", False)
    assert reason in row["problem"]
    assert found == rows()
    assert f"no: {row['problem']}"[:60] in run("backends", environment=others).stdout


def test_a_conflict_is_one_row_of_both(tmp_path, others):
    """Two that offer a scheme are named together, and neither is usable."""
    plugin(tmp_path, "x-one")
    plugin(tmp_path, "x-two", module="x_two")
    row = rows(others)["x"]
    assert (row["distribution"], row["version"]) == ("x-one, x-two", "1.5, 1.5")
    assert row["usable"] is False
    assert "offered by x-one, x-two" in row["problem"]


def test_a_disabled_one_is_a_row_that_says_so():
    """A scheme the environment disables is listed with how to use it again."""
    found = rows({"DURABLY_DISABLE_BACKENDS": "sqlite"})
    assert found["memory"]["usable"] is True
    assert found["sqlite"]["usable"] is False
    assert "DURABLY_DISABLE_BACKENDS" in found["sqlite"]["problem"]
