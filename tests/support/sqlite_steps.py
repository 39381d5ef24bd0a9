"""Made-up layouts 2 and 3, as a later version of the backend would bring them."""

from durably_sqlite import _layout

SECOND = _layout.Migration(
    version=2,
    name="notes",
    script="""-- A table, a column, and what belongs into both.
CREATE TABLE durably_notes (
    log INTEGER PRIMARY KEY,
    note TEXT NOT NULL
);
INSERT INTO durably_notes SELECT number, 'a note; on ' || id FROM durably_logs;
ALTER TABLE durably_logs ADD COLUMN label TEXT;
UPDATE durably_logs SET label = upper(kind);
""",
)
THIRD = _layout.Migration(
    version=3,
    name="index",
    script="""CREATE INDEX durably_by_label ON durably_logs (label);
CREATE TRIGGER durably_forget AFTER DELETE ON durably_logs BEGIN
    DELETE FROM durably_notes WHERE log = OLD.number;
END;
""",
)
OLD, NEW = _layout.VERSION, 3


def later(*steps):
    """Return the steps of this version and those after it."""
    return (*_layout.MIGRATIONS, *(steps or (SECOND, THIRD)))


def upgrade(set_attribute, *steps):
    """Make this process one of a later version; ``set_attribute`` is setattr or undoes itself."""
    migrations = later(*steps)
    set_attribute(_layout, "MIGRATIONS", migrations)
    set_attribute(_layout, "VERSION", migrations[-1].version)
