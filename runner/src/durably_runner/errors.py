"""What can go wrong with a run, beside what the storage says.

::

    DurablyError
    ├── RunExists            ValueError    a run that must not exist does
    ├── InvalidAgent         ValueError    agents or tools that cannot work together
    ├── InvalidArguments     ValueError    a model's arguments that do not fit a tool
    ├── InvalidOptions       ValueError    options of a run that contradict each other
    ├── AgentNotFound        LookupError   a stored run's agent that is in the graph no more
    ├── InvalidOutput        ValueError    a final answer that is not of the agent's output_type
    ├── OutputNotStored      LookupError   an output that JSON could not hold, and so is gone
    ├── DecisionRefused      ValueError    a decision about something else than what is asked
    ├── Declined             PermissionError  what a tool raises for a call a person declined
    ├── ConversationState    RuntimeError  a conversation that cannot do this where it stands
    ├── AgentNotAttached     LookupError   a session that no agent was attached to
    ├── DirectoryInUse       RuntimeError  a directory that another engine has
    ├── LimitExceeded        RuntimeError  a run that reached one of its limits
    └── RetryableModelError  ConnectionError  raised by a model that may be asked again later
"""

from durably import DurablyError

__all__ = [
    "AgentNotAttached",
    "AgentNotFound",
    "ConversationState",
    "DecisionRefused",
    "Declined",
    "DirectoryInUse",
    "InvalidAgent",
    "InvalidArguments",
    "InvalidOptions",
    "InvalidOutput",
    "LimitExceeded",
    "OutputNotStored",
    "RetryableModelError",
    "RunExists",
]


class RunExists(DurablyError, ValueError):
    """A run of that id is stored, and was to be new; nothing ran, and nothing was changed."""

    def __init__(self, run_id: str, where: str, hint: str) -> None:
        super().__init__(f"{where} has run {run_id!a} already", hint=hint)
        self.run_id = run_id


class InvalidAgent(DurablyError, ValueError):
    """An agent, or a tool, that cannot work as it was made."""


class InvalidArguments(DurablyError, ValueError):
    """Arguments of a call that do not fit the tool; the model is told, and the tool not called."""


class InvalidOptions(DurablyError, ValueError):
    """Options of a run that contradict each other; nothing ran, and nothing was touched."""


class AgentNotFound(DurablyError, LookupError):
    """The agent a stored run was with cannot be reached from the entry agent any more."""

    def __init__(self, run_id: str, name: str, known: tuple[str, ...]) -> None:
        super().__init__(
            f"run {run_id!a} is with agent {name!a}, there are only {', '.join(map(ascii, known))}",
            hint="Run it with an agent that can still hand over to it, or restart it",
        )
        self.run_id = run_id
        self.name = name
        self.known = known


class InvalidOutput(DurablyError, ValueError):
    """The final answer of a run is not of its agent's ``output_type``."""

    def __init__(self, run_id: str, agent_name: str, reason: str) -> None:
        super().__init__(
            f"the answer of agent {agent_name!a} in run {run_id!a} is invalid: {reason}",
            hint="Restart the run, or loosen the output_type",
        )
        self.run_id = run_id
        self.agent_name = agent_name


class OutputNotStored(DurablyError, LookupError):
    """A completed run's output was no JSON, so that only the call that completed it had it."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(
            f"the output of run {run_id!a} was not stored: {reason}",
            hint="Give the agent an output_type, or return JSON from its output_validator",
        )
        self.run_id = run_id


class DecisionRefused(DurablyError, ValueError):
    """A decision that is not about what the run waits for; nothing ran, nothing was changed."""

    def __init__(self, run_id: str, call_id: str, reason: str) -> None:
        super().__init__(
            f"the decision about call {call_id!a} of run {run_id!a} was refused: {reason}",
            hint="Make it from what the run waits for: Decision.on(result.interrupt, ...)",
        )
        self.run_id = run_id
        self.call_id = call_id


class Declined(DurablyError, PermissionError):
    """A person declined the call; the model is told so."""


class ConversationState(DurablyError, RuntimeError):
    """The conversation stands where this cannot be done; nothing was."""


class AgentNotAttached(DurablyError, LookupError):
    """The engine has no agent for a session that is in its catalog."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id!a} has no agent in this engine",
            hint="Behaviour is never stored: await engine.attach(session_id, agent) first",
        )
        self.session_id = session_id


class DirectoryInUse(DurablyError, RuntimeError):
    """Another engine has the directory; it is free again when that one is closed, or killed."""

    def __init__(self, directory: str) -> None:
        super().__init__(
            f"another engine uses the directory {directory!a}",
            hint="A local engine is for one process at a time: close the other one",
        )
        self.directory = directory


class LimitExceeded(DurablyError, RuntimeError):
    """A run reached one of its limits; it can be resumed under a higher one."""

    def __init__(self, run_id: str, name: str, limit: int) -> None:
        super().__init__(
            f"run {run_id!a} reached its limit of {name}={limit}",
            hint="Issue it again with a higher limit: it goes on where it is",
        )
        self.run_id = run_id
        self.name = name
        self.limit = limit


class RetryableModelError(DurablyError, ConnectionError):
    """Raised by a model that could not answer this time, such as for a rate limit.

    The run is left ``interrupted``, to be issued again.
    """
