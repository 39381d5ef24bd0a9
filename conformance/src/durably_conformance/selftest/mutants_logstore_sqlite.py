"""SQLite with triggers that do to the logs of tests what a careless schema does."""

from durably_conformance.building import log
from durably_conformance.logs import keyed
from durably_conformance.selftest.mutating import SQLiteMutant
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked

BIN = """
CREATE TABLE IF NOT EXISTS bin (log INTEGER, key TEXT);
CREATE TRIGGER IF NOT EXISTS keep AFTER DELETE ON durably_records
WHEN (SELECT kind FROM durably_logs WHERE number = old.log) = 'test'
BEGIN
    INSERT INTO bin VALUES (old.log, old.key);
END;
"""

TOUCH = """
CREATE TRIGGER IF NOT EXISTS touch AFTER UPDATE ON durably_logs
WHEN new.kind = 'test' AND new.created_at <> new.updated_at
BEGIN
    UPDATE durably_logs SET created_at = updated_at WHERE number = new.number;
END;
"""


async def leaves_rows(place: Tracked) -> bool:
    """Compare what lies there before a log and after it."""
    store = (await place.connect()).log_store
    await store.append(log("stays"), keyed("a"))
    before = await place.dump()
    await store.append(log(), keyed("a"))
    await store.delete(log())
    return await place.dump() != before


MUTANTS = (
    Mutant(
        name="sqlite with careless triggers",
        says="A delete leaves nothing behind, and the time of a log's creation stays.",
        fails=frozenset({"LOG-APP-003", "LOG-DEL-005", "LOG-REW-003"}),
        provenance="langchain-ai/langgraph#8054, and INSERT OR REPLACE of a whole row",
        harness=lambda: SQLiteMutant("sqlite with careless triggers", BIN + TOUCH),
        probe=leaves_rows,
        scheme="sqlite",
    ),
)
