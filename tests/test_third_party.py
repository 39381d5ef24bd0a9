"""The example backend, as a stranger's: built, installed without this repository, opened by URL."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SUPPORT = ROOT / "tests" / "support"
EXAMPLE = ROOT / "examples" / "third_party_backend"
WORKER = SUPPORT / "plugin_third_party.py"
THREAD = "[(3, 3), (2, 2)]"

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
def wheels(tmp_path_factory):
    """The wheel files of core and of the example, by folder."""
    folder = tmp_path_factory.mktemp("wheels")
    for source in (ROOT / "core", EXAMPLE):
        uv("build", "--wheel", "--out-dir", folder / source.name, source)
    return {one.name: next(one.glob("*.whl")) for one in folder.iterdir()}


@pytest.fixture(scope="module")
def python(wheels, tmp_path_factory):
    """The Python of an environment that has these wheels, what they require, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    python = folder / "bin" / "python"
    uv("venv", "--clear", "--python", sys.executable, folder)
    uv("pip", "install", "--python", python, *wheels.values())
    return python


@pytest.fixture
def start(python, tmp_path):
    """Start tasks of the worker on one folder, each in a process of that environment."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def start(*task):
        return subprocess.Popen(
            [python, WORKER, f"folder:///{tmp_path}/agents", *task],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        )

    return start


def ended(process):
    """Return the lines a process printed, once it has ended well."""
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out.splitlines()


def test_it_comes_from_the_wheels(start):
    """What is tested here lies in the environment, not in this repository."""
    for module in ended(start("where")):
        assert "site-packages" in module
        assert not Path(module).is_relative_to(ROOT)


def test_what_one_process_writes_another_reads(start, tmp_path):
    """Sessions with a rewind, a fenced run, a bounded thread and a namespace cross processes."""
    assert ended(start("write")) == ["fenced"]
    assert ended(start("read")) == ["['r1', 'R1', 'r2', 'again', 'AGAIN']", "(4, 2)", THREAD, "[2]"]
    assert {path.name for path in tmp_path.iterdir()} == {"agents"}


def test_two_processes_at_once_lose_nothing(start):
    """Two processes that append to one session at once both keep every run, in their order."""
    for process in [start("append", "a"), start("append", "b")]:
        ended(process)
    expected = [[f"{name} {number}" for number in range(25)] for name in ("a", "b")]
    assert ended(start("appended")) == [str(runs) for runs in expected]


def test_the_tests_of_this_repository_hold_on_it(wheels, tmp_path):
    """What holds for the log stores, sessions and rewinds of ours holds for the stranger's."""
    uv("pip", "install", "--no-deps", "--target", tmp_path / "site", wheels[EXAMPLE.name])
    names = ("logstore", "logstore_reading", "ids", "rewind", "sessions")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "[folder"]
    command += ["-p", "plugin_folder", *(f"tests/test_{name}.py" for name in names)]
    path = os.pathsep.join([str(tmp_path / "site"), str(SUPPORT)])
    told = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert told.returncode == 0, told.stdout
    assert int(re.search(r"(\d+) passed", told.stdout)[1]) > 150
