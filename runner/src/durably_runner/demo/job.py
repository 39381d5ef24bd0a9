"""The job of the demo: orders in CSV files become JSON lines, one file a step.

A scripted model calls a tool once for each file. Nothing in here knows that it will be killed: the
same call of ``work`` is all there is to going on.
"""

import csv
import json
import random
from pathlib import Path
from urllib.parse import quote

import msgspec

from durably import Storage, ToolCallEntry, ToolResultEntry
from durably_runner.agents import Agent
from durably_runner.models import ModelRequest
from durably_runner.options import CheckpointOptions
from durably_runner.runner import Runner
from durably_runner.tools import ToolContext, tool

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


@tool
def convert(context: ToolContext, file: str) -> dict[str, int]:
    """Convert a file of orders to JSON lines; gives the total of each currency in cents."""
    workspace: Workspace = context.deps
    with workspace.work_log.open("a", encoding="utf-8") as log:
        log.write(f"{file}\n")
    print(f"begun {context.turn}", flush=True)  # noqa: T201 - the parent reads it
    return _convert(workspace.folder / file)


def clerk(request: ModelRequest) -> ToolCallEntry | str:
    """Answer as a model would: call for the next file, and sum up when there is none left."""
    totals = [entry.raw for entry in request.entries if isinstance(entry, ToolResultEntry)]
    if len(totals) < FILES:
        file = f"orders-{len(totals) + 1:02}.csv"
        return ToolCallEntry(call_id=file, name="convert", arguments=json.dumps({"file": file}))
    sums = {name: sum(total[name] for total in totals) for name in _CURRENCIES}
    said = ", ".join(f"{cents / 100:,.2f} {name}" for name, cents in sums.items())
    return f"Converted {FILES} files. Total: {said}."


AGENT = Agent(name="clerk", model=clerk, tools=[convert])


async def work(storage: Storage, workspace: Workspace, run_id: str) -> str:
    """Do the job, or what is left of it, and return its answer."""
    result = await Runner.run(
        AGENT,
        REQUEST,
        session=storage.sessions,
        session_id=SESSION_ID,
        checkpoint=CheckpointOptions(storage.checkpointer, run_id),
        deps=workspace,
    )
    return str(result.output)
