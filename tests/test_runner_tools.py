"""Tools: their schemas, what they are given, and what the model is told of what they did."""

import asyncio
import dataclasses
import functools
import json
import threading
from datetime import date
from typing import Annotated, Any

import jsonschema
import pydantic
import pytest

from builders import call
from disturbed import Small
from durably import RunHead, Storage, TextPart, ToolCallEntry, ToolResultEntry
from durably_runner import InvalidAgent, InvalidArguments, RunLimits, ToolContext, Usage, tool
from runner_scenes import calls, costly, run, scripted, stored, work


async def result_of(made, arguments="", **options):
    """Have a model call a tool, and return the one result it gets."""
    agent = scripted([call_with(made.name, arguments)], "done", tools=[made])
    ended = await run(agent, **options)
    assert ended.output == "done"
    (found,) = [entry for entry in ended.entries if isinstance(entry, ToolResultEntry)]
    return found


def call_with(name, arguments):
    return ToolCallEntry(call_id="a", name=name, arguments=arguments)


class Place(pydantic.BaseModel):
    city: str
    zip: int = 0


def test_a_schema_is_made_from_the_signature():
    """Names, types, descriptions and defaults of parameters become a JSON schema; no more fits."""

    @tool
    def visit(
        context: ToolContext,
        place: Place,
        days: Annotated[int, pydantic.Field(description="How long", ge=1)],
        notes: list[str] | None = None,
    ) -> str:
        """Visit a place.

        For some days.
        """
        return ""

    assert (visit.name, visit.description) == ("visit", "Visit a place.\n\nFor some days.")
    schema = visit.spec.parameters
    assert sorted(schema["properties"]) == ["days", "notes", "place"]
    assert sorted(schema["required"]) == ["days", "place"]
    assert schema["properties"]["days"]["description"] == "How long"
    valid = {"place": {"city": "Bern"}, "days": 2}
    jsonschema.validate(valid, schema)
    for wrong in ({**valid, "days": 0}, {"days": 1}, {**valid, "context": {}}, {**valid, "x": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
        with pytest.raises(InvalidArguments):
            visit.read_arguments(json.dumps(wrong))


def test_a_tool_can_be_named_and_described_otherwise():
    """@tool(name=, description=) replaces the function's own name and docstring."""

    @tool(name="look_up", description="Look it up.")
    def find(what: str) -> str:
        """Find."""
        return what

    assert (find.spec.name, find.spec.description) == ("look_up", "Look it up.")
    assert find("x") == "x"


def _positional(a, /):
    """Take by place."""


def _any_number(*a):
    """Take any number."""


def _unknown(a: "Nowhere"):  # noqa: F821 - that is the point
    """Take what does not exist."""


def _no_schema(a: threading.Lock):
    """Take what has no schema."""


@pytest.mark.parametrize("function", [_positional, _any_number, _unknown, _no_schema])
def test_what_cannot_be_called_by_a_model_is_no_tool(function):
    """A function whose parameters have no schema, or no name, is refused as it is decorated."""
    with pytest.raises(InvalidAgent, match=function.__name__):
        tool(function)


async def test_a_tool_knows_its_call(storage):
    """The context has deps, run_id, session_id, call_id, the agent and the turn."""
    seen = []

    @tool
    def look(context: ToolContext) -> str:
        """Look."""
        seen.append(context)
        return ""

    agent = scripted(costly(call("a", "look"), tokens=5), [call("b", "look")], "done", tools=[look])
    deps = object()
    await run(agent, storage=storage, deps=deps)
    first, second = seen
    assert first.deps is deps
    assert (first.run_id, first.session_id, first.agent_name) == ("r", "s", "clerk")
    assert (first.call_id, first.turn, second.call_id, second.turn) == ("a", 1, "b", 2)
    assert first.usage is not second.usage


async def test_a_nested_run_counts_in_the_run_it_is_nested_in():
    """What a nested run used is added to its parent's usage."""
    inner = scripted(costly(*calls("a"), tokens=7), costly(tokens=8))

    @tool
    async def delegate(context: ToolContext) -> str:
        """Run another agent."""
        return str((await run(inner, parent_usage=context.usage)).output)

    outer = scripted(costly(call("x", "delegate"), tokens=1), costly(tokens=2), tools=[delegate])
    assert (await run(outer)).usage == Usage(input_tokens=18, output_tokens=4, requests=4)


async def test_a_blocking_tool_blocks_nobody():
    """A blocking tool runs in a thread: the loop goes on, and two of them run at once."""
    both = threading.Barrier(2, timeout=10)
    threads = []

    @tool
    def meet() -> str:
        """Wait for the other one."""
        both.wait()
        threads.append(threading.current_thread())
        return "met"

    agent = scripted([call("a", "meet"), call("b", "meet")], "done", tools=[meet])
    ended = await run(agent)
    assert [one.output for one in ended.entries if isinstance(one, ToolResultEntry)] == ["met"] * 2
    assert threading.main_thread() not in threads


async def test_async_tools_of_one_turn_run_at_once():
    """Parallel calls run concurrently, and each result is saved as it lands, not in order."""
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait until the other one is done."""
        await begun.wait()
        return "second"

    @tool
    async def signal() -> str:
        """Let the other one go on."""
        begun.set()
        return "first"

    agent = scripted([call("a", "wait"), call("b", "signal")], "done", tools=[wait, signal])
    ended = await run(agent, limits=RunLimits(timeout=10))
    found = [one for one in ended.entries if isinstance(one, ToolResultEntry)]
    assert [(one.call_id, one.output) for one in found] == [("b", "first"), ("a", "second")]


async def test_a_result_is_saved_while_others_still_run(storage):
    """A tool that lasts does not hold up the saving of another's result."""
    saw, other_saved = [], asyncio.Event()

    async def watch():
        while len((await stored(storage)).entries) < 3:  # noqa: ASYNC110 - the store tells nobody
            await asyncio.sleep(0.001)
        other_saved.set()

    @tool
    async def wait(context: ToolContext) -> str:
        """Wait until the other result is stored."""
        await other_saved.wait()
        saw.append("stored")
        return "late"

    agent = scripted([call("a", "wait"), *calls("b")], "done", tools=[wait, work])
    act = run(agent, storage=storage, limits=RunLimits(timeout=10))
    await storage.checkpointer.append("r", [], RunHead(agent_name="clerk"))
    await asyncio.gather(act, watch())
    assert saw == ["stored"]


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyError("no such file"), "KeyError: 'no such file'"),
        (TimeoutError("too slow"), "TimeoutError: too slow"),
        (ConnectionError(), "ConnectionError"),
        (StopIteration(), "StopIteration"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_what_a_tool_raises_the_model_is_told(error, told, is_async):
    """An exception of a tool is an error result with its class and words; the run goes on."""

    @tool
    def fail() -> str:
        """Fail."""
        raise error

    @tool(name="fail")
    async def fail_later() -> str:
        """Fail."""
        raise error

    found = await asyncio.wait_for(result_of(fail_later if is_async else fail), 10)
    assert found.is_error
    assert told in found.output


async def test_an_unknown_tool_is_told():
    """A call of a tool that does not exist is an error result, not the end of the run."""
    ended = await run(scripted([call("a", "nope")], "done"))
    assert ended.entries[2].is_error
    assert "'nope'" in ended.entries[2].output


@tool
def double(number: int) -> int:
    """Double a number."""
    return number * 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("{", "Invalid JSON"),
        ("", "number: Field required"),
        ('{"number": "many"}', "number: Input should be a valid integer"),
        ('{"number": 1, "more": 2}', "more: Extra inputs are not permitted"),
        ("[1]", "InvalidArguments: Input should be an object"),
    ],
)
async def test_arguments_that_do_not_fit_are_told(arguments, told):
    """Arguments that are no JSON, or do not fit, are told to the model; the tool does not run."""
    found = await result_of(double, arguments)
    assert found.is_error
    assert told in found.output
    assert "Traceback" not in found.output


async def test_arguments_are_given_as_their_types():
    """The function gets what its annotations say, and its own defaults."""
    seen = []

    @tool
    def visit(place: Place, on: date, times: int = 3) -> str:
        """Visit."""
        seen.append((place, on, times))
        return ""

    await result_of(visit, '{"place": {"city": "Bern"}, "on": "2026-11-30"}')
    assert seen == [(Place(city="Bern"), date(2026, 11, 30), 3)]


async def test_no_arguments_need_no_text():
    """An empty text stands for no arguments."""
    assert (await result_of(work, "")).output == "did a"


@dataclasses.dataclass
class Total:
    cents: int


@pytest.mark.parametrize(
    ("returned", "output", "raw"),
    [
        ("text", "text", None),
        ({"total": 1.5}, '{"total":1.5}', {"total": 1.5}),
        ([1, None, True], "[1,null,true]", [1, None, True]),
        (None, "null", None),
        (Place(city="Bern"), '{"city":"Bern","zip":0}', {"city": "Bern", "zip": 0}),
        (Total(cents=3), '{"cents":3}', {"cents": 3}),
        (date(2026, 11, 30), '"2026-11-30"', "2026-11-30"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_results_become_json(storage, returned, output, raw):
    """Text is told as it is; other results as JSON, with the value beside it, and stored so."""

    @tool
    def give() -> Any:
        """Give it."""
        return returned

    found = await result_of(give, storage=storage)
    assert (found.output, found.raw, found.is_error) == (output, raw, False)
    assert found in (await stored(storage)).entries


@pytest.mark.parametrize("returned", [object(), float("nan"), {"a": [float("inf")]}, threading])
async def test_results_that_are_no_json_are_told(storage, returned):
    """A result that JSON cannot hold is an error result, not a silent null, and no failed run."""

    @tool
    def give() -> Any:
        """Give it."""
        return returned

    found = await result_of(give, storage=storage)
    assert found.is_error
    assert found.output.startswith("NotSerializable")


async def test_a_tool_may_give_its_result_whole():
    """A ToolResultEntry is stored as it is, but for the call it answers."""

    @tool
    def give() -> ToolResultEntry:
        """Give it."""
        parts = [TextPart(text="seen")]
        return ToolResultEntry(call_id="?", output="o", is_error=True, raw=[1], parts=parts)

    found = await result_of(give)
    told = (found.call_id, found.output, found.is_error, found.raw, found.parts)
    assert told == ("a", "o", True, [1], [TextPart(text="seen")])


async def test_a_result_too_large_is_told(place):
    """A result above the store's limit is an error result with both sizes; the run goes on."""

    @tool
    def give() -> str:
        """Give much."""
        return "x" * 10_000

    async with Storage(Small(place.log_store(), record_bytes=5_000, head_bytes=2_000)) as storage:
        found = await result_of(give, storage=storage)
        assert found.is_error
        assert "5000" in found.output
        assert len((await stored(storage)).entries) == 4


async def test_a_call_has_an_idempotency_key_of_its_own():
    """Keys differ between calls, also of one id, and between runs, and not between executions."""
    keys = []

    @tool
    def note(context: ToolContext) -> str:
        """Note the key."""
        keys.append(context.idempotency_key)
        return ""

    script = [
        [call("a", "note"), call("a", "note"), call("b", "note")],
        [call("a", "note")],
        "done",
    ]
    await run(scripted(*script, tools=[note]))
    assert len(set(keys)) == 4
    again = list(keys)
    await run(scripted(*script, tools=[note]))
    assert not set(again) & set(keys[4:])
    assert all(len(key) == 32 and int(key, 16) >= 0 for key in keys)


async def test_a_callable_object_is_a_tool():
    """What is called need not be a function, and what it returns may be awaited."""

    class Greeter:
        async def __call__(self, who: str) -> str:
            return f"Hello {who}"

    greet = Greeter()
    with pytest.raises(InvalidAgent):
        tool(functools.partial(greet))
    made = tool(name="greet", description="Greet.")(greet.__call__)
    assert (await result_of(made, '{"who": "you"}')).output == "Hello you"


async def test_a_cancellation_inside_a_tool_is_the_tools(storage):
    """A tool that is itself cancelled, and not the run, is told to the model like any error."""

    @tool
    async def wait() -> str:
        """Await what somebody cancelled."""
        inner = asyncio.get_running_loop().create_future()
        inner.cancel()
        return await inner

    agent = scripted(calls("a", name="wait"), "done", tools=[wait])
    ended = await run(agent, storage=storage, limits=RunLimits(timeout=10))
    assert ended.output == "done"
    assert ended.entries[2].is_error
