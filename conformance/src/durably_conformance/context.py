"""``T``, what each check is given: a fresh place, a clock that stands still, and assertions."""

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NoReturn, TypeVar

from durably import DurablyError, Unsupported
from durably.capabilities import Capabilities, Limits
from durably.testing import Handle, Harness, Place
from durably_conformance.comparing import counted, difference, is_same, shown

__all__ = [
    "NO_DUMP",
    "CheckFailed",
    "Clock",
    "DoesNotApply",
    "HarnessFailed",
    "T",
    "is_an_end",
    "said",
]

MESSAGE = 400
"""Characters of a message at most."""

NO_DUMP = "the place cannot be read past the backend"
"""Why a check of raw content does not apply."""

E_ = TypeVar("E_", bound=BaseException)
V = TypeVar("V")


class CheckFailed(Exception):
    """A rule is broken; the message says what was got and what was wanted."""


class DoesNotApply(Exception):
    """The place cannot offer what the check needs; the message says what."""


class HarnessFailed(Exception):
    """The harness gave no place, or could not remove one."""


class Clock:
    """A clock that stands still until it is moved, in either direction; epoch seconds."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Move it forward, or back by a negative number."""
        self.now += seconds


class T:
    """What a check works with; what it opens is closed, and its places are wiped, at the end.

    Every assertion says in ``what`` which thing it is about, and is counted: a check that made
    none is an error.
    """

    def __init__(self, harness: Harness, *, seed: str = "0") -> None:
        self.harness = harness
        self.capabilities: Capabilities = harness.capabilities
        self.limits: Limits = harness.limits
        self.clock = Clock()
        self.random = random.Random(seed)  # noqa: S311 - for tests that can be repeated
        self.assertions = 0
        self.evidence: dict[str, int] = {}
        self.failure: CheckFailed | None = None
        self._handles: list[Handle] = []
        self._places: list[Place] = []

    @property
    def place(self) -> Place:
        """The check's own place, empty at first."""
        return self._places[0] if self._places else self.another_place()

    def another_place(self) -> Place:
        """Return one more place, which shares nothing with the first."""
        try:
            place = self.harness.place()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise HarnessFailed(f"no place: {said(error)}") from error
        self._places.append(place)
        return place

    async def connect(
        self,
        place: Place | None = None,
        *,
        clock: Callable[[], float] | None = None,
        namespace: str = "",
    ) -> Handle:
        """Open a new handle onto the check's place, or another one, under the check's clock."""
        where = self.place if place is None else place
        handle = await where.connect(clock=clock or self.clock, namespace=namespace)
        self._handles.append(handle)
        return handle

    async def dump(self, place: Place | None = None) -> Mapping[str, bytes]:
        """Return the raw content; where there is no way to it, the check does not apply."""
        found = await (self.place if place is None else place).dump()
        if found is None:
            raise DoesNotApply(NO_DUMP)
        return found

    @property
    def url(self) -> str:
        """What opens the place in a fresh process; without one the check does not apply."""
        if self.place.url is None:
            raise DoesNotApply("no other process can open the place")
        return self.place.url

    def fail(self, message: str) -> NoReturn:
        """End the check as failed."""
        failure = CheckFailed(message if len(message) <= MESSAGE else f"{message[: MESSAGE - 1]}…")
        self.failure = self.failure or failure
        raise failure

    def ok(self, condition: object, what: str) -> None:
        """Ask for a condition to hold; ``what`` says it as a claim."""
        self.assertions += 1
        if not condition:
            self.fail(f"not so: {what}")

    def eq(self, got: object, want: object, what: str) -> None:
        """Ask for equality."""
        self.assertions += 1
        if got != want:
            self.fail(f"{what}: {difference(got, want)}")

    def differs(self, got: object, other: object, what: str) -> None:
        """Ask for inequality."""
        self.assertions += 1
        if got == other:
            self.fail(f"{what}: both are {shown(got)}")

    def exact(self, got: object, want: object, what: str) -> None:
        """Ask for equality of values and types all the way down."""
        self.assertions += 1
        if not is_same(got, want):
            self.fail(f"{what}: {difference(got, want)}")

    def is_a(self, value: object, kind: type, what: str) -> None:
        """Ask for a value of a type."""
        self.assertions += 1
        if not isinstance(value, kind):
            self.fail(f"{what}: want a {kind.__name__}, got a {type(value).__name__}")

    def same_set(self, got: Iterable[object], want: Iterable[object], what: str) -> None:
        """Ask for the same values, each as often, in any order."""
        self.assertions += 1
        here, there = counted(got), counted(want)
        if here != there:
            more, less = here - there, there - here
            self.fail(
                f"{what}: {sum(more.values())} too many {shown(list(more), 60)}, "
                f"{sum(less.values())} missing {shown(list(less), 60)}"
            )

    async def raises(
        self, error: type[E_], call: Awaitable[object] | Callable[[], object], what: str
    ) -> E_:
        """Ask for an error of a type, and return it; ``call`` is awaited, or called first."""
        self.assertions += 1
        try:
            answer = call() if callable(call) else call
            got = await answer if inspect.isawaitable(answer) else answer
        except error as raised:
            return raised
        except BaseException as other:
            if is_an_end(other):
                raise
            self.fail(f"{what}: want {error.__name__}, got {said(other)}")
        return self.fail(f"{what}: want {error.__name__}, got the answer {shown(got)}")

    async def refused(
        self, call: Awaitable[object] | Callable[[], object], what: str
    ) -> Unsupported:
        """Ask for ``Unsupported``."""
        return await self.raises(Unsupported, call, what)

    async def attempt(self, call: Awaitable[V]) -> V | DurablyError:
        """Return the answer, or the typed error; another error fails the check."""
        try:
            return await call
        except DurablyError as error:
            return error

    def fired(self, name: str, count: int) -> None:
        """Record that a fault happened so often; none at all proves nothing, and fails."""
        self.evidence[name] = self.evidence.get(name, 0) + count
        if not count:
            self.fail(f"the fault did not fire: {name}")

    async def close(self) -> None:
        """Close every handle, then wipe every place.

        Raises:
            CheckFailed: a handle cannot be closed.
            HarnessFailed: a place cannot be wiped.
        """
        trouble: list[Exception] = []
        for handle in reversed(self._handles):
            try:
                await handle.aclose()
            except BaseException as error:
                if is_an_end(error):
                    raise
                trouble.append(CheckFailed(f"closing a handle: {said(error)}"))
        for place in self._places:
            try:
                await place.wipe()
            except BaseException as error:
                if is_an_end(error):
                    raise
                trouble.append(HarnessFailed(f"wiping a place: {said(error)}"))
        if trouble:
            raise trouble[0]


def is_an_end(error: BaseException) -> bool:
    """Whether an error is nobody's fault: an interrupt, or that this very task is cancelled.

    Any other is what a backend raises, be it SystemExit or a CancelledError of its own.
    """
    if not isinstance(error, asyncio.CancelledError):
        return isinstance(error, KeyboardInterrupt)
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def said(error: BaseException) -> str:
    """Return an error in one short line: its type, and the beginning of its words."""
    words = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
