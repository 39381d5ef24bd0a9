"""Every statement the operations use; each operation runs its own in one transaction."""

FIND_LOG = """
SELECT number, revision, epoch, next_seq, record_count, entry_count, head, created_at,
       updated_at, changes
  FROM durably_logs
 WHERE namespace = ? AND kind = ? AND id = ?
"""

INSERT_LOG = """
INSERT INTO durably_logs (namespace, kind, id, revision, epoch, next_seq, record_count,
                          entry_count, head, created_at, updated_at, changes)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

UPDATE_LOG = """
UPDATE durably_logs
   SET revision = ?, epoch = ?, next_seq = ?, record_count = ?, entry_count = ?, head = ?,
       created_at = ?, updated_at = ?, changes = ?
 WHERE number = ?
"""

DELETE_LOG = "DELETE FROM durably_logs WHERE number = ?"

LIST_IDS = """
SELECT id
  FROM durably_logs
 WHERE namespace = ? AND kind = ? AND id > ? AND id BETWEEN ? AND ?
 ORDER BY id
 LIMIT ?
"""

LIST_STATES = """
SELECT id, revision, epoch, next_seq, record_count, entry_count, head, created_at, updated_at
  FROM durably_logs
 WHERE namespace = ? AND kind = ? AND id > ? AND id BETWEEN ? AND ?
 ORDER BY id
 LIMIT ?
"""

FIND_KEY = "SELECT place, revision FROM durably_records WHERE log = ? AND key = ?"

INSERT_RECORD = """
INSERT INTO durably_records (place, log, key, entry_count, stored_at, revision, data, packed)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

UPDATE_RECORD = "UPDATE durably_records SET entry_count = ?, data = ?, packed = ? WHERE place = ?"

DELETE_RECORDS = "DELETE FROM durably_records WHERE place BETWEEN ? AND ?"

READ_ASCENDING = """
SELECT place & 0xFFFFFFFF, key, entry_count, stored_at, revision,
       CASE WHEN ? THEN coalesce(data, durably_unpack(packed)) END
  FROM durably_records
 WHERE place BETWEEN ? AND ?
 ORDER BY place
 LIMIT ?
"""

READ_DESCENDING = """
SELECT place & 0xFFFFFFFF, key, entry_count, stored_at, revision,
       CASE WHEN ? THEN coalesce(data, durably_unpack(packed)) END
  FROM durably_records
 WHERE place BETWEEN ? AND ?
 ORDER BY place DESC
 LIMIT ?
"""

MEASURE_OLDEST = """
SELECT max(place), sum(entry_count)
  FROM (SELECT place, entry_count
          FROM durably_records
         WHERE place BETWEEN ? AND ?
         ORDER BY place
         LIMIT ?)
"""
