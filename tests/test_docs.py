"""What the guides show is what happens: their code runs, and prints what stands below it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GUIDES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "runner" / "README.md"]
TEXTS = {path.stem: path.read_text("utf-8") for path in GUIDES}
BODY = r"((?:(?!```).*\n)*)```\n"
PLAYED = re.compile(rf"^```python\n{BODY}\n```text\n{BODY}", re.MULTILINE)
DRAWN = re.compile(rf"{PLAYED.pattern}(?:[^`]*\n)```console\n\$ durably (.*)\n{BODY}", re.MULTILINE)
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
SHOWN = [
    pytest.param(*found, id=f"{name}-{number}")
    for name, text in TEXTS.items()
    for number, found in enumerate(PLAYED.findall(text))
]
LINKS = [
    pytest.param(path, link, id=f"{path.stem}-{link}")
    for path in GUIDES
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text("utf-8"))
    if "://" not in link
]


def played(command, folder):
    """Run a command in a folder to its end, and return what it printed."""
    told = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return told.stdout


@pytest.mark.parametrize("name", TEXTS)
def test_all_programs_have_their_output_below(name):
    """No program in a guide, told by its last line, escapes the next test."""
    assert TEXTS[name].count("\nasyncio.run(") == len(PLAYED.findall(TEXTS[name]))


@pytest.mark.parametrize(("block", "printed"), SHOWN)
def test_code_prints_what_stands_below_it(block, printed, tmp_path):
    """Code with its output below runs as it stands, without a warning, and prints just that."""
    assert played([sys.executable, "-W", "error", "-c", block], tmp_path) == printed


def test_a_tree_is_drawn_as_shown(tmp_path):
    """The command below the code of a tree draws that tree as it says, but for the time."""
    ((block, _, arguments, drawn),) = DRAWN.findall(TEXTS["trees-and-states"])
    played([sys.executable, "-c", block], tmp_path)
    command = [str(Path(sys.executable).with_name("durably")), *arguments.split()]
    assert TIME.sub("then", played(command, tmp_path)) == TIME.sub("then", drawn)


@pytest.mark.parametrize(("path", "link"), LINKS)
def test_links_lead_somewhere(path, link):
    """A link in a guide leads to a file of the repository."""
    assert (path.parent / link).exists()
