"""What core must do in an environment that has its wheel and nothing else."""

import asyncio
import importlib.util
import subprocess
import sys
from pathlib import Path

import durably

NOT_IMPORTED = ("aiosqlite", "boto3", "durably_sqlite", "pluggy", "pydantic", "redis", "typer")
ABSENT = ("aiosqlite", "durably_sqlite")


def command_without_extra() -> None:
    """The command says which extra it needs."""
    command = [str(Path(sys.executable).with_name("durably")), "demo"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode == 0 or 'pip install "durably[cli]"' not in told.stderr:
        sys.exit(f"the command gives no remedy: {told}")


async def main() -> None:
    loaded = [name for name in NOT_IMPORTED if name in sys.modules]
    if loaded:
        sys.exit(f"import durably imported {loaded}")
    present = [name for name in ABSENT if importlib.util.find_spec(name)]
    if present:
        sys.exit(f"this environment has more than core: {present}")
    async with durably.open("memory://") as storage:
        said = [durably.InputEntry(role="user", content="hello")]
        await storage.sessions.append("u1", said)
        if await storage.sessions.load("u1") != said:
            sys.exit("memory:// did not return what was appended")
    try:
        durably.open("sqlite:///never.db")
    except durably.BackendNotInstalled as error:
        if 'pip install "durably[sqlite]"' not in str(error):
            sys.exit(f"no remedy in: {error}")
    else:
        sys.exit("sqlite:// opened without its distribution")
    print("core alone: memory:// works, nothing else was imported")  # noqa: T201 - its result


command_without_extra()
asyncio.run(main())
