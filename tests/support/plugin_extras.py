"""What an extra must bring to an environment that was empty: ``EXTRA VERSION``."""

import asyncio
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import durably

SAID = [durably.InputEntry(role="user", content="hello")]


async def keeps(source) -> bool:
    """Whether what one storage was told another, opened alike, gives back."""
    async with durably.open(source) as storage:
        await storage.sessions.append("u1", SAID)
        async with durably.open(source) as other:
            return await other.sessions.load("u1") == SAID


def sqlite() -> bool:
    return asyncio.run(keeps("sqlite:///agent.db")) and Path("agent.db").exists()


def redis() -> bool:
    """Whether the client is there: it says that nobody listens at a port that is reserved."""
    try:
        return asyncio.run(keeps("redis://127.0.0.1:1/0?timeout=0.1"))
    except durably.Unavailable:
        return True


def s3() -> bool:
    """Whether boto3 is there: it says that nobody listens at a port that is reserved."""
    os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    try:
        return asyncio.run(keeps("s3://bucket?endpoint_url=http://127.0.0.1:1&timeout=0.1"))
    except durably.Unavailable as error:
        return "does not answer" in str(error)


def yaml() -> bool:
    from durably.config import StorageConfig  # noqa: PLC0415 - not needed by the other extras

    Path("agent.yaml").write_text("storage:\n  url: memory://shared\n", "utf-8")
    return asyncio.run(keeps(StorageConfig.from_file("agent.yaml", table="storage")))


def cli() -> bool:
    command = [str(Path(sys.executable).with_name("durably")), "--help"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return told.returncode == 0 and "doctor" in told.stdout


def runner() -> bool:
    from durably_runner import Agent, Runner  # noqa: PLC0415 - not there with the other extras

    agent = Agent(name="parrot", model=lambda request: request.entries[-1].content)
    return asyncio.run(Runner.run(agent, "hello")).output == "hello"


def main(extra: str, version: str) -> None:
    if metadata.version("durably") != version:
        sys.exit(f"durably {metadata.version('durably')} was installed, not {version}")
    if not {one.__name__: one for one in (redis, runner, s3, sqlite, yaml, cli)}[extra]():
        sys.exit(f"durably[{extra}] does not work")
    print(f"durably[{extra}] works from a wheelhouse")  # noqa: T201 - its result


main(*sys.argv[1:])
