"""Stored bytes are data: whatever they name, nothing is imported and nothing is run."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

from durably import CustomEntry, Entry
from durably_conformance.building import said
from durably_conformance.context import T
from durably_conformance.keeping import keepers
from durably_conformance.planting import plant
from durably_conformance.registry import check

MODULE = "durably_conformance_marker"

NAMING: tuple[object, ...] = (
    {"__class__": f"{MODULE}.boom", "__module__": MODULE},
    {"py/object": f"{MODULE}.boom", "py/reduce": [{"py/function": f"{MODULE}.boom"}]},
    {"lc": 2, "type": "constructor", "id": [MODULE, "boom"], "kwargs": {}},
    {"$type": f"{MODULE}.boom", "!!python/object/apply": f"{MODULE}.boom"},
    f"c{MODULE}\nboom\n(tR.",
)
"""What careless loaders take for a class or a function to be called."""


class _Trap:
    """A finder and loader of one module; what is imported or called is noted."""

    def __init__(self) -> None:
        self.sprung: list[str] = []

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == MODULE else None  # type: ignore[arg-type]

    def create_module(self, _: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        self.sprung.append("imported")
        vars(module)["boom"] = self.boom

    def boom(self, *_: object, **__: object) -> None:
        self.sprung.append("called")


@contextmanager
def _trapped() -> Generator[_Trap]:
    trap = _Trap()
    sys.meta_path.insert(0, trap)
    try:
        yield trap
    finally:
        sys.meta_path.remove(trap)
        sys.modules.pop(MODULE, None)


@check(
    "DEC-CODE-001",
    contract="storage",
    requires=("log_store",),
    reports=(
        "langchain-ai/langgraph#8522",
        "microsoft/agent-framework#4894",
        "google/adk-python#6791",
    ),
)
async def loading_runs_nothing(t: T) -> None:
    """Loading imports nothing and calls nothing that stored bytes name, whatever they are."""
    entries: list[Entry] = [CustomEntry(kind="k", data=value) for value in NAMING]
    handle, reader = await t.connect(), await t.connect()
    with _trapped() as trap:
        for keeper in keepers(t):
            await keeper.write(handle, "named", entries)
            t.exact(await keeper.read(reader, "named"), entries, f"entries of {keeper}")
            pickle = f"c{MODULE}\nboom\n(tR.".encode()
            head = pickle if keeper.kind == "run" else None
            await plant(t, handle, keeper, said("a"), spoiled=pickle, head=head)
            await t.attempt(keeper.read(reader, "x"))
        t.eq(trap.sprung, [], "what became of the module that the bytes name")
