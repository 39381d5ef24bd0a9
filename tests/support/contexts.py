"""Every place a caller's own JSON can be put: how it is written there and read back."""

from builders import call, said
from durably import (
    CustomEntry,
    InterruptReason,
    ReasoningEntry,
    RunHead,
    StateSnapshot,
    ToolResultEntry,
)


def _entries(entry):
    return [*said("a", "b"), call("c"), entry]


def _raw(value):
    return _entries(ToolResultEntry(call_id="c", output="o", raw={"price": value}))


def _metadata(value):
    return _entries(ReasoningEntry(provider="p", metadata={"price": value}))


def _data(value):
    return _entries(CustomEntry(kind="k", data={"price": value}))


def _interrupt(value):
    return InterruptReason(
        call_id="c", tool_name="t", arguments_digest="d", reason="r", data={"price": value}
    )


class InSession:
    """In an entry of a session."""

    def __init__(self, make, name):
        self.path = f"entries[3].{name}.price"
        self._make, self._name = make, name

    async def write(self, storage, id_, value):
        await storage.sessions.append(id_, self._make(value))

    async def read(self, storage, id_):
        entries = await storage.sessions.load(id_)
        return getattr(entries[3], self._name)["price"] if entries else ...


class InMeta:
    """In the meta of a session's run."""

    path = "meta.price"

    async def write(self, storage, id_, value):
        await storage.sessions.append(id_, said("a"), meta={"price": value})

    async def read(self, storage, id_):
        segments = await storage.sessions.segments(id_)
        return segments[0].meta["price"] if segments else ...


class InRun:
    """In an entry of a run."""

    path = "entries[3].raw.price"

    async def write(self, storage, id_, value):
        await storage.checkpointer.append(id_, _raw(value), RunHead())

    async def read(self, storage, id_):
        run = await storage.checkpointer.load(id_)
        return run.entries[3].raw["price"] if run else ...


class InHead:
    """In a field of a run's head."""

    def __init__(self, name):
        self.path = f"head.{name}.price"
        self._name = name

    async def write(self, storage, id_, value):
        head = RunHead(**{self._name: {"price": value}})
        await storage.checkpointer.append(id_, said("a"), head, expected_revision=0)

    async def read(self, storage, id_):
        run = await storage.checkpointer.load(id_)
        return getattr(run.head, self._name)["price"] if run else ...


class InInterrupt:
    """In the data of what a run waits for."""

    path = "head.interrupt.data.price"

    async def write(self, storage, id_, value):
        await storage.checkpointer.append(id_, [], RunHead(interrupt=_interrupt(value)))

    async def read(self, storage, id_):
        run = await storage.checkpointer.load(id_)
        return run.head.interrupt.data["price"] if run else ...


class InMessages:
    """In a message of a snapshot."""

    path = "snapshot.messages[3].data.price"

    async def write(self, storage, id_, value):
        await storage.checkpoint_saver().append(id_, StateSnapshot(messages=_data(value)))

    async def read(self, storage, id_):
        found = await storage.checkpoint_saver().latest(id_)
        return found.snapshot.messages[3].data["price"] if found else ...


class InExtra:
    """In the application's own part of a snapshot."""

    path = "snapshot.extra.price"

    async def write(self, storage, id_, value):
        await storage.checkpoint_saver().append(id_, StateSnapshot(extra={"price": value}))

    async def read(self, storage, id_):
        found = await storage.checkpoint_saver().latest(id_)
        return found.snapshot.extra["price"] if found else ...


CONTEXTS = {
    "raw": InSession(_raw, "raw"),
    "metadata": InSession(_metadata, "metadata"),
    "data": InSession(_data, "data"),
    "meta": InMeta(),
    "run": InRun(),
    "output": InHead("output"),
    "context_state": InHead("context_state"),
    "usage": InHead("usage"),
    "interrupt": InInterrupt(),
    "messages": InMessages(),
    "extra": InExtra(),
}
"""Reading where nothing was written gives the Ellipsis."""
