"""Execute SQL in WAL or another mode, nothing of it written back, then wait or be killed.

Arguments: the file, "wait" or "die", and the statements.
"""

import os
import signal
import sqlite3
import sys

path, end, script = sys.argv[1:]
connection = sqlite3.connect(path, isolation_level=None)
connection.execute("PRAGMA wal_autocheckpoint = 0")
connection.executescript(script)
sys.stdout.write("written\n")
sys.stdout.flush()
if end == "die":
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.read()
