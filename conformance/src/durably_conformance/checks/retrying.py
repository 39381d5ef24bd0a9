"""``Checkpointer``: the same save sent again, as after a lost answer, is made once."""

from durably import Entry, RevisionConflict, RunHead, ToolCallEntry
from durably_conformance.building import answer, head, said
from durably_conformance.context import T
from durably_conformance.reading_back import loaded
from durably_conformance.registry import check


@check(
    "CKP-RETRY-001",
    contract="checkpointer",
    reports=("google/adk-python#5723", "google/adk-python#4506"),
)
async def a_save_sent_again_is_made_once(t: T) -> None:
    """The same save sent again at the same revision changes nothing and returns its revision."""
    one, other = await t.connect(), await t.connect()
    token = 0
    for count, text in enumerate(("first", "second", "third"), start=1):
        saves = [
            await one.checkpointer.append("r", said(text), head(), expected_revision=token)
            for _ in range(3)
        ]
        t.eq(len(set(saves)), 1, f"revisions that the {text} save returned in 3 attempts")
        run = await loaded(t, other)
        t.eq(len(run.entries), count, f"entries after the {text} save")
        t.eq(run.revision, saves[0], f"the run's revision after the {text} save")
        token = saves[0]


@check("CKP-RETRY-002", contract="checkpointer")
async def a_head_sent_again_is_saved_once(t: T) -> None:
    """A save without entries is known again as one with entries is."""
    one, other = await t.connect(), await t.connect()
    token = await one.checkpointer.append("r", said("a"), head())
    for status in ("interrupted", "running", "completed"):
        once = head(status=status)
        saves = [
            await one.checkpointer.append("r", [], once, expected_revision=token) for _ in range(3)
        ]
        t.eq(len(set(saves)), 1, "revisions that one save of a head returned in 3 attempts")
        run = await loaded(t, other)
        t.eq((run.head.status, run.revision), (status, saves[0]), "status and revision")
        token = saves[0]
    t.eq((await loaded(t, other)).entries, said("a"), "entries")


@check("CKP-RETRY-003", contract="checkpointer")
async def times_do_not_tell_saves_apart(t: T) -> None:
    """A save sent again later, or with other times in its head, is known all the same."""
    one, other = await t.connect(), await t.connect()
    token = await one.checkpointer.append("r", said("a"), head())
    saved = await one.checkpointer.append(
        "r", said("b"), head(turns=1, started_at=1.0), expected_revision=token
    )
    before = await loaded(t, other)
    t.clock.advance(5)
    for times in ({"started_at": 1.0}, {"started_at": 2.0}, {"updated_at": 9.0}):
        again = head(turns=1, **times)
        got = await one.checkpointer.append("r", said("b"), again, expected_revision=token)
        t.eq(got, saved, "the revision that the same save returns later")
    t.exact(await loaded(t, other), before, "the run after that")


@check("CKP-RETRY-004", contract="checkpointer")
async def a_save_is_known_after_others(t: T) -> None:
    """A save is known again as long as fewer than 8 further changes were made."""
    one, other = await t.connect(), await t.connect()
    for name, entries in (("entries", said("mine")), ("head", [])):
        token = await one.checkpointer.append(name, said("before"), head())
        mine = head(turns=1)
        saved = await one.checkpointer.append(name, entries, mine, expected_revision=token)
        for turns in range(7):
            await other.checkpointer.append(name, said("other"), head(turns=turns))
            again = await one.checkpointer.append(name, entries, mine, expected_revision=token)
            t.eq(again, saved, f"the revision of the same save after {turns + 1} changes")
        run = await loaded(t, other, name)
        t.eq(len(run.entries), 8 + len(entries), f"entries of a run, saving {name}")
        t.eq(run.head.turns, 6, "turns of its head")


@check("CKP-RETRY-005", contract="checkpointer")
async def a_late_repetition_never_writes(t: T) -> None:
    """A save sent again after very many further changes is known or refused, and never made."""
    one, other = await t.connect(), await t.connect()
    for name, entries in (("entries", said("mine")), ("head", [])):
        token = await one.checkpointer.append(name, said("before"), head())
        saved = await one.checkpointer.append(name, entries, head(), expected_revision=token)
        for turns in range(20):
            await other.checkpointer.append(name, [], head(turns=turns))
        before = await loaded(t, other, name)
        sending = one.checkpointer.append(name, entries, head(), expected_revision=token)
        again = await t.attempt(sending)
        t.ok(again == saved or isinstance(again, RevisionConflict), "it is known, or refused")
        t.exact(await loaded(t, other, name), before, f"the run after that, saving {name}")


@check("CKP-RETRY-006", contract="checkpointer")
async def another_save_is_not_taken_for_it(t: T) -> None:
    """Another save at a revision that was used is RevisionConflict, never taken for the first."""
    handle = await t.connect()
    runs = handle.checkpointer
    token = await runs.append("r", said("a"), head())
    saved = await runs.append("r", said("b"), head(), expected_revision=token)
    others: dict[str, tuple[list[Entry], RunHead]] = {
        "other entries": (said("c"), head()),
        "more entries": (said("b", "b"), head()),
        "no entries": ([], head()),
        "another head": (said("b"), head(turns=1)),
        "another status": (said("b"), head(status="completed")),
        "the model's words": ([answer("b")], head()),
        "a call": ([ToolCallEntry(call_id="b", name="b")], head()),
    }
    for what, (entries, its_head) in others.items():
        saving = runs.append("r", entries, its_head, expected_revision=token)
        await t.raises(RevisionConflict, saving, f"{what} at a used revision")
    run = await loaded(t, handle)
    t.eq((run.entries, run.revision), (said("a", "b"), saved), "entries and revision after that")
    t.eq((run.head.turns, run.head.status), (0, "running"), "turns and status after that")


@check("CKP-RETRY-007", contract="checkpointer")
async def another_worker_is_not_taken_for_it(t: T) -> None:
    """An equal save through another handle is another worker's: it is RevisionConflict."""
    one, other = await t.connect(), await t.connect()
    token = 0
    for entries in (said("a"), said("b"), []):
        saved = await one.checkpointer.append("r", entries, head(), expected_revision=token)
        equal = other.checkpointer.append("r", entries, head(), expected_revision=token)
        await t.raises(RevisionConflict, equal, "the equal save of another handle")
        token = saved
    run = await loaded(t, other)
    t.eq((run.entries, run.revision), (said("a", "b"), token), "entries and revision")
