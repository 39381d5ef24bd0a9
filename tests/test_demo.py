"""The demo and its command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import durably
from durably_runner.demo.job import FILES, SESSION_ID, Workspace

COMMAND = str(Path(sys.executable).with_name("durably"))


def run(*arguments, **options):
    command = [COMMAND, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, **options
    )


async def test_the_demo_leaves_what_it_shows(tmp_path):
    """A killed run is resumed without repeating a recorded step, and the session is rewound."""
    folder = tmp_path / "a demo%41?#"
    told = run("demo", "--directory", str(folder))
    assert told.returncode == 0, told.stderr
    assert "exit code -9" in told.stdout
    assert "0 of the 6 recorded steps" in told.stdout
    workspace = Workspace(folder)
    begun = workspace.begun()
    assert len(set(begun)) == FILES
    assert len(begun) <= FILES + 1
    async with durably.open(workspace.url) as storage:
        stored = await storage.checkpointer.load("convert-2026-11")
        assert stored.head.status == "completed"
        assert len(stored.entries) == 2 + 2 * FILES
        assert await storage.sessions.load(SESSION_ID) == stored.entries[:3]


def test_the_demo_touches_no_folder_that_exists(tmp_path):
    """A directory that is there already is refused with a sentence, and stays as it is."""
    told = run("demo", "--directory", str(tmp_path))
    assert told.returncode == 1
    assert "name a new directory" in told.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_demo_speaks_json():
    """--json prints one array of the same parts, facts and transcripts, and nothing else."""
    told = run("demo", "--json")
    assert told.returncode == 0, told.stderr
    killed, resumed, replayed, rewound = json.loads(told.stdout)
    assert ["worker", "exit code -9"] in killed["facts"]
    assert ["repeated", "0 of the 6 recorded steps"] in resumed["facts"]
    assert ["begun", "0 steps"] in replayed["facts"]
    assert [len(lines) for lines in rewound["transcripts"]] == [2 + 2 * FILES, 3]


def test_the_demo_cleans_up(tmp_path):
    """Without --directory nothing is left behind."""
    told = run("demo", env={**os.environ, "TMPDIR": str(tmp_path)})
    assert told.returncode == 0, told.stderr
    assert list(tmp_path.iterdir()) == []


def test_help_and_usage():
    """Help names the command and exits with 0; a wrong command or option exits with 2."""
    assert "demo" in run("--help").stdout
    assert run("--help").returncode == 0
    assert run("demo", "--nope").returncode == 2
    assert run("nope").returncode == 2
