"""Two stores driven alike: whatever one answers, the other must answer too.

Revisions are random, so they cannot be equal; each of one store must stand for one and the same
of the other, always.
"""

import asyncio

import msgspec

from durably import DurablyError, RevisionConflict

TOKENS = frozenset({"revision", "epoch"})


async def _outcome(awaitable):
    try:
        return {"answer": await awaitable}
    except RevisionConflict as error:
        return {"conflict": {"revision": error.actual}, "wanted": {"revision": error.expected}}
    except DurablyError as error:
        return {"error": type(error).__name__}


class Twins:
    """One event loop, and the pairs of revisions that stand for each other."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._pairs = {0: 0}
        self._backwards = {0: 0}

    def run(self, awaitable):
        return self._runner.run(awaitable)

    def agree(self, first, second, *, token=False):
        """Await both, check that the outcomes are equal, and return both answers, or None.

        ``token`` says that the answer is a bare revision.
        """
        ours, theirs = self.run(_outcome(first)), self.run(_outcome(second))
        name = "revision" if token else "answer"
        self._same({name: _plain(ours)}, {name: _plain(theirs)})
        if "answer" not in ours:
            return None
        return ours["answer"], theirs["answer"]

    def _same(self, ours, theirs, name=""):
        if name in TOKENS and isinstance(ours, dict) and ours.keys() == {"answer"}:
            ours, theirs = ours["answer"], theirs["answer"]
        if name in TOKENS and isinstance(ours, int):
            assert self._pairs.setdefault(ours, theirs) == theirs
            assert self._backwards.setdefault(theirs, ours) == ours
        elif isinstance(ours, dict):
            assert ours.keys() == theirs.keys()
            for key, value in ours.items():
                self._same(value, theirs[key], key)
        elif isinstance(ours, list | tuple):
            assert len(ours) == len(theirs)
            for one, other in zip(ours, theirs, strict=True):
                self._same(one, other)
        else:
            assert (type(ours), ours) == (type(theirs), theirs)

    def close(self) -> None:
        self._runner.close()


def _plain(value):
    return msgspec.to_builtins(value, str_keys=False)
