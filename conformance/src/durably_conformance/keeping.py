"""Where an application's content can be put: entries, and the fields around them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import msgspec
from typing_extensions import override

from durably import (
    CustomEntry,
    Entry,
    InterruptReason,
    JsonObject,
    ReasoningEntry,
    RunHead,
    StateSnapshot,
    ToolResultEntry,
)
from durably.testing import Handle
from durably_conformance.building import call, said
from durably_conformance.context import DoesNotApply, T

__all__ = ["KEEPERS", "SESSIONS", "Keeper", "Slot", "keepers", "slots"]


class Keeper(ABC):
    """A contract as something that keeps entries under an id.

    ``capability`` is its own, ``kind`` that of its logs, ``path`` how errors name its entries.
    """

    capability: str
    kind: str
    path: str

    @abstractmethod
    async def write(self, handle: Handle, id_: str, entries: Sequence[Entry]) -> None:
        """Append entries; to a thread, a snapshot of them."""

    @abstractmethod
    async def read(self, handle: Handle, id_: str) -> list[Entry]:
        """Return what is stored: a thread's latest messages; nothing where there is nothing."""

    @abstractmethod
    async def remove(self, handle: Handle, id_: str) -> None:
        """Remove everything of the id."""

    @override
    def __str__(self) -> str:
        return f"a {self.kind}"


class _Sessions(Keeper):
    capability = "sessions"
    kind = "session"
    path = "entries"

    @override
    async def write(self, handle: Handle, id_: str, entries: Sequence[Entry]) -> None:
        await handle.sessions.append(id_, entries)

    @override
    async def read(self, handle: Handle, id_: str) -> list[Entry]:
        return list(await handle.sessions.load(id_))

    @override
    async def remove(self, handle: Handle, id_: str) -> None:
        await handle.sessions.clear(id_)


class _Runs(Keeper):
    capability = "checkpointer"
    kind = "run"
    path = "entries"

    @override
    async def write(self, handle: Handle, id_: str, entries: Sequence[Entry]) -> None:
        await handle.checkpointer.append(id_, entries, RunHead())

    @override
    async def read(self, handle: Handle, id_: str) -> list[Entry]:
        run = await handle.checkpointer.load(id_)
        return [] if run is None else list(run.entries)

    @override
    async def remove(self, handle: Handle, id_: str) -> None:
        await handle.checkpointer.delete(id_)


class _Threads(Keeper):
    capability = "checkpoint_saver"
    kind = "thread"
    path = "snapshot.messages"

    @override
    async def write(self, handle: Handle, id_: str, entries: Sequence[Entry]) -> None:
        await handle.checkpoint_saver().append(id_, StateSnapshot(messages=entries))

    @override
    async def read(self, handle: Handle, id_: str) -> list[Entry]:
        found = await handle.checkpoint_saver().latest(id_)
        return [] if found is None else list(found.snapshot.messages)

    @override
    async def remove(self, handle: Handle, id_: str) -> None:
        await handle.checkpoint_saver().delete(id_)


SESSIONS = _Sessions()
KEEPERS: tuple[Keeper, ...] = (SESSIONS, _Runs(), _Threads())


def keepers(t: T) -> list[Keeper]:
    """Return those of the declared contracts.

    Raises:
        DoesNotApply: none of them is declared.
    """
    found = [one for one in KEEPERS if getattr(t.capabilities, one.capability)]
    if not found:
        raise DoesNotApply("no contract that keeps entries is declared")
    return found


class Slot(ABC):
    """A field of a contract that holds plain JSON; ``path`` is how an error names it."""

    def __init__(self, keeper: Keeper, path: str) -> None:
        self.keeper = keeper
        self.path = path

    @abstractmethod
    async def write(self, handle: Handle, id_: str, value: JsonObject) -> None:
        """Store a value there."""

    @abstractmethod
    async def read(self, handle: Handle, id_: str) -> object:
        """Return what is there; None where nothing was stored."""

    @override
    def __str__(self) -> str:
        return f"{self.path} of {self.keeper}"


class _InEntry(Slot):
    """In the third entry."""

    def __init__(self, keeper: Keeper, name: str, make: Callable[[JsonObject], Entry]) -> None:
        super().__init__(keeper, f"{keeper.path}[2].{name}")
        self._name = name
        self._make = make

    @override
    async def write(self, handle: Handle, id_: str, value: JsonObject) -> None:
        await self.keeper.write(handle, id_, [*said("a"), call("c"), self._make(value)])

    @override
    async def read(self, handle: Handle, id_: str) -> object:
        entries = await self.keeper.read(handle, id_)
        return getattr(entries[2], self._name) if entries else None


class _InMeta(Slot):
    def __init__(self, keeper: Keeper) -> None:
        super().__init__(keeper, "meta")

    @override
    async def write(self, handle: Handle, id_: str, value: JsonObject) -> None:
        await handle.sessions.append(id_, said("a"), meta=value)

    @override
    async def read(self, handle: Handle, id_: str) -> object:
        found = await handle.sessions.segments(id_)
        return found[0].meta if found else None


class _InHead(Slot):
    def __init__(self, keeper: Keeper, name: str) -> None:
        super().__init__(keeper, f"head.{name}")
        self._name = name

    @override
    async def write(self, handle: Handle, id_: str, value: JsonObject) -> None:
        fields, name = _fields(self._name, value)
        head = msgspec.structs.replace(RunHead(), **{name: fields})
        await handle.checkpointer.append(id_, said("a"), head)

    @override
    async def read(self, handle: Handle, id_: str) -> object:
        run = await handle.checkpointer.load(id_)
        return None if run is None else _member(run.head, self._name)


class _InSnapshot(Slot):
    def __init__(self, keeper: Keeper, name: str) -> None:
        super().__init__(keeper, f"snapshot.{name}")
        self._name = name

    @override
    async def write(self, handle: Handle, id_: str, value: JsonObject) -> None:
        fields, name = _fields(self._name, value)
        snapshot = msgspec.structs.replace(StateSnapshot(messages=said("a")), **{name: fields})
        await handle.checkpoint_saver().append(id_, snapshot)

    @override
    async def read(self, handle: Handle, id_: str) -> object:
        found = await handle.checkpoint_saver().latest(id_)
        return None if found is None else _member(found.snapshot, self._name)


def _fields(path: str, value: JsonObject) -> tuple[object, str]:
    """Return what to put into which field, so that a value is found at a path."""
    name, _, inner = path.partition(".")
    if not inner:
        return value, name
    waiting = InterruptReason(
        call_id="c", tool_name="t", arguments_digest="d", reason="r", data=value
    )
    return waiting, name


def _member(owner: object, path: str) -> object:
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner


_ENTRIES: dict[str, Callable[[JsonObject], Entry]] = {
    "raw": lambda value: ToolResultEntry(call_id="c", output="o", raw=value),
    "metadata": lambda value: ReasoningEntry(provider="p", metadata=value),
    "data": lambda value: CustomEntry(kind="k", data=value),
}


def slots(t: T) -> list[Slot]:
    """Return every slot of the declared contracts."""
    found: list[Slot] = []
    for keeper in keepers(t):
        found += [_InEntry(keeper, name, make) for name, make in _ENTRIES.items()]
        if keeper.kind == "session":
            found.append(_InMeta(keeper))
        elif keeper.kind == "run":
            names = ("output", "context_state", "usage", "interrupt.data")
            found += [_InHead(keeper, name) for name in names]
        else:
            found += [_InSnapshot(keeper, name) for name in ("extra", "usage", "interrupt.data")]
    return found
