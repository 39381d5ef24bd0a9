"""Any sequence of operations gives the same on SQLite as on memory: the contracts."""

import itertools
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

import durably
from durably import (
    AssistantTextEntry,
    CustomEntry,
    InputEntry,
    InterruptReason,
    RunHead,
    StateSnapshot,
    ToolCallEntry,
    ToolResultEntry,
)
from places import FakeClock
from twins import Twins

SESSIONS = st.sampled_from(["s", "S", "s%"])
RUNS = st.sampled_from(["r1", "r2", "r3", "R1"])
THREADS = st.sampled_from(["t", "T"])
CALLS = st.sampled_from(["c1", "c2"])
HANDLES = st.integers(0, 1)
ENTRIES = st.lists(
    st.one_of(
        st.builds(InputEntry, role=st.just("user"), content=st.sampled_from(["hi", "\ud800", ""])),
        st.builds(AssistantTextEntry, content=st.just("hello")),
        st.builds(ToolCallEntry, call_id=CALLS, name=st.just("tool"), arguments=st.just("{}")),
        st.builds(
            ToolResultEntry,
            call_id=CALLS,
            output=st.sampled_from(["short", "long " * 30]),
            raw=st.sampled_from([None, {"price": 1.5}]),
        ),
        st.builds(CustomEntry, kind=st.just("note"), data=st.sampled_from([None, 2**70, -0.0])),
    ),
    max_size=5,
)
METAS = st.sampled_from([None, {}, {"turn": 1}])
HEADS = st.builds(
    RunHead,
    agent_name=st.sampled_from(["", "writer"]),
    turns=st.integers(0, 3),
    status=st.sampled_from(["running", "interrupted", "completed", "failed"]),
    output=st.sampled_from([None, "done", float("nan")]),
    started_at=st.sampled_from([None, 5.0]),
    interrupt=st.sampled_from(
        [None, InterruptReason(call_id="c1", tool_name="tool", arguments_digest="d", reason="ask")]
    ),
)
TOKENS = st.none() | st.integers(0, 3)
BOUNDS = st.sampled_from([None, 1, 2, 3])


class Contracts(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.twins = Twins()
        self.clock = FakeClock(1000.0)
        self.tokens = [(0, 0)]
        self.session_tokens = [(0, 0)]
        self.saves = []
        self.claims = []
        self.talk = {"t": [], "T": []}
        self.urls = (
            f"memory://{self.folder.name}",
            f"sqlite:///{self.folder / 'storage.db'}?synchronous=normal",
        )
        self._open()

    def _open(self) -> None:
        """Open two handles on each storage, and on SQLite savers that keep their caches."""
        self.handles = [
            tuple(durably.open(url, clock=self.clock) for url in self.urls) for _ in range(2)
        ]
        bounds = (None, 1, 2, 3)
        self.savers = [
            {n: sqlite.checkpoint_saver(max_checkpoints_per_thread=n) for n in bounds}
            for _, sqlite in self.handles
        ]

    def _close(self) -> None:
        for storage in itertools.chain(*self.handles):
            self.twins.run(storage.aclose())

    def _agree(self, handle, contract, name, *arguments, token=False, options=({}, {})):
        ours, theirs = (
            getattr(getattr(storage, contract), name)(*arguments, **different)
            for storage, different in zip(self.handles[handle], options, strict=True)
        )
        return self.twins.agree(ours, theirs, token=token)

    def _expecting(self, tokens, back):
        if back is None:
            return {}, {}
        return tuple({"expected_revision": one} for one in tokens[-1 - back % len(tokens)])

    # Sessions

    @rule(handle=HANDLES, session=SESSIONS, run=RUNS, entries=ENTRIES, meta=METAS)
    def append(self, handle, session, run, entries, meta):
        same = {"run_id": run, "meta": meta}
        self._agree(handle, "sessions", "append", session, entries, options=(same, same))
        self.session_tokens.append(self._agree(handle, "sessions", "revision", session, token=True))

    @rule(handle=HANDLES, session=SESSIONS, keep=st.integers(-1, 12), back=TOKENS)
    def rewind(self, handle, session, keep, back):
        options = [
            {"keep_entries": keep, **one} for one in self._expecting(self.session_tokens, back)
        ]
        self._agree(handle, "sessions", "rewind", session, options=options)

    @rule(
        handle=HANDLES,
        session=SESSIONS,
        chars=st.sampled_from([-1, 0, 10, 100]),
        runs=st.integers(0, 2),
    )
    def trim(self, handle, session, chars, runs):
        same = {"keep_chars": chars, "keep_runs": runs}
        self._agree(handle, "sessions", "trim_tool_results", session, options=(same, same))

    @rule(handle=HANDLES, session=SESSIONS)
    def clear(self, handle, session):
        self._agree(handle, "sessions", "clear", session)

    @rule(handle=HANDLES, session=SESSIONS)
    def read_session(self, handle, session):
        self._agree(handle, "sessions", "segments", session)
        self._agree(handle, "sessions", "load", session)
        self._agree(handle, "sessions", "revision", session, token=True)

    # Runs

    def _save(self, handle, run, entries, head, options):
        answers = self._agree(
            handle, "checkpointer", "append", run, entries, head, token=True, options=options
        )
        if answers is not None:
            self.tokens.append(answers)

    @rule(handle=HANDLES, run=RUNS, entries=ENTRIES, head=HEADS, back=TOKENS)
    def save(self, handle, run, entries, head, back):
        options = self._expecting(self.tokens, back)
        self._save(handle, run, entries, head, options)
        if back is not None:
            self.saves.append((run, entries, head, options))

    @rule(handle=HANDLES, run=RUNS, entries=ENTRIES, head=HEADS)
    def save_at_the_revision_just_read(self, handle, run, entries, head):
        found = self._agree(handle, "checkpointer", "load", run)
        revisions = (0, 0) if found[0] is None else (one.revision for one in found)
        options = tuple({"expected_revision": one} for one in revisions)
        self._save(handle, run, entries, head, options)
        self.saves.append((run, entries, head, options))

    @precondition(lambda self: self.saves)
    @rule(handle=HANDLES, back=st.integers(0, 9))
    def save_again(self, handle, back):
        self._save(handle, *self.saves[-1 - back % len(self.saves)])

    @rule(handle=HANDLES, run=RUNS, back=TOKENS)
    def delete_run(self, handle, run, back):
        options = self._expecting(self.tokens, back)
        self._agree(handle, "checkpointer", "delete", run, options=options)

    @rule(
        handle=HANDLES,
        status=st.sampled_from([None, "running", "failed"]),
        idle_for=st.sampled_from([None, 0, 10, 50.5, -1]),
        after=st.sampled_from([None, "R1", "r1", "r9"]),
        limit=st.integers(0, 3),
    )
    def list_runs(self, handle, **same):
        self._agree(handle, "checkpointer", "runs", options=(same, same))

    @rule(handle=HANDLES, run=RUNS)
    def claim(self, handle, run):
        claims = [storage.checkpointer.claim(run) for storage in self.handles[handle]]
        both = [self.twins.run(claim) for claim in claims]
        self.twins.agree(*(_plainly(claim) for claim in both))
        self.claims.append((handle, both))

    @precondition(lambda self: self.claims)
    @rule(back=st.integers(0, 3), entries=ENTRIES, head=HEADS)
    def save_by_claim(self, back, entries, head):
        _, both = self.claims[-1 - back % len(self.claims)]
        self.twins.agree(*(claim.append(entries, head) for claim in both), token=True)

    @precondition(lambda self: self.claims)
    @rule(back=st.integers(0, 3))
    def delete_by_claim(self, back):
        _, both = self.claims[-1 - back % len(self.claims)]
        self.twins.agree(*(claim.delete() for claim in both))

    # Threads

    def _savers(self, handle, bound, cached):
        """Return a fresh saver on memory, and on SQLite one that may know the thread already."""
        memory, sqlite = self.handles[handle]
        fresh = sqlite.checkpoint_saver(max_checkpoints_per_thread=bound)
        saver = self.savers[handle][bound] if cached else fresh
        return memory.checkpoint_saver(max_checkpoints_per_thread=bound), saver

    @rule(
        handle=HANDLES,
        thread=THREADS,
        bound=BOUNDS,
        cached=st.booleans(),
        keep=st.sampled_from([0, 1, 99, 99, 99]),
        entries=ENTRIES,
        extra=METAS,
    )
    def checkpoint(self, *, handle, thread, bound, cached, keep, entries, extra):
        messages = self.talk[thread] = self.talk[thread][:keep] + entries
        snapshot = StateSnapshot(messages=messages, turn=len(messages), extra=extra or {})
        savers = self._savers(handle, bound, cached)
        self.twins.agree(*(saver.append(thread, snapshot) for saver in savers))

    @rule(
        handle=HANDLES,
        thread=THREADS,
        bound=BOUNDS,
        cached=st.booleans(),
        seq=st.integers(0, 20),
        before=st.none() | st.integers(0, 20),
        limit=st.integers(0, 5),
    )
    def read_thread(self, *, handle, thread, bound, cached, seq, before, limit):
        savers = self._savers(handle, bound, cached)
        self.twins.agree(*(saver.latest(thread) for saver in savers))
        self.twins.agree(*(saver.get(thread, seq) for saver in savers))
        self.twins.agree(*(saver.list(thread, before=before, limit=limit) for saver in savers))

    @rule(handle=HANDLES, thread=THREADS, cached=st.booleans())
    def delete_thread(self, handle, thread, cached):
        savers = self._savers(handle, None, cached)
        self.twins.agree(*(saver.delete(thread) for saver in savers))
        self.talk[thread] = []

    # All of it

    @rule(seconds=st.sampled_from([-100.0, 0.25, 10.0, 60.0]))
    def move_the_clock(self, seconds):
        self.clock.now += seconds

    @rule()
    def reopen(self):
        self._close()
        self.claims.clear()
        self._open()

    def teardown(self):
        try:
            for session in ("s", "S", "s%"):
                self.read_session(1, session)
            for run in ("r1", "r2", "r3", "R1"):
                self._agree(1, "checkpointer", "load", run)
            self.list_runs(1, limit=10)
            for thread in ("t", "T"):
                savers = self._savers(1, None, cached=False)
                self.twins.agree(*(saver.list(thread) for saver in savers))
        finally:
            self._close()
            self.twins.close()
            shutil.rmtree(self.folder)


async def _plainly(claim):
    return {"revision": claim.revision, "snapshot": claim.snapshot}


@pytest.mark.timeout(120)
def test_the_contracts_agree():
    """Random sequences of every operation, through two handles reopened at will, agree."""
    run_state_machine_as_test(
        Contracts,
        settings=settings(
            max_examples=100,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            database=None,
            report_multiple_bugs=False,
        ),
    )
