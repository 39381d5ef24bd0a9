"""Distributions as an installer leaves them: a folder with their metadata and their modules."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

WORKER = Path(__file__).with_name("plugin_worker.py")

PRELUDE = """
from durably import Capabilities, Durability, Writers
from durably.plugins import BackendSpec, hookimpl


def spec(**changes):
    words = {
        "name": SCHEME,
        "schemes": (SCHEME,),
        "open": "x_store:open_url",
        "contract": (1, 0),
        "capabilities": Capabilities(
            durability=Durability.NOTHING, writers=Writers.ONE_PROCESS
        ),
    }
    return BackendSpec(**{**words, **changes})

"""
"""What a plugin of these tests begins with, after its ``SCHEME``."""

GOOD = """
@hookimpl
def durably_backends():
    return [spec()]
"""

STORE = """
import durably


def open_url(url):
    return durably.MemoryLogStore()
"""


def made(source: str = GOOD, scheme: str = "good") -> ModuleType:
    """Return a plugin as an application makes it: a module that no distribution offers."""
    module = ModuleType(f"{scheme}_plugin")
    exec(f"SCHEME = {scheme!r}\n{PRELUDE}{source}", module.__dict__)  # noqa: S102
    return module


class Site:
    """A folder of distributions, for child processes that have it on their path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.module("x_store", STORE)

    def module(self, name: str, source: str) -> None:
        (self.folder / f"{name}.py").write_text(source, "utf-8")

    def distribution(
        self, name: str, *entries: str, version: str = "0.1", metadata: bool = True
    ) -> None:
        """Install a distribution with entry points ``scheme = module``."""
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        lines = ["[durably.backends]", *entries, ""]
        (info / "entry_points.txt").write_text("\n".join(lines), "utf-8")
        if metadata:
            words = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            (info / "METADATA").write_text(words, "utf-8")

    def plugin(self, source: str = GOOD, *, scheme: str = "good", name: str | None = None) -> None:
        """Install a distribution of one module that is the plugin of a scheme."""
        name = name or f"{scheme}-backend"
        module = f"{name}_plugin".replace("-", "_")
        self.module(module, f"SCHEME = {scheme!r}\n{PRELUDE}{source}")
        self.distribution(name, f"{scheme} = {module}")

    def run(self, *arguments: str, **environment: str) -> str:
        """Run Python with the folder on its path, and return what it printed."""
        told = subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": str(self.folder), **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert told.returncode == 0, told.stderr
        return told.stdout

    def outcomes(self, *urls: str, flags: tuple[str, ...] = (), **environment: str) -> dict:
        """Open each URL twice in a child process; see ``plugin_worker``."""
        return json.loads(self.run(*flags, str(WORKER), *urls, **environment))
