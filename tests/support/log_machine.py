"""A state machine over two log stores: whatever memory answers, the other must answer too."""

import shutil
import tempfile
from pathlib import Path

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from durably import MemoryLogStore
from durably.logstore import Batch, LogId, NewRecord, Page, Range, Rewrite
from twins import Twins

LOGS = st.sampled_from([LogId(kind="run", id=name) for name in ("a", "A", "a%")])
KEYS = st.none() | st.sampled_from("klmno")
RECORDS = st.lists(
    st.builds(NewRecord, data=st.binary(max_size=3), entry_count=st.integers(0, 3), key=KEYS),
    max_size=4,
    unique_by=lambda record: record.key or object(),
).map(tuple)
HEADS = st.none() | st.binary(max_size=3)
TIMES = st.sampled_from([1.0, 2.5, 0.5])
SEQS = st.integers(0, 12)
RANGES = st.builds(
    Range,
    after=SEQS,
    until=st.none() | SEQS,
    limit=st.none() | st.integers(0, 4),
    entry_limit=st.none() | st.integers(1, 6),
    newest=st.booleans(),
    keys=st.none() | st.frozensets(st.sampled_from("klmno")),
    with_data=st.booleans(),
)


class LogStores(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.twins = Twins()
        self.memory = MemoryLogStore()
        self.tokens = [(0, 0)]
        self.sent = []
        self.open_others()

    knows_duplicates = True
    """Whether a repetition is always told from the attempt of another handle at the same change."""

    def open_others(self) -> None:
        """Open two handles onto one place, as ``others``."""
        raise NotImplementedError

    def close_others(self) -> None:
        for store in self.others:
            self.twins.run(store.aclose())

    def _send(self, handle, name, log, change, twin) -> None:
        ours = getattr(self.memory, name)(log, change)
        theirs = getattr(self.others[handle], name)(log, twin)
        if not self.knows_duplicates:
            ours, theirs = _as_first(ours), _as_first(theirs)
        answers = self.twins.agree(ours, theirs)
        self.sent.append((name, log, change, twin))
        if answers is not None:
            self.tokens.append(tuple(answer.revision for answer in answers))

    handles = st.integers(0, 1)
    tokens_drawn = st.none() | st.integers(0, 3)

    def _token(self, back):
        return (None, None) if back is None else self.tokens[-1 - back % len(self.tokens)]

    @rule(
        handle=handles,
        log=LOGS,
        records=RECORDS,
        head=HEADS,
        at=TIMES,
        keep_last=st.none() | st.integers(1, 4),
        back=tokens_drawn,
    )
    def append(self, *, handle, log, records, head, at, keep_last, back):
        head = b"h" if head is None and not records else head
        ours, theirs = self._token(back)
        batch = Batch(
            records=records, head=head, keep_last=keep_last, at=at, expected_revision=ours
        )
        twin = Batch(
            records=records,
            head=head,
            keep_last=keep_last,
            at=at,
            expected_revision=theirs,
            key=batch.key,
        )
        self._send(handle, "append", log, batch, twin)

    @rule(
        handle=handles,
        log=LOGS,
        drop_after=st.none() | SEQS,
        drop=st.frozensets(SEQS, max_size=3),
        replace=st.dictionaries(SEQS, st.builds(NewRecord, data=st.just(b"new"), entry_count=SEQS)),
        head=HEADS,
        at=TIMES,
        back=st.none() | st.integers(0, 3),
    )
    def rewrite(self, *, handle, log, drop_after, drop, replace, head, at, back):
        ours, theirs = self._token(back)
        if not ours:
            states = self.twins.agree(self.memory.read(log), self.others[handle].read(log))
            ours, theirs = (1, 1) if states[0] is None else (one.state.revision for one in states)
        fields = {"drop_after": drop_after, "drop": drop, "head": head, "at": at}
        cut = Rewrite(expected_revision=1, **fields)
        fields["replace"] = {seq: new for seq, new in replace.items() if not cut.drops(seq)}
        change = Rewrite(expected_revision=ours, **fields)
        twin = Rewrite(expected_revision=theirs, key=change.key, **fields)
        self._send(handle, "rewrite", log, change, twin)

    @precondition(lambda self: self.sent)
    @rule(handle=handles, back=st.integers(0, 30))
    def send_again(self, handle, back):
        self._send(handle, *self.sent[-1 - back % len(self.sent)])

    @rule(handle=handles, log=LOGS, back=tokens_drawn)
    def delete(self, handle, log, back):
        ours, theirs = self._token(back)
        self.twins.agree(
            self.memory.delete(log, expected_revision=ours),
            self.others[handle].delete(log, expected_revision=theirs),
        )

    @rule(handle=handles, log=LOGS, span=RANGES)
    def read(self, handle, log, span):
        self.twins.agree(self.memory.read(log, span), self.others[handle].read(log, span))

    @rule(
        handle=handles,
        prefix=st.sampled_from(["", "a", "A", "%"]),
        after=st.sampled_from(["", "A", "a", "b"]),
        limit=st.integers(1, 3),
        with_state=st.booleans(),
    )
    def list_logs(self, handle, **options):
        self.twins.agree(_listed(self.memory, options), _listed(self.others[handle], options))

    @rule()
    def reopen(self):
        self.close_others()
        self.open_others()

    def teardown(self):
        try:
            for name in ("a", "A", "a%"):
                self.read(0, LogId(kind="run", id=name), Range())
        finally:
            self.close_others()
            self.twins.close()
            shutil.rmtree(self.folder)


async def _as_first(applying):
    """Return an answer as one that was given the first time."""
    return msgspec.structs.replace(await applying, duplicate=False)


async def _listed(store, options):
    """Return a page as full as it can be; a shorter one, with a ``next``, is as legal."""
    limit, found, after = options["limit"], [], options["after"]
    while after is not None and len(found) <= limit:
        page = await store.list("run", **{**options, "after": after})
        found += page.items
        after = page.next
    has_more = len(found) > limit
    return Page(items=tuple(found[:limit]), next=found[limit - 1].id if has_more else None)


def agree(machine: type[LogStores], *, examples: int) -> None:
    """Compare with memory over so many sequences of up to 40 steps, the same in every run."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            database=None,
            report_multiple_bugs=False,
        ),
    )
