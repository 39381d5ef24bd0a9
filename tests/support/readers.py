"""Raw entries planted beneath each contract, and how that contract reads them."""

from builders import plant

KNOWN = b'{"type":"input","role":"user","content":"known"}'


def record(*items, more=b""):
    return b'{"entries":[' + b",".join(items) + b"]" + more + b"}"


def thread(*items, snapshot=b"{}"):
    return b'{"messages":[' + b",".join(items) + b'],"snapshot":' + snapshot + b"}"


class SessionReader:
    """Reads planted entries back from a session."""

    kind = "session"
    key = "r1"

    @staticmethod
    async def plant(place, *items):
        await plant(place, "session", "x", record(*items), entry_count=len(items))

    @staticmethod
    async def read(storage):
        return await storage.sessions.load("x")


class RunReader:
    """Reads planted entries back from a run."""

    kind = "run"
    key = "r1"

    @staticmethod
    async def plant(place, *items):
        await plant(place, "run", "x", record(*items), entry_count=len(items), head=b"{}")

    @staticmethod
    async def read(storage):
        return (await storage.checkpointer.load("x")).entries


class ThreadReader:
    """Reads planted entries back from a snapshot of a thread."""

    kind = "thread"
    key = "base:1"

    @staticmethod
    async def plant(place, *items):
        await plant(place, "thread", "x", thread(*items), key="base:1", entry_count=len(items))

    @staticmethod
    async def read(storage):
        return (await storage.checkpoint_saver().latest("x")).snapshot.messages


READERS = (SessionReader, RunReader, ThreadReader)
