"""The example backend, as a stranger's: built, installed without this repository, and judged.

Nothing else tests it, and nothing but wheels is there: so this also proves that the suite runs
without this repository.
"""

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import durably

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "third_party_backend"
SOURCES = sorted(EXAMPLE.rglob("*.py"))
PAGE = (ROOT / "docs" / "write-a-backend.md").read_text("utf-8")
COMMANDS = re.findall(r"^\$ (durably-conformance run .*)$", PAGE, re.MULTILINE)
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
ALLOWED = ("logstore", "plugins", "rules", "testing")
"""Modules of core whose public names a stranger needs, beside those of durably itself."""

PYTEST = 'from durably_conformance.pytest import suite\nTestConformance = suite("folder:///x")\n'
ONLY = "SES-IDEM-001"

pytestmark = pytest.mark.xdist_group("third_party")


def uv(*arguments):
    """Run uv, with the certificates the machine trusts."""
    command = [sys.executable, "-m", "uv", "--quiet", *map(str, arguments)]
    environment = {"UV_SYSTEM_CERTS": "true", **os.environ}
    told = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert told.returncode == 0, told.stderr


@pytest.fixture(scope="module")
def binaries(tmp_path_factory):
    """The commands of an environment that has three wheels and what they require.

    The wheels are core's, the suite's and the example's.
    """
    wheels = tmp_path_factory.mktemp("wheels")
    for source in (ROOT / "core", ROOT / "conformance", EXAMPLE):
        uv("build", "--wheel", "--out-dir", wheels, source)
    folder = tmp_path_factory.mktemp("environment")
    python = folder / "bin" / "python"
    uv("venv", "--clear", "--python", sys.executable, folder)
    uv("pip", "install", "--python", python, "pytest", *wheels.glob("*.whl"))
    return folder / "bin"


@pytest.fixture
def told(binaries, tmp_path):
    """Run a command of that environment in an empty folder, and return what it printed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def told(*command, code=0):
        done = subprocess.run(
            [binaries / command[0], *command[1:]],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return told


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_it_uses_public_names_alone(path):
    """The example imports what durably exports, and public names of four modules beside it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            assert not any(one.name.split(".")[0] == "durably" for one in node.names), path
        elif isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "durably":
            module = importlib.import_module(node.module)
            assert module is durably or node.module.partition(".")[2] in ALLOWED
            public = {*module.__all__, *(ALLOWED if module is durably else ())}
            assert {one.name for one in node.names} <= public, path


def test_it_comes_from_wheels(told):
    """What is judged here, and what judges it, lies in the environment, not in this repository."""
    code = "import durably, durably_conformance as c, durably_folder as f; "
    code += "print(durably.__file__, c.__file__, f.__file__, sep='\\n')"
    for module in told("python", "-c", code).splitlines():
        assert "site-packages" in module
        assert not Path(module).is_relative_to(ROOT)


def test_it_conforms(told, tmp_path):
    """The command that the page for authors ends with finds nothing wrong, and leaves nothing."""
    (command,) = COMMANDS
    words = told(*command.split())
    report = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert (report["backend"]["distribution"], report["level"]) == ("durably-folder", "core")
    assert report["checks"]
    assert {one["status"] for one in report["checks"]} == {"passed", "unsupported"}
    assert "folder conforms, level core" in words
    assert {path.name for path in tmp_path.iterdir()} == {"report.json"}


def test_pytest_runs_the_checks(told, tmp_path):
    """A test file of two lines has a test for each check."""
    (tmp_path / "test_conformance.py").write_text(PYTEST)
    words = told("pytest", "-q", "-p", "no:cacheprovider", "-k", ONLY, "--color=no")
    assert "1 passed" in words


def test_the_suite_can_be_proved_elsewhere(told):
    """The wrong backends are in the wheel, too; without SQLite, those on it are left out."""
    code = "from durably_conformance.selftest import proving, table; "
    code += "row = table.all_tables().mutants[0]; proof = proving.prove(only=[row.name]); "
    code += "print(proof.mutants[row.name].failed == row.fails, 'sqlite' in proof.absent)"
    assert told("python", "-c", code) == "True True\n"


@pytest.mark.parametrize("code", [one for one in BLOCKS if not one.startswith("# ")])
def test_the_code_of_the_page_works(told, code):
    """What the page for authors shows of their own files runs as it stands."""
    told("python", "-W", "error", "-c", code)


@pytest.mark.parametrize(
    ("name", "code"), [one[2:].split("\n", 1) for one in BLOCKS if one.startswith("# ")]
)
def test_the_page_shows_the_example(name, code):
    """What the page for authors quotes of the example stands there, word for word."""
    for part in code.strip("\n").split("\n\n...\n\n"):
        assert part in (EXAMPLE / "src" / "durably_folder" / name).read_text("utf-8")
