"""How a run ends: in which order it is stored, how that heals, and what a replay gives back."""

import datetime as dt
import enum
import itertools
import warnings

import msgspec
import pydantic
import pytest

from builders import call, dump, model, user
from durably import ImagePart, ReasoningEntry, Storage, TextPart, Unavailable
from durably_runner import (
    CheckpointOptions,
    InvalidOutput,
    LimitExceeded,
    OutputNotStored,
    RunCompleted,
    RunLimits,
    Runner,
    Usage,
)
from runner_scenes import (
    RUN_ID,
    SESSION_ID,
    Dies,
    Tape,
    calls,
    costly,
    plant,
    run,
    scripted,
    segments,
    stored,
    turns,
)


def clerk():
    return scripted(costly(*calls("a"), tokens=3), costly(model("done"), tokens=5))


@pytest.mark.parametrize("drop", [False, True])
async def test_the_order_of_completion_is_fixed(place, drop):
    """First the checkpoint is final, then the session gets the run, then the checkpoint goes."""
    tape = Tape(place.log_store())
    async with Storage(tape) as storage:
        await run(clerk(), storage=storage, delete_on_success=drop)
    end = ["append run", "append session", *(["delete run"] if drop else [])]
    assert tape.calls[-len(end) :] == end
    assert tape.calls.count("append session") == 1
    assert tape.calls.count("delete run") == drop


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("drop", [False, True])
async def test_every_window_of_completion_heals(place, drop, done):
    """A store that is gone from any call of the completion on: issued again, all of it is done."""
    tape = Tape(place.log_store(namespace="counting"))
    async with Storage(tape) as storage:
        whole = await run(clerk(), storage=storage, delete_on_success=drop)
    last = len(tape.calls)
    for number in range(last - (2 if drop else 1), last + 1):
        store = Dies(place.log_store(namespace=f"n{number}"), number, done=done)
        async with Storage(store) as broken:
            with pytest.raises(Unavailable):
                await run(clerk(), storage=broken, delete_on_success=drop)
        async with Storage(place.log_store(namespace=f"n{number}")) as healthy:
            agent = clerk()
            healed = await run(agent, "other", storage=healthy, delete_on_success=drop)
            assert turns(agent) == []
            assert (healed.output, healed.usage, healed.turns) == ("done", whole.usage, 2)
            assert healed.entries == whole.entries
            (segment,) = await healthy.sessions.segments(SESSION_ID)
            assert (segment.run_id, segment.entries) == (RUN_ID, whole.entries)
            timing = segment.meta["timing"]
            assert timing["started_at"] <= timing["finished_at"]
            assert (await stored(healthy) is None) == drop
            before = await stored(healthy)
            await run(agent, storage=healthy, delete_on_success=drop)
            assert await segments(healthy) == [RUN_ID]
            assert await stored(healthy) == before


async def test_a_run_is_never_both_done_and_resumable(place):
    """Whenever the session holds a run, its checkpoint says completed, or is gone."""
    seen = []

    class Watching(Tape):
        async def _step(self, name, log, operation):
            answer = await super()._step(name, log, operation)
            async with Storage(place.log_store()) as other:
                if RUN_ID in await segments(other):
                    held = await stored(other)
                    seen.append(None if held is None else held.head.status)
            return answer

    async with Storage(Watching(place.log_store())) as storage:
        await run(clerk(), storage=storage, delete_on_success=True)
    assert seen == ["completed", None]


@pytest.mark.parametrize("drop", [False, True])
async def test_a_replay_calls_nothing(place, storage, drop):
    """A completed run is given back verbatim: no model, no tool, no validator, nothing changed."""
    validated, did = [], []

    def validator(output):
        validated.append(output)
        return output + "!"

    agent = scripted(calls("a"), "done", output_validator=validator, instructions=did.append)
    first = await run(agent, storage=storage, deps=did, delete_on_success=drop)
    before, heard = dump(place), list(did)
    again = await run(agent, "other", storage=storage, deps=did, delete_on_success=drop)
    assert (first.output, again.output, validated) == ("done!", "done!", ["done"])
    assert (turns(agent), did, dump(place)) == ([1, 2], heard, before)
    for name in ("run_id", "session_id", "status", "agent_name", "entries", "usage", "turns"):
        assert getattr(again, name) == getattr(first, name)
    assert (first.is_replay, again.is_replay) == (False, True)


async def test_a_replay_costs_a_read_and_no_append_of_the_run(place):
    """A replay reads the run and re-applies the session append; it appends nothing to the run."""
    tape = Tape(place.log_store())
    async with Storage(tape) as storage:
        await run(clerk(), storage=storage)
        tape.calls.clear()
        await run(clerk(), storage=storage)
        assert tape.calls == ["read run", "append session"]
        tape.calls.clear()
        await run(clerk(), storage=storage, session=False)
        assert tape.calls == ["read run"]


async def test_a_replay_has_no_finish_reason(storage):
    """finish_reason is the model's last, and not stored."""
    last = msgspec.structs.replace(costly(model("done")), finish_reason="stop")
    agent = scripted(calls("a"), last)
    assert (await run(agent, storage=storage)).finish_reason == "stop"
    assert (await run(agent, storage=storage)).finish_reason is None


async def test_usage_folds_into_the_callers(storage):
    """parent_usage is told of the whole run, by its completion and by each replay."""
    usage = Usage(input_tokens=100)
    for times in (1, 2, 3):
        ended = await run(clerk(), storage=storage, parent_usage=usage)
        assert ended.usage == Usage(input_tokens=8, output_tokens=2, requests=2)
        assert usage.input_tokens == 100 + 8 * times
        assert (usage.output_tokens, usage.requests) == (2 * times, 2 * times)


async def test_usage_counts_across_a_resume(storage):
    """A resumed run's usage is that of all its model calls, and told once."""
    usage = Usage()
    with pytest.raises(LimitExceeded):
        await run(clerk(), storage=storage, limits=RunLimits(max_turns=1), parent_usage=usage)
    assert usage == Usage()
    ended = await run(clerk(), storage=storage, parent_usage=usage)
    assert ended.usage == usage == Usage(input_tokens=8, output_tokens=2, requests=2)
    assert (await stored(storage)).head.usage == usage.as_json()


@pytest.mark.parametrize("drop", [False, True])
async def test_the_session_append_is_applied_again_by_a_replay(storage, drop):
    """A completed run that its session lacks is appended by the replay, timed as it ended."""
    kept = await plant(storage, "completed", started_at=1_000.0)
    await run(clerk(), storage=storage, delete_on_success=drop)
    (segment,) = await storage.sessions.segments(SESSION_ID)
    assert segment.entries == kept.entries
    timing = {"started_at": 1_000.0, "finished_at": kept.head.updated_at}
    assert segment.meta["timing"] == timing
    assert (await stored(storage) is None) == drop


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_validator_may_change_the_output(storage, is_async):
    """What the validator returns is the output; the entries stay what the model said."""

    async def later(output):
        return {"said": output}

    validator = later if is_async else (lambda output: {"said": output})
    agent = scripted("done", output_validator=validator)
    ended = await run(agent, storage=storage)
    assert ended.output == {"said": "done"}
    assert ended.entries[-1] == model("done")
    assert (await run(agent, storage=storage)).output == {"said": "done"}


async def test_what_a_validator_raises_fails_the_run(storage):
    """A validator that raises fails the run; issued again, it alone runs again."""
    seen = []

    def validator(output):
        seen.append(output)
        if len(seen) == 1:
            raise ArithmeticError("no")
        return output

    agent = scripted("done", output_validator=validator)
    with pytest.raises(ArithmeticError):
        await run(agent, storage=storage)
    kept = await stored(storage)
    assert (kept.head.status, kept.head.error) == ("failed", "ArithmeticError: no")
    assert await segments(storage) == []
    assert (await run(agent, storage=storage)).output == "done"
    assert (turns(agent), seen) == ([1], ["done", "done"])


class Colour(enum.Enum):
    RED = "red"


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    on: dt.date
    colour: Colour
    tags: frozenset[str] = frozenset()
    user_name: str = pydantic.Field("", alias="userName")

    @pydantic.computed_field
    @property
    def year(self) -> int:
        """The year."""
        return self.on.year


ORDER = '{"on": "2026-11-30", "colour": "red", "tags": ["b", "a"], "userName": "Ann"}'


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (Order, ORDER, Order.model_validate_json(ORDER)),
        (list[dt.date], '["2026-11-30"]', [dt.date(2026, 11, 30)]),
        (tuple[int, str], '[1, "x"]', (1, "x")),
        (set[int], "[2, 1]", {1, 2}),
        (int, "3", 3),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (bytes, '"abc"', b"abc"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@pytest.mark.parametrize("drop", [False, True])
async def test_typed_output_comes_back_as_its_type(storage, type_, text, value, drop):
    """An output of any output_type is the same, and of the same type, in every replay."""
    agent = scripted(text, output_type=type_)
    first = await run(agent, storage=storage, delete_on_success=drop)
    again = await run(agent, storage=storage, delete_on_success=drop)
    assert first.output == again.output == value
    assert type(first.output) is type(again.output) is type(value)
    assert again.is_replay


async def test_the_model_is_told_the_schema():
    """The request has the JSON schema of the output_type, and None for text."""
    typed, plain = scripted("[1]", output_type=list[int]), scripted("1")
    await run(typed)
    await run(plain)
    schema = {"type": "array", "items": {"type": "integer"}}
    assert typed.model.requests[0].output_schema == schema
    assert plain.model.requests[0].output_schema is None


@pytest.mark.parametrize("text", ["no JSON", '{"on": "never"}'])
async def test_an_answer_of_another_type_fails_the_run(storage, text):
    """An answer that is not of the output_type is InvalidOutput, and the run has failed."""
    agent = scripted(text, output_type=Order)
    with pytest.raises(InvalidOutput, match="clerk") as caught:
        await run(agent, storage=storage)
    assert (caught.value.run_id, caught.value.agent_name) == (RUN_ID, "clerk")
    assert (await stored(storage)).head.status == "failed"
    assert await segments(storage) == []


class Plain:
    """No JSON, and nothing that becomes it."""


@pytest.mark.parametrize(
    "output",
    [Plain(), {1, 2}, (1, 2), b"x", dt.date(2026, 11, 30), float("nan"), {"a": Plain()}],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("drop", [False, True])
async def test_an_output_that_is_no_json_is_an_explicit_state(storage, output, drop):
    """The caller gets it; a replay says that it was not stored, and is no silent null."""
    agent = scripted("done", output_validator=lambda _: output)
    first = await run(agent, storage=storage, delete_on_success=drop)
    assert first.output is output
    again = await run(agent, storage=storage, delete_on_success=drop)
    assert (again.status, again.is_replay, turns(agent)) == ("completed", True, [1])
    assert again.entries == first.entries
    with pytest.raises(OutputNotStored, match="no JSON") as caught:
        _ = again.output
    assert caught.value.run_id == RUN_ID
    assert caught.value.hint


@pytest.mark.parametrize("output", [None, 0, "", False, [], {"a": [1, 2.5, None, "x"]}])
async def test_an_output_that_is_json_is_stored(storage, output):
    """JSON comes back equal and of the same type, null among it."""
    agent = scripted("done", output_validator=lambda _: output)
    await run(agent, storage=storage)
    again = (await run(agent, storage=storage)).output
    assert (type(again), again) == (type(output), output)


@pytest.mark.parametrize("drop", [False, True])
async def test_a_long_answer_completes_a_run(storage, drop):
    """An answer of text larger than a head may be is given back by every replay."""
    answer = "long " * 40_000
    agent = scripted(answer)
    assert (await run(agent, storage=storage, delete_on_success=drop)).output == answer
    again = await run(agent, storage=storage, delete_on_success=drop)
    assert (again.output, again.is_replay, turns(agent)) == (answer, True, [1])


async def test_a_large_value_is_an_explicit_state(storage):
    """An output larger than a head may be, and made by a validator, is OutputNotStored later."""
    agent = scripted("done", output_validator=lambda _: ["x" * 1000] * 100)
    assert len((await run(agent, storage=storage)).output) == 100
    again = await run(agent, storage=storage)
    assert (await stored(storage)).head.status == "completed"
    with pytest.raises(OutputNotStored, match="65536"):
        _ = again.output


async def test_an_output_type_that_changed_since_warns(storage):
    """Finished work does not fail on a deploy: the stored output is given as it is, with a word."""
    await run(scripted('{"a": 1}', output_type=dict[str, int]), storage=storage)
    with pytest.warns(UserWarning, match="output_type"):
        again = await run(scripted(output_type=list[str]), storage=storage)
    assert again.output == {"a": 1}


async def test_a_replay_of_what_fits_warns_of_nothing(storage):
    """A replay by the same agent says nothing."""
    agent = scripted(ORDER, output_type=Order)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await run(agent, storage=storage)
        await run(agent, storage=storage)


async def test_a_replay_streams_its_terminal_event_alone(storage):
    """Streaming a completed run gives RunCompleted with the result, and nothing else."""
    await run(clerk(), storage=storage)
    agent = clerk()
    options = CheckpointOptions(storage.checkpointer, RUN_ID)
    events = [one async for one in Runner.stream(agent, "other", checkpoint=options)]
    assert [type(one) for one in events] == [RunCompleted]
    assert (events[0].result.output, turns(agent)) == ("done", [])


@pytest.mark.parametrize(
    ("said", "output"),
    [
        ([model("a"), model("b")], "ab"),
        ([model([TextPart(text="a"), ImagePart(url="u"), TextPart(text="b")])], "ab"),
        ([ReasoningEntry(provider="p"), model("a")], "a"),
        ([], ""),
    ],
)
async def test_the_output_is_what_the_model_said_last(said, output):
    """The texts of the last turn, joined; not what it said before a call."""
    agent = scripted([model("first"), call("a", "work")], said)
    assert (await run(agent)).output == output


async def test_a_run_is_completed_by_the_turn_that_calls_nothing(storage):
    """What was said beside a call ends nothing."""
    agent = scripted([model("let me see"), call("a", "work")], "done")
    ended = await run(agent, storage=storage)
    assert (ended.output, turns(agent)) == ("done", [1, 2])


async def test_a_failed_session_append_leaves_a_run_to_replay(place):
    """If the session cannot be reached at the end, that is raised, and the run is completed."""
    for number in itertools.count(1):
        store = Dies(place.log_store(namespace=f"n{number}"), number, for_ever=False)
        async with Storage(store) as storage:
            try:
                await run(clerk(), storage=storage)
            except Unavailable:
                if store.seen == number and (await stored(storage)) is not None:
                    last = await stored(storage)
        if not store.has_died:
            break
    assert last.head.status == "completed"
    assert (last.head.output, len(last.entries)) == ("done", 4)


async def test_a_checkpoint_may_go_with_a_later_call(storage):
    """A run loses nothing with a checkpoint that goes when it is issued again, to be deleted."""
    agent = scripted(
        costly(*calls("a"), tokens=3), costly(model("[1, 2]"), tokens=5), output_type=set[int]
    )
    first = await run(agent, storage=storage)
    dropping = await run(agent, storage=storage, delete_on_success=True)
    assert await stored(storage) is None
    alone = await run(agent, storage=storage, delete_on_success=True)
    for name in ("output", "usage", "turns", "agent_name", "entries"):
        values = [getattr(one, name) for one in (first, dropping, alone)]
        assert values == [values[0]] * 3, name
    assert (alone.output, turns(agent)) == ({1, 2}, [1, 2])


async def test_a_segment_repeats_no_text(storage):
    """The meta of a segment holds an output only where the entries do not say it."""
    await run(scripted("plain"), storage=storage, run_id="text")
    await run(scripted("[1]", output_type=list[int]), storage=storage, run_id="typed")
    text, typed = await storage.sessions.segments(SESSION_ID)
    assert "output" not in text.meta["run"]
    assert typed.meta["run"]["output"] == [1]


async def test_a_last_word_may_be_reasoning_alone(storage):
    """A model that only reasoned, and was cut off from its completion, is not asked again."""
    said = ReasoningEntry(provider="p")
    await plant(storage, "running", [user("go"), said], turns=1)
    agent = scripted("never", "never")
    ended = await run(agent, storage=storage)
    assert (ended.output, turns(agent)) == ("", [])
