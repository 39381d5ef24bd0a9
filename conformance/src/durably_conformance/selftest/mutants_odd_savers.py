"""An odd saver that breaks no rule."""

from collections.abc import Sequence

from typing_extensions import override

from durably import Checkpoint
from durably_conformance.selftest.delegating import SaverMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.table import Variant


class Tuples(SaverMutation):
    """Gives tuples where a sequence is promised."""

    @override
    async def list(
        self, thread_id: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Checkpoint]:
        return tuple(await self.inner.list(thread_id, before=before, limit=limit))


VARIANTS = (
    Variant(
        name="tuples for lists",
        says="Its lists of checkpoints are tuples.",
        harness=lambda: MemoryMutant(saver=Tuples),
    ),
)
