"""What the guides in docs/ show is what happens: their code runs, and prints what stands below."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PLAYED = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = [
    pytest.param(*found, id=f"{path.stem}-{number}")
    for path in sorted(DOCS.glob("*.md"))
    for number, found in enumerate(PLAYED.findall(path.read_text("utf-8")))
]
LINKS = [
    pytest.param(path, link, id=f"{path.stem}-{link}")
    for path in sorted(DOCS.glob("*.md"))
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text("utf-8"))
    if "://" not in link
]


def test_there_is_code_that_is_played():
    """The guides have code to run; else the next test could not fail."""
    assert len(SHOWN) >= 2


@pytest.mark.parametrize(("block", "printed"), SHOWN)
def test_code_prints_what_stands_below_it(block, printed, tmp_path):
    """Code with its output below runs as it stands, without a warning, and prints just that."""
    command = [sys.executable, "-W", "error", "-c", block]
    told = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout == printed


@pytest.mark.parametrize(("path", "link"), LINKS)
def test_links_lead_somewhere(path, link):
    """A link in a guide leads to a file of the repository."""
    assert (path.parent / link).exists()
