"""Opens each URL twice and tells, as JSON, what came of it and which modules were imported.

An outcome is "works", or the error's class and text and those of its cause.
"""

import asyncio
import json
import sys

import durably


def outcome(url: str) -> str | list[str | None]:
    try:
        asyncio.run(use(url))
    except Exception as error:  # noqa: BLE001 - told to the test
        cause = error.__cause__ and f"{type(error.__cause__).__name__}: {error.__cause__}"
        return [type(error).__name__, str(error), cause]
    return "works"


async def use(url: str) -> None:
    async with durably.open(url) as storage:
        said = [durably.InputEntry(role="user", content="hello")]
        await storage.sessions.append("u1", said)
        if await storage.sessions.load("u1") != said:
            raise AssertionError(url)


def main(urls: list[str]) -> None:
    before = sorted(sys.modules)
    opened = {url: [outcome(url), outcome(url)] for url in urls}
    json.dump({"before": before, "opened": opened, "after": sorted(sys.modules)}, sys.stdout)


main(sys.argv[1:])
