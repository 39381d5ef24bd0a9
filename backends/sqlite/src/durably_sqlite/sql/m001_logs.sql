-- A record's place is its log's number << 32 | its seq: a log lies together, and a range of
-- seqs is a range of the primary key. Rowid tables: bodies of 2 KB do not belong in an index.
-- A body lies in data as it is, or in packed, compressed.
CREATE TABLE durably_logs (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    next_seq INTEGER NOT NULL,
    record_count INTEGER NOT NULL,
    entry_count INTEGER NOT NULL,
    head BLOB,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    changes BLOB NOT NULL,
    UNIQUE (namespace, kind, id)
);

CREATE TABLE durably_records (
    place INTEGER PRIMARY KEY,
    log INTEGER NOT NULL,
    key TEXT NOT NULL,
    entry_count INTEGER NOT NULL,
    stored_at REAL NOT NULL,
    revision INTEGER NOT NULL,
    data BLOB,
    packed BLOB,
    UNIQUE (log, key)
);
