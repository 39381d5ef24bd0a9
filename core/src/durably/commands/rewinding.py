"""``durably rewind``: take back the end of a session."""

import asyncio
from typing import Annotated

import msgspec
import typer

from durably.commands.arguments import AsJson, SessionId, Url, absent, open_url
from durably.commands.asking import Yes, confirm
from durably.commands.output import count, print_json, print_line
from durably.cuts import find_cut
from durably.logstore import LogId, Range
from durably.runs import Rewound

__all__ = ["rewind"]


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What would go of a session that is at a revision."""

    revision: int
    entries: int = 0
    runs: tuple[str, ...] = ()
    short: str | None = None

    def lines(self) -> list[str]:
        """Say it, a line each."""
        gone = [f"run {run_id} would go, with its checkpoint" for run_id in self.runs]
        short = [] if self.short is None else [f"run {self.short} would be cut short"]
        return [*short, *gone]


def rewind(
    url: Url,
    session_id: SessionId,
    *,
    keep_entries: Annotated[
        int, typer.Option(min=0, help="How many entries stay; 0 removes every run.")
    ],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove all but the first entries of a session, and the checkpoints of the runs that go.

    A run the cut lands in is cut short: it loses its meta, and every tool call left without a
    result. durably history shows the number of each entry. It says what would go and asks before
    it removes anything; if somebody changes the session meanwhile, nothing is removed.

    With --json, it is one object: session_id, removed_entries, removed_run_ids, truncated_run_id
    (null if no run was cut short).
    """
    plan = asyncio.run(_plan(url, session_id, keep_entries))
    done = Rewound()
    if plan.lines():
        if not as_json:
            for line in plan.lines():
                print_line(line)
        entries = count(plan.entries, "entry", "entries")
        confirm(f"Remove {entries} of session {session_id!a} for good?", yes=yes)
        done = asyncio.run(_rewind(url, session_id, keep_entries, plan.revision))
    if as_json:
        facts = {name: getattr(done, name) for name in Rewound.__struct_fields__}
        print_json({"session_id": session_id, **facts})
    else:
        print_line(
            f"removed {count(done.removed_entries, 'entry', 'entries')},"
            f" {count(len(done.removed_run_ids), 'run', 'runs')}"
        )


async def _plan(url: str, session_id: str, keep_entries: int) -> _Plan:
    log = LogId(kind="session", id=session_id)
    async with open_url(url) as storage:
        stored = await storage.log_store.read(log, Range(with_data=False))
    if stored is None:
        raise absent("session", session_id)
    cut = find_cut(stored.records, keep_entries)
    if cut is None:
        return _Plan(revision=stored.state.revision)
    short = [one.key for one in stored.records if one.seq == cut.last_seq]
    return _Plan(
        revision=stored.state.revision,
        entries=stored.state.entry_count - keep_entries,
        runs=tuple(one.key for one in stored.records if one.seq > cut.last_seq),
        short=short[0] if short and cut.keep_of_last is not None else None,
    )


async def _rewind(url: str, session_id: str, keep_entries: int, revision: int) -> Rewound:
    async with open_url(url) as storage:
        return await storage.rewind(
            session_id, keep_entries=keep_entries, expected_revision=revision
        )
