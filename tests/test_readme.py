"""What README says is what happens: its code runs, and its two commands work as written."""

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^\$ (.*)$", README, re.MULTILINE)
EXPECTED = [
    "'Noted.'",
    "answer: 3 pages",
    "'Plan a trip.'",
    "content='Where to?')\nAssistantTextEntry(content='To Oslo.')\nbranches: 2",
    "It is 5. computed\nIt is 5. replayed",
    "second page: 100 to 199\nits end: 249 InputEntry(role='user', content='Line 249')",
    "{'user': 'ada'} 1 entry",
    "removed 2 of 3 as foreseen: True",
    "Copied(logs=1, records=1, known=0)\nequal: True",
    "1 0",
    "verdict: core",
]


@pytest.mark.parametrize(("block", "expected"), list(zip(BLOCKS, EXPECTED, strict=True)))
def test_code_works_when_pasted(block, expected, tmp_path):
    """Each code block runs as it stands, in an empty folder, and prints what it is about."""
    command = [sys.executable, "-W", "error", "-c", block]
    told = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert told.returncode == 0, told.stderr
    assert expected in told.stdout


def test_a_segment_is_stored_once(tmp_path):
    """The first block appends one run twice and prints two entries, not four."""
    command = [sys.executable, "-c", BLOCKS[0]]
    told = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout.count("Entry(") == 2


def test_a_completed_run_is_not_done_again(tmp_path):
    """The second block, run twice on one file, fetches three pages once and answers twice."""
    command = [sys.executable, "-c", BLOCKS[1]]
    told = [
        subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
        ).stdout.split("\n")
        for _ in range(2)
    ]
    assert told[0] == ["fetching 1", "fetching 2", "fetching 3", "answer: 3 pages", ""]
    assert told[1] == ["answer: 3 pages", ""]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of what the repository holds, in another folder, beside an empty HOME."""
    folder = tmp_path_factory.mktemp("clone")
    command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def bare(command, folder):
    """Run a command with nothing in its environment but PATH and an empty HOME."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    ours = (str(ROOT / ".nox"), str(ROOT / ".venv"), str(Path(sys.executable).parent))
    path = [entry for entry in os.environ["PATH"].split(os.pathsep) if not entry.startswith(ours)]
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={"PATH": os.pathsep.join(path), "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_every_command_is_listed():
    """The table of the command line has each command, and no other."""
    listed = set(re.findall(r"^\| `durably (\w+)", README, re.MULTILINE)) | {"gc"}
    assert listed == {one.name for one in metadata.entry_points(group="durably.commands")}


def test_there_are_two_commands():
    """README gives two commands to run: one for the demo, one for the tests."""
    assert len(COMMANDS) == 2
    demo, tests = COMMANDS
    assert demo.endswith("nox -s demo")
    assert tests.endswith("nox -s tests-3.11")


@pytest.mark.xdist_group("clone")
def test_the_demo_command_works(clone):
    """With Python and pip alone the first command sets everything up and runs the demo."""
    told = bare(COMMANDS[0], clone)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "4. The session remembers the run" in told.stdout


@pytest.mark.xdist_group("clone")
def test_the_test_command_works(clone):
    """The second command sets everything up and finds these tests; running them would recurse."""
    told = bare(f"{COMMANDS[1]} -- --collect-only -q", clone)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "test_the_test_command_works" in told.stdout
