"""The job of the demo: orders in CSV files become JSON lines, one file a step.

It is ordinary code around one idea: every step is looked up before it is done, and recorded
after. Nothing in it knows that it will be killed.
"""

import csv
import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

import durably
from durably import (
    AssistantTextEntry,
    InputEntry,
    RunHead,
    RunSnapshot,
    Storage,
    ToolCallEntry,
    ToolResultEntry,
)

__all__ = ["SESSION_ID", "Workspace", "make_orders", "work"]

SESSION_ID = "orders-desk"
REQUEST = "Convert the orders of this month to JSON lines and tell me the total."
FILES = 16
ROWS = 4_000
_CURRENCIES: tuple[str, ...] = ("EUR", "USD", "CHF")
_HEADER = ("order_id", "sku", "quantity", "unit_cents", "currency")


class Workspace(msgspec.Struct, frozen=True):
    """The files of the demo, below one folder."""

    folder: Path

    @property
    def url(self) -> str:
        """The storage the job is recorded in."""
        return f"sqlite:///{quote(str(self.folder / 'agent.db'))}"

    @property
    def work_log(self) -> Path:
        """One line for each step that was begun: what was really done, told by the doer."""
        return self.folder / "work.log"

    def orders(self) -> list[Path]:
        """The files to be converted, in order."""
        return sorted(self.folder.glob("orders-*.csv"))

    def begun(self) -> list[str]:
        """The names of the steps that were begun, in order, by all workers together."""
        if not self.work_log.exists():
            return []
        return self.work_log.read_text("utf-8").splitlines()


def make_orders(workspace: Workspace) -> None:
    """Write the files to be converted."""
    chance = random.Random(2026)  # noqa: S311 - sample data
    for number in range(1, FILES + 1):
        path = workspace.folder / f"orders-{number:02}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(_HEADER)
            for row in range(ROWS):
                sku, quantity = f"SKU-{chance.randrange(500):03}", chance.randint(1, 9)
                cents, currency = chance.randint(99, 99_999), chance.choice(_CURRENCIES)
                writer.writerow((f"{number}-{row}", sku, quantity, cents, currency))


def _convert(source: Path) -> dict[str, int]:
    """Convert one file and return the total of each currency in cents."""
    totals = dict.fromkeys(_CURRENCIES, 0)
    with (
        source.open(newline="", encoding="utf-8") as file,
        source.with_suffix(".jsonl").open("w", encoding="utf-8") as target,
    ):
        for row in csv.DictReader(file):
            amount = int(row["quantity"]) * int(row["unit_cents"])
            totals[row["currency"]] += amount
            target.write(json.dumps({**row, "amount_cents": amount}) + "\n")
    return totals


def _recorded(snapshot: RunSnapshot | None) -> dict[str, dict[str, int]]:
    """Return the totals of the steps that were recorded, by the name of their file."""
    entries = snapshot.entries if snapshot else []
    results = (entry for entry in entries if isinstance(entry, ToolResultEntry))
    return {result.call_id: json.loads(result.output) for result in results}


async def work(storage: Storage, workspace: Workspace, run_id: str) -> Any:  # noqa: ANN401 - JSON
    """Do the job, or what is left of it, and return its answer.

    A step whose result is recorded is not done again; a completed run is not touched at all.
    """
    stored = await storage.checkpointer.load(run_id)
    if stored is None or stored.head.status != "completed":
        stored = await _finish(storage, workspace, run_id)
    await storage.sessions.append(SESSION_ID, stored.entries, run_id=run_id)
    return stored.head.output


async def _finish(storage: Storage, workspace: Workspace, run_id: str) -> RunSnapshot:
    claim = await storage.checkpointer.claim(run_id)
    done = _recorded(claim.snapshot)
    if claim.snapshot is None:
        await claim.append([InputEntry(role="user", content=REQUEST)], RunHead())
    for source in workspace.orders():
        if source.name not in done:
            done[source.name] = await _step(claim, workspace, source, turns=len(done) + 1)
    answer = {name: sum(totals[name] for totals in done.values()) for name in _CURRENCIES}
    said = ", ".join(f"{cents / 100:,.2f} {name}" for name, cents in answer.items())
    await claim.append(
        [AssistantTextEntry(content=f"Converted {len(done)} files. Total: {said}.")],
        RunHead(status="completed", turns=len(done), output=answer),
    )
    completed = await storage.checkpointer.load(run_id)
    if completed is None:
        raise RuntimeError(f"run {run_id} is gone")
    return completed


async def _step(
    claim: durably.Claim, workspace: Workspace, source: Path, *, turns: int
) -> dict[str, int]:
    with workspace.work_log.open("a", encoding="utf-8") as log:
        log.write(f"{source.name}\n")
    print(f"begun {turns}", flush=True)  # noqa: T201 - the parent reads it
    totals = _convert(source)
    call = ToolCallEntry(
        call_id=source.name, name="convert", arguments=json.dumps({"file": source.name})
    )
    result = ToolResultEntry(call_id=source.name, output=json.dumps(totals))
    await claim.append([call, result], RunHead(turns=turns))
    return totals
