"""``durably-conformance``: what a stranger types, reads, and gets as an exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from durably import plugins
from durably_conformance import all_checks, commands
from durably_conformance.cli import main
from durably_conformance.masking import Mask
from plugin_site import made
from prepared import broken, checks, holding, proof, report, vacuous, write

ROOT = Path(__file__).parent.parent
COMMANDS = ("run", "explain", "list", "matrix", "diff", "selftest")
SECRET = "hunter2"  # noqa: S105 - what must not be seen
PROVED = "Proved: 1 wrong backend fail exactly the checks they name"
LEAKY = """
import durably


class Leaky(durably.MemoryLogStore):
    async def append(self, log, batch):
        raise RuntimeError("no such user, or password hunter2 is wrong")


def open_url(url):
    return Leaky(namespace=url.options.get("namespace", ""))
"""
HARNESSES = """
import durably
from durably.testing import Harness, MemoryPlace


class Mine(Harness):
    name = "mine"
    capabilities = durably.MemoryLogStore.capabilities

    def place(self):
        return MemoryPlace()


class Nameless(Harness):
    def place(self):
        return MemoryPlace()


class Placeless(Mine):
    def place(self):
        raise OSError("no server at mydb://me:hunter2@localhost")


class Closed(Mine):
    def place(self):
        place = MemoryPlace()
        place.connect = self.connect
        return place

    async def connect(self, **_):
        raise durably.Unavailable("nobody listens")


harness = Mine()
number = 7
"""


@pytest.fixture
def told(capsys, monkeypatch):
    """Run a command in this process and return its exit code, its output and its complaint."""
    monkeypatch.setenv("COLUMNS", "100")

    def told(*arguments):
        code = main([*map(str, arguments)])
        out, complaint = capsys.readouterr()
        return code, out, complaint

    return told


@pytest.fixture
def harnesses(tmp_path, monkeypatch):
    """A module of harnesses in the current folder."""
    (tmp_path / "my_harnesses.py").write_text(HARNESSES)
    (tmp_path / "my_broken.py").write_text("import no_such_driver\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in ("my_harnesses", "my_broken"):
        sys.modules.pop(name, None)


@pytest.fixture
def given(monkeypatch):
    """Have the commands know these checks alone."""

    def given(*functions, **options):
        found = checks(*functions, **options)
        monkeypatch.setattr(commands, "all_checks", lambda: found)

    return given


def test_a_backend_that_conforms(told, tmp_path):
    """A run of every check on memory conforms, says so, and writes its report."""
    code, out, complaint = told("run", "memory://", "--json", tmp_path / "report.json")
    assert (code, complaint) == (0, "")
    assert "memory conforms, level core: every must-check of what it declares passed." in out
    assert json.loads((tmp_path / "report.json").read_text())["level"] == "core"


@pytest.mark.parametrize(
    ("functions", "more", "ends"),
    [
        ([holding], "", (0, "conforms, level core")),
        ([holding, broken], "", (1, "does not conform: 1 must-check did not pass.")),
        ([holding, vacuous], "", (3, "incomplete: 1 must-check did not run, or could not judge.")),
        ([holding, holding], "--only CHK-001", (3, "not chosen")),
    ],
)
def test_exit_codes(told, given, functions, more, ends):
    """The exit code tells conforming, not conforming and incomplete apart; so do the words."""
    given(*functions)
    code, out, complaint = told("run", "memory://", *more.split())
    assert (code, complaint) == (ends[0], "")
    assert ends[1] in out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_how_it_ends(told, command, capsys):
    """Help of every command documents the exit codes."""
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert "exit codes:\n  0  the backend conforms" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Try: durably-conformance --help"),
        (["rnu"], "invalid choice: 'rnu'"),
        (["run"], "give a URL"),
        (["run", "memory://", "--harness", "a:b"], "give a URL"),
        (["run", "memory://", "--nope"], "Try: durably-conformance"),
        (["run", "memory://", "--only", "SES-IDEM-01"], "did you mean SES-IDEM-001?"),
        (["run", "memory://", "--json", "/no/such/folder/x.json"], "cannot be written"),
        (["run", "memory://", "--json", "/"], "cannot be written"),
        (["run", "nosuch://me:hunter2@host/"], "unknown backend 'nosuch'"),
        (["run", "${NO_SUCH_VARIABLE}"], "'NO_SUCH_VARIABLE' is not set"),
        (["run", "sqlite:////no/such/folder/x.db"], "sqlite cannot be opened: "),
        (["run", "pkg.testing:harness"], "write: --harness pkg.testing:harness"),
        (["run", "--harness", "memory://"], "without --harness"),
        (["run", "--harness", "nothing"], "is no harness. Write"),
        (["run", "--harness", "no_such.module:harness"], "No module named 'no_such'"),
        (["run", "--harness", "my_broken:harness"], "No module named 'no_such_driver'"),
        (["run", "--harness", "my_harnesses:nobody"], "module my_harnesses has no nobody"),
        (
            ["run", "--harness", "my_harnesses:number"],
            "my_harnesses:number is no durably.testing.Harness",
        ),
        (["run", "--harness", "my_harnesses:MemoryPlace"], "but of type MemoryPlace"),
        (["run", "--harness", "my_harnesses:Nameless"], "has no name. Declare it"),
        (["run", "--harness", "my_harnesses:Placeless"], "no place to test in: OSError"),
        (["run", "--harness", "my_harnesses:Closed"], "mine cannot be opened: Unavailable"),
        (["explain", "SES-IDEM-01"], "did you mean SES-IDEM-001?"),
        (["matrix", "/no/such/report.json"], "cannot be read: No such file"),
        (["matrix", "my_harnesses.py"], "is no report"),
        (["diff", "my_harnesses.py", "my_harnesses.py"], "is no report"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_run_is_one_line(told, harnesses, arguments, words):
    """Wrong usage, or a harness that is not there, is one line of what to do, and exit code 2."""
    code, out, complaint = told(*arguments)
    assert (code, out) == (2, "")
    assert complaint.startswith("durably-conformance: ")
    assert words in complaint
    assert complaint.count("\n") == 1
    assert SECRET not in complaint


@pytest.mark.parametrize("reference", ["my_harnesses:harness", "my_harnesses:Mine"])
def test_a_harness_of_ones_own(told, given, harnesses, reference):
    """A harness, or what returns one, is found in the current folder."""
    given(holding)
    code, out, _ = told("run", "--harness", reference)
    assert code == 0
    assert out.startswith("mine: 1 check, profile quick, seed 0\n")


def test_a_url_from_the_environment(told, given, monkeypatch):
    """A reference in a URL stands for an environment variable."""
    given(holding)
    monkeypatch.setenv("WHERE", "memory://")
    assert told("run", "${WHERE}")[0] == 0


def test_a_failure_says_what_was_got_and_wanted(told, given):
    """What failed is there with its id, its rule, and what was got and wanted."""
    given(holding, broken)
    out = told("run", "memory://")[1]
    assert "  CHK-002         It does not hold.\n" in out
    assert "what was stored: got 'got it', want 'wanted it'" in out
    assert "durably-conformance explain CHK-002" in out


def test_what_did_not_run_says_why(told, given):
    """What is not applicable, and what was left out, is there with its reason."""
    given(holding, holding, holding)
    out = told("run", "memory://", "--only", "CHK-001", "CHK-002")[1]
    assert "Was not run:\n  not chosen\n      CHK-003\n" in out
    given(holding, requires=("durability",))
    out = told("run", "memory://")[1]
    assert "Was not applicable:\n  durability: nothing\n" in out


def test_progress_is_by_contract(told, given):
    """There is a line for each contract, with what became of its checks in words."""
    given(holding, broken)
    assert "\n  Session           1 passed, 1 failed\n" in told("run", "memory://")[1]


def test_a_remark_is_no_failure(told, given):
    """A check that is no must is named where it fails, and does not decide."""
    given(broken, level="should")
    assert "It does not hold. (a remark)" in told("run", "memory://")[1]


@pytest.fixture
def leaky(tmp_path, monkeypatch):
    """A backend whose driver repeats the password."""
    (tmp_path / "x_store.py").write_text(LEAKY)
    monkeypatch.syspath_prepend(tmp_path)
    plugin = made(scheme="leaky")
    plugins.register(plugin)
    yield
    plugins.unregister(plugin)
    sys.modules.pop("x_store", None)


def test_a_password_is_nowhere(told, leaky, tmp_path):
    """A driver that repeats the password by itself puts it neither on the screen nor in a file."""
    written = tmp_path / "report.json"
    only = ("--only", "HAR-*", "SES-IDEM-001")
    code, out, _ = told("run", f"leaky://me:{SECRET}@host/", *only, "--json", written)
    assert code == 1
    assert "or password *** is wrong" in out
    assert "or password *** is wrong" in written.read_text()
    assert SECRET not in out + written.read_text()


@pytest.mark.parametrize(
    ("url", "text", "masked"),
    [
        ("db://me:hunter2@host/", "see db://me:hunter2@host/", "see db://me:***@host/"),
        ("db://me:hunter2@host/", "hunter2!", "***!"),
        ("db://me:hunter2@host/", "hunter22", "hunter22"),
        ("db://me:a%2Fbcd@host/", "a/bcd or a%2Fbcd", "*** or ***"),
        ("db://host/?token=hunter2", "hunter2", "***"),
        ("db://test:test@host/test", "a test", "a test"),
        ("db://me:abc@host/", "abc", "abc"),
        ("no URL", "db://me:hunter2@host/", "db://me:***@host/"),
    ],
)
def test_masks(url, text, masked):
    """A secret is hidden alone, too, unless it is short or said in public."""
    assert Mask(url)(text) == masked


def test_explain(told, given, monkeypatch):
    """A check is explained by its rule, contract, level, reports, mistakes, and its text."""
    given(holding, reports=("somebody/something#8",))
    monkeypatch.setattr(commands, "all_tables", lambda: proof().tables)
    code, out, _ = told("explain", "chk-001")
    assert code == 0
    for words in (
        "CHK-001\n  It holds.\n",
        "  contract  Session, conversations across runs, durably.contracts.Session\n",
        "  level     must: a backend that fails it does not conform\n",
        "  applies   where sessions is declared\n",
        "\n  Everybody needs it.\n",
        "  https://github.com/somebody/something/issues/8\n",
        "  forgets: as in somebody/something#7\n",
        '  async def holding(t):\n      """It holds. Everybody needs it."""\n',
    ):
        assert words in out


@pytest.mark.parametrize("id_", [one.id for one in all_checks()])
def test_every_check_can_be_explained(told, id_):
    """Whatever a report names is explained."""
    code, out, _ = told("explain", id_)
    assert code == 0
    assert f'"{id_}"' in out


def test_list(told):
    """The list has every id and rule."""
    out = told("list")[1]
    words = " ".join(out.split())
    for one in all_checks():
        assert f"{one.id} {one.rule}" in words


def test_the_page_of_checks_is_up_to_date(told):
    """docs/checks.md is what ``durably-conformance list --markdown`` prints."""
    assert told("list", "--markdown")[1] == (ROOT / "docs" / "checks.md").read_text("utf-8")


def test_a_reader_that_goes_away_is_no_error():
    """``list | head`` ends quietly."""
    command = f"{sys.executable} -m durably_conformance list | head -1"
    told = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=True
    )
    assert told.stderr == ""


def test_equal_seeds_give_equal_reports(tmp_path):
    """Two processes, whose hashes differ, write the same report but for times."""
    reports = []
    for number in (1, 2):
        path = tmp_path / f"{number}.json"
        subprocess.run(
            [sys.executable, "-m", "durably_conformance", "run", "memory://", "--json", path],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        document = json.loads(path.read_text())
        del document["environment"]["started"], document["environment"]["seconds"]
        for one in document["checks"]:
            del one["seconds"]
        reports.append(document)
    assert reports[0] == reports[1]


def test_matrix(told, tmp_path):
    """Backends are side by side in words, with the reasons of what did not pass."""
    paths = [
        write(tmp_path / f"{name}.json", report(holding, function, name=name))
        for name, function in (("good", holding), ("bad|db", broken))
    ]
    code, out, _ = told("matrix", "--different-checks", *paths)
    assert code == 0
    assert "| good |  | memory of this process" in out
    assert "| CHK-002 |  | passed | FAILED |" in out
    assert "- bad\\|db, CHK-002: what was stored: got 'got it', want 'wanted it'" in out
    assert "| --- | --- | --- | --- |" in out


def test_matrix_has_the_rules(told, given, tmp_path):
    """A check that this suite knows has its rule, below its contract."""
    given(holding)
    out = told("matrix", write(tmp_path / "r.json", report(holding)))[1]
    assert "## Session" in out
    assert "| CHK-001 | It holds. | passed |" in out


def test_two_reports_on_one_backend_go_by_their_files(told, given, tmp_path):
    """Where names are the same, columns are called like the files."""
    given(holding)
    made = report(holding)
    paths = [write(tmp_path / f"{name}.json", made) for name in ("monday", "tuesday")]
    assert "| id | rule | monday | tuesday |" in told("matrix", *paths)[1]


@pytest.mark.parametrize("command", ["matrix", "diff"])
def test_reports_of_different_checks_are_not_compared(told, tmp_path, command):
    """Reports whose digests differ are refused unless said."""
    old = write(tmp_path / "old.json", report(holding))
    new = write(tmp_path / "new.json", report(holding, holding))
    code, out, complaint = told(command, old, new)
    assert (code, out) == (2, "")
    assert "come from different checks" in complaint
    assert told(command, "--different-checks", old, new)[0] == 0


def two_reports(folder, before, after, level="must"):
    """Write two reports in which one check came to these statuses."""
    made = report(holding)
    for name, status in (("old", before), ("new", after)):
        one = msgspec.structs.replace(made.checks[0], status=status, level=level, reason="so")
        changed = msgspec.structs.replace(made, checks=(one,))
        yield write(folder / f"{name}.json", changed)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("passed", "passed", ""),
        ("failed", "passed", "failed before, passed now"),
        ("failed", "error", "failed before, not judged now"),
        ("unsupported", "passed", "not applicable before, passed now"),
        ("not_run", "unsupported", "not run before, not applicable now"),
    ],
)
def test_nothing_became_worse(told, tmp_path, before, after, words):
    """What stays, becomes better, or was no better before, is no regression."""
    code, out, _ = told("diff", *two_reports(tmp_path, before, after))
    assert code == 0
    assert words in out
    assert "Nothing became worse." in out


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("passed", "failed", "passed before, failed now"),
        ("passed", "unsupported", "passed before, not applicable now"),
        ("passed", "not_run", "passed before, not run now"),
        ("passed", "known_failure", "passed before, known to fail now"),
        ("unsupported", "failed", "not applicable before, failed now"),
        ("not_run", "undeclared", "not run before, not declared now"),
    ],
)
@pytest.mark.parametrize("level", ["must", "should"])
def test_something_became_worse(told, tmp_path, before, after, words, level):  # noqa: PLR0917
    """What did well and no longer does is a regression, and ends with 1."""
    code, out, _ = told("diff", *two_reports(tmp_path, before, after, level))
    assert code == 1
    assert words in out
    assert "1 check became worse." in out


def test_a_candidate_does_not_become_worse(told, tmp_path):
    """A check that does not count yet is no regression."""
    assert told("diff", *two_reports(tmp_path, "passed", "failed", "candidate"))[0] == 0


def test_diff_names_what_is_in_one_alone(told, tmp_path):
    """A check that is in one report alone is named, and is no regression."""
    old = write(tmp_path / "old.json", report(holding, holding))
    new = write(tmp_path / "new.json", report(holding))
    out = told("diff", "--different-checks", old, new)[1]
    assert "Only in the old report: CHK-002" in out
    assert "Only in the new report: CHK-002" in told("diff", "--different-checks", new, old)[1]


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({}, 0, PROVED),
        ({"absent": ("on SQLite",)}, 0, "Not tried, as what they need is not installed: on SQLite"),
        ({"hollow": ("hollow: CHK-001 is passed",)}, 1, "hollow: CHK-001 is passed"),
        ({"checks": checks(holding, holding)}, 1, "CHK-002: no mutant fails it alone"),
        ({"mutants": {}}, 1, "CHK-001: it can be removed, and nobody would notice"),
    ],
)
def test_selftest(told, monkeypatch, changes, code, words):
    """The kill table is printed in words; what keeps the suite from being proved ends with 1."""
    monkeypatch.setattr(commands, "prove", lambda **_: proof(**changes))
    found, out, _ = told("selftest")
    assert words in " ".join(out.split())
    assert found == code


def test_the_kill_table(told, monkeypatch):
    """Each wrong backend is there with what it breaks, where it was seen, and what catches it."""
    monkeypatch.setattr(commands, "prove", lambda **_: proof())
    out = told("selftest")[1]
    assert "  forgets, caught by CHK-001\n    breaks: What was stored is there.\n" in out
    assert "    seen: somebody/something#7\n" in out
    assert "  slow: It takes its time.\n" in out


def test_the_version(told, capsys):
    """--version says which suite this is."""
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("durably-conformance ")
