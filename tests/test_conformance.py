"""The backends of this workspace, judged by the suite that judges a stranger's."""

import tempfile
from pathlib import Path
from urllib.parse import quote

from durably_conformance.pytest import suite

FILE = Path(tempfile.gettempdir()) / "durably.db"
"""Places are folders beside it; it itself is never made."""

TestMemory = suite("memory://")
TestSQLite = suite(f"sqlite:///{quote(str(FILE))}")
