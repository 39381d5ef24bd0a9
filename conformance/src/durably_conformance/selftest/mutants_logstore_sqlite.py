"""SQLite with triggers that do to the logs of tests what a careless schema does."""

from durably.logstore import Batch
from durably_conformance.building import log
from durably_conformance.logs import ids, keyed
from durably_conformance.selftest.mutating_sqlite import SQLiteMutant
from durably_conformance.selftest.noticing import TEST_KINDS, logs_of
from durably_conformance.selftest.table import Mutant, Probe, Variant
from durably_conformance.selftest.tracking import Tracked

BIN = """
CREATE TABLE bin (log INTEGER, key TEXT);
CREATE TRIGGER keep AFTER DELETE ON durably_records
WHEN (SELECT kind FROM durably_logs WHERE number = old.log) = 'test'
BEGIN
    INSERT INTO bin VALUES (old.log, old.key);
END;
"""

TOUCH = """
CREATE TRIGGER touch AFTER UPDATE ON durably_logs
WHEN new.kind = 'test' AND new.created_at <> new.updated_at
BEGIN
    UPDATE durably_logs SET created_at = updated_at WHERE number = new.number;
END;
"""

FOLD = """
CREATE TRIGGER fold AFTER INSERT ON durably_logs
WHEN new.kind = 'test' AND new.id <> lower(new.id)
BEGIN
    UPDATE durably_logs SET id = lower(id) WHERE number = new.number;
END;
"""

FIRST_HEAD = """
CREATE TRIGGER first_head AFTER UPDATE ON durably_logs
WHEN new.kind = 'test' AND old.head <> new.head
BEGIN
    UPDATE durably_logs SET head = old.head WHERE number = new.number;
END;
"""

ORPHANS = """
CREATE TRIGGER orphans AFTER DELETE ON durably_logs
WHEN old.kind = 'test'
BEGIN
    INSERT INTO durably_records SELECT old.number << 32, old.number, 'orphan', 1, 0, 1, x'', NULL;
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


async def folds_an_id(place: Tracked) -> bool:
    """Store a log whose id is a capital letter."""
    store = (await place.connect()).log_store
    await store.append(log("A"), keyed("a"))
    return await ids(store) != ["A"]


async def keeps_the_first_head(place: Tracked) -> bool:
    """Write two heads, and read by another handle."""
    store = (await place.connect()).log_store
    for head in (b"one", b"two"):
        await store.append(log(), Batch(head=head))
    found = await (await place.connect()).log_store.read(log())
    return found is not None and found.state.head == b"one"


def _spoiled(
    name: str, script: str, probe: Probe, *, fails: str, says: str, provenance: str
) -> Mutant:
    return Mutant(
        name=name,
        says=says,
        fails=frozenset(fails.split()),
        provenance=provenance,
        harness=lambda: SQLiteMutant(name, script, wrapped=logs_of(*TEST_KINDS)),
        probe=probe,
        scheme="sqlite",
    )


MUTANTS = (
    _spoiled(
        "sqlite with careless triggers",
        BIN + TOUCH,
        leaves_rows,
        fails="LOG-APP-003 LOG-DEL-005 LOG-LONG-006 LOG-REW-003",
        says="A delete leaves nothing behind, and the time of a log's creation stays.",
        provenance="langchain-ai/langgraph#8054, and INSERT OR REPLACE of a whole row",
    ),
    _spoiled(
        "sqlite that folds ids",
        FOLD,
        folds_an_id,
        fails="LOG-DEL-002 LOG-LIST-001 LOG-LIST-004",
        says="Ids that differ in case are different.",
        provenance="a narrow form of a column of ids that is compared without case",
    ),
    _spoiled(
        "sqlite that keeps the first head",
        FIRST_HEAD,
        keeps_the_first_head,
        fails="LOG-ATOM-001 LOG-ATOM-002 LOG-HEAD-001 LOG-HEAD-003 LOG-REW-003",
        says="A batch's head takes the place of the one before.",
        provenance="a narrow form of ON CONFLICT DO UPDATE that leaves out a column",
    ),
    _spoiled(
        "sqlite that leaves records",
        ORPHANS,
        leaves_rows,
        fails="LOG-DEL-005 LOG-LONG-006",
        says="The records of a log go with it.",
        provenance="a narrow form of langchain-ai/langgraph#8054: no ON DELETE CASCADE",
    ),
)

VARIANTS = (
    Variant(
        name="sqlite",
        says="Nothing is odd about it: the schema is left as it is.",
        harness=lambda: SQLiteMutant("sqlite", ""),
        scheme="sqlite",
    ),
)
