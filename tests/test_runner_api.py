"""The public names of the runner: few, documented, and their documented errors are raised."""

import asyncio
import inspect
import pickle
import re

import pytest

import durably_runner
from builders import call, result, user
from durably import DurablyError, InvalidId, InvalidLimit, RevisionConflict, RunNotFound
from durably.errors import __all__ as errors_of_core
from durably_runner import (
    Agent,
    AgentNotAttached,
    AgentNotFound,
    CheckpointOptions,
    ConversationState,
    Decision,
    DecisionRefused,
    Declined,
    DirectoryInUse,
    Interrupt,
    InvalidAgent,
    InvalidArguments,
    InvalidOptions,
    InvalidOutput,
    LimitExceeded,
    Model,
    ModelTurn,
    OutputNotStored,
    RetryableModelError,
    RunExists,
    RunLimits,
    Runner,
    RunResult,
    ScriptedModel,
    ThreadOptions,
    ToolContext,
    Usage,
    errors,
    tool,
)
from runner_scenes import RUN_ID, calls, plant, run, scripted, work

SCREEN = 50
"""Lines."""

LATER = {"Conversation", "Engine", "EngineSession"}
"""Classes whose errors have tests of their own."""


def test_the_names_are_sorted_and_fit_one_screen():
    """__all__ names what exists, each once, and no more than a screen shows."""
    names = durably_runner.__all__
    assert names == sorted(set(names), key=lambda name: (name[0].islower(), name))
    assert all(hasattr(durably_runner, name) for name in names)
    assert len(names) <= SCREEN


def test_nothing_unmeant_is_public():
    """Every public name of the package is in __all__, or a module of it."""
    public = {name for name in vars(durably_runner) if not name.startswith("_")}
    modules = {name for name in public if inspect.ismodule(getattr(durably_runner, name))}
    assert public - modules == set(durably_runner.__all__)


def members():
    """Return every public class, function, method and property, by its dotted name."""
    for name in durably_runner.__all__:
        thing = getattr(durably_runner, name)
        if not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        yield name, thing
        for member, value in vars(thing).items() if inspect.isclass(thing) else ():
            function = getattr(value, "fget", getattr(value, "__func__", value))
            if inspect.isfunction(function) and not member.startswith("_"):
                yield f"{name}.{member}", function


@pytest.mark.parametrize("name", [name for name, _ in members()])
def test_public_things_are_documented(name):
    """Every public class, function, method and property has a docstring of its own."""
    thing = dict(members())[name]
    assert vars(thing)["__doc__"] if inspect.isclass(thing) else thing.__doc__


def documented():
    """Return (name, error) for each line of each Raises: section."""
    for name, thing in members():
        if name.split(".")[0] not in LATER:
            _, _, section = (inspect.getdoc(thing) or "").partition("Raises:")
            for error in re.findall(r"^ {4}([\w.]+):", section, re.MULTILINE):
                yield name, error.removeprefix("pydantic.")


PROVOCATIONS = {}


def provokes(name, error):
    def register(function):
        assert (name, error.__name__) not in PROVOCATIONS
        PROVOCATIONS[name, error.__name__] = error, function
        return function

    return register


@provokes("CheckpointOptions", InvalidOptions)
async def neither(_):
    CheckpointOptions(None, "r")


@provokes("CheckpointOptions", InvalidId)
async def illegal_run(storage):
    CheckpointOptions(storage.checkpointer, "")


@provokes("ThreadOptions", InvalidId)
async def illegal_thread(storage):
    ThreadOptions(storage.checkpoint_saver(), "")


@provokes("RunLimits", InvalidLimit)
async def no_turns(_):
    RunLimits(max_turns=0)


@provokes("RunResult.output", OutputNotStored)
async def no_output(storage):
    agent = scripted("done", output_validator=lambda _: object())
    for _ in range(2):
        ended = await run(agent, storage=storage)
    _ = ended.output


@provokes("Runner.run", RunExists)
async def exists(storage):
    await plant(storage, "running")
    await run(scripted(), storage=storage, if_run_exists="fail")


@provokes("Runner.run", RunNotFound)
async def missing(storage):
    await run(scripted(), storage=storage, if_run_exists="resume_only")


@provokes("Runner.run", RevisionConflict)
async def stale(storage):
    kept = await plant(storage, "running")
    await storage.checkpointer.append(RUN_ID, [], kept.head)
    await run(scripted(), storage=storage, resume_from=kept)


@provokes("Runner.run", InvalidOptions)
async def half_a_session(storage):
    await Runner.run(scripted(), "new", session=storage.sessions)


@provokes("Runner.run", InvalidAgent)
async def twins(_):
    await run(scripted(handoffs=[scripted()]))


@provokes("Runner.run", AgentNotFound)
async def gone(storage):
    await plant(storage, "running", agent_name="gone")
    await run(scripted(), storage=storage)


@provokes("Runner.run", InvalidOutput)
async def untyped(_):
    await run(scripted("text", output_type=int))


@provokes("Runner.run", DecisionRefused)
async def undecided(storage):
    await plant(storage, "running")
    decision = Decision(
        call_id="a",
        tool_name="work",
        arguments_digest="d",
        approved=True,
        decided_by="Ann",
        decided_at=0.0,
    )
    options = CheckpointOptions(storage.checkpointer, RUN_ID)
    await Runner.run(scripted(), "new", checkpoint=options, decision=decision)


@provokes("Runner.run", LimitExceeded)
async def limited(_):
    await run(scripted(calls("a")), limits=RunLimits(max_turns=1))


@provokes("Runner.run", TimeoutError)
async def late(_):
    async def respond(_):
        await asyncio.sleep(10)

    await run(Agent(name="clerk", model=respond), limits=RunLimits(timeout=0.01))


@provokes("ScriptedModel.respond", IndexError)
async def beyond_the_script(_):
    await run(scripted())


@provokes("Tool.read_arguments", InvalidArguments)
async def misfit(_):
    work.read_arguments("{")


@provokes("Decision.on", InvalidOptions)
async def undecidable(_):
    Decision.on(None, approved=True, decided_by="ann")


@provokes("tool", InvalidAgent)
async def nameless(_):
    tool(lambda *things: things)


def context(decision=None):
    return ToolContext(
        deps=None,
        run_id="r",
        session_id=None,
        agent_name="clerk",
        call=call("a"),
        occurrence=0,
        turn=1,
        usage=Usage(),
        decision=decision,
    )


@provokes("ToolContext.require_decision", Interrupt)
async def ask_first(_):
    context().require_decision("May I?")


@provokes("ToolContext.require_decision", Declined)
async def told_no(_):
    no = Decision(
        call_id="a",
        tool_name="search",
        arguments_digest="d",
        approved=False,
        decided_by="Ann",
        decided_at=0.0,
    )
    context(no).require_decision("May I?")


def test_the_table_is_the_documentation():
    """Each documented error has a provocation, and each provocation is documented."""
    assert set(documented()) == set(PROVOCATIONS)


@pytest.mark.parametrize("case", sorted(PROVOCATIONS), ids=" ".join)
async def test_documented_errors_are_raised(storage, case):
    """The call raises exactly the class its docstring names."""
    error, provoke = PROVOCATIONS[case]
    with pytest.raises(error) as caught:
        await provoke(storage)
    assert type(caught.value) is error


EXAMPLES = {
    "AgentNotAttached": AgentNotAttached("s"),
    "AgentNotFound": AgentNotFound("r", "helper", ("clerk",)),
    "ConversationState": ConversationState("it waits for nobody", hint="Run it"),
    "DecisionRefused": DecisionRefused("r", "c", "the run waits for no person"),
    "Declined": Declined("Ann declined this"),
    "DirectoryInUse": DirectoryInUse("/data"),
    "InvalidAgent": InvalidAgent("no", hint="Mend it"),
    "InvalidArguments": InvalidArguments("days: Field required"),
    "InvalidOptions": InvalidOptions("no", hint="Mend them"),
    "InvalidOutput": InvalidOutput("r", "clerk", "no int"),
    "LimitExceeded": LimitExceeded("r", "max_turns", 3),
    "OutputNotStored": OutputNotStored("r", "no JSON"),
    "RetryableModelError": RetryableModelError("429"),
    "RunExists": RunExists("r", "the checkpointer", "Use another run_id"),
}
BUILTINS = {
    "AgentNotAttached": LookupError,
    "AgentNotFound": LookupError,
    "ConversationState": RuntimeError,
    "DecisionRefused": ValueError,
    "Declined": PermissionError,
    "DirectoryInUse": RuntimeError,
    "InvalidAgent": ValueError,
    "InvalidOptions": ValueError,
    "InvalidOutput": ValueError,
    "LimitExceeded": RuntimeError,
    "OutputNotStored": LookupError,
    "RetryableModelError": ConnectionError,
    "RunExists": ValueError,
}


@pytest.mark.parametrize("name", sorted(errors.__all__))
def test_errors_are_in_the_tree_and_of_the_family(name):
    """Every error is a DurablyError, drawn in the module's docstring, and no double of core's."""
    assert issubclass(getattr(errors, name), DurablyError)
    assert re.search(rf"── {name}\b", errors.__doc__)
    assert name not in errors_of_core
    assert name in EXAMPLES
    assert name in durably_runner.__all__


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_errors_survive_pickling(name):
    """An error crosses a process boundary with its class, message, hint and data."""
    error = EXAMPLES[name]
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made a line above
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_errors_are_what_a_caller_would_catch(name):
    """An error can be caught by the builtin a caller would think of."""
    assert isinstance(EXAMPLES[name], BUILTINS[name])


def test_an_agent_is_frozen():
    """An agent is a description: it cannot be changed while runs use it."""
    agent = scripted()
    with pytest.raises(AttributeError):
        agent.name = "another"


@pytest.mark.parametrize(
    "answer",
    ["done", user("x"), [result("a")], ModelTurn(entries=[])],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_plain_callable_is_a_model(answer, is_async):
    """A function of the request, async or not, may return a turn, entries, or text."""

    async def later(_):
        return answer

    model = later if is_async else (lambda _: answer)
    ended = await run(Agent(name="clerk", model=model))
    assert isinstance(ended, RunResult)
    expected = answer.entries if isinstance(answer, ModelTurn) else answer
    expected = expected if isinstance(expected, list) else [expected]
    told = [getattr(one, "content", one) for one in ended.entries[1:]]
    assert told == [getattr(one, "content", one) for one in expected]


async def test_an_answer_that_is_none_fails():
    """What is no answer is InvalidAgent, which says what to return."""
    with pytest.raises(InvalidAgent, match="int") as caught:
        await run(Agent(name="clerk", model=lambda _: 5))
    assert "ModelTurn" in caught.value.hint


async def test_any_object_with_respond_is_a_model():
    """A model needs no base class."""

    class Mine:
        async def respond(self, request):
            return ModelTurn(entries=[], finish_reason=request.agent_name)

    assert isinstance(Mine(), Model)
    assert isinstance(ScriptedModel(), Model)
    assert (await run(Agent(name="clerk", model=Mine()))).finish_reason == "clerk"


@pytest.mark.parametrize("limits", [{"max_turns": 0}, {"max_turns": 1.5}, {"timeout": -1}])
def test_limits_are_checked(limits):
    """A limit is a number of at least 1, or of seconds."""
    with pytest.raises(InvalidLimit):
        RunLimits(**limits)
