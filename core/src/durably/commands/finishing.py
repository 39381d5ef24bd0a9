"""``durably finish``: record an abandoned run."""

import asyncio
from typing import Annotated

import typer

from durably.commands.arguments import AsJson, Url, absent, open_url
from durably.commands.output import print_json, print_line
from durably.errors import RunNotFound

__all__ = ["finish"]


def finish(
    url: Url,
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", show_default=False)],
    session_id: Annotated[
        str,
        typer.Argument(metavar="SESSION_ID", help="The session it belongs to.", show_default=False),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Record an abandoned run in its session, and remove its checkpoint.

    The run is taken over first: a worker that still lives cannot go on with it. Tool calls
    without a result are left out. Doing it again changes nothing.

    With --json, it is one object: run_id, session_id, finished (false if it was done before).
    """
    finished = asyncio.run(_finish(url, run_id, session_id))
    if as_json:
        print_json({"run_id": run_id, "session_id": session_id, "finished": finished})
    else:
        already = "" if finished else " already"
        print_line(f"session {session_id} has run {run_id}{already}")


async def _finish(url: str, run_id: str, session_id: str) -> bool:
    async with open_url(url) as storage:
        try:
            return await storage.finish(run_id, session_id)
        except RunNotFound:
            raise absent("run", run_id) from None
