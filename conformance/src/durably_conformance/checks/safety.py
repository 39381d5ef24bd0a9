"""What nobody may read by accident: content and passwords, in errors, logs and reprs."""

import logging
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

from typing_extensions import override

from durably import CustomEntry, DurablyError, Entry, RunHead
from durably.testing import Handle
from durably_conformance.building import said
from durably_conformance.context import DoesNotApply, T
from durably_conformance.keeping import keepers, slots
from durably_conformance.planting import encoded, plant
from durably_conformance.registry import check

CONTENT = "hunter2-of-the-content"
MARK = said(CONTENT)[0]


def told(error: BaseException | None) -> str:
    """Return all that an error tells, and those behind it: words, attributes and traceback."""
    words: list[str] = []
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            words += [str(one), repr(one), repr(one.args), repr(vars(one))]
            words += traceback.format_exception_only(one)
            waiting += [one.__cause__, one.__context__]
    return "\n".join(words)


class _Records(logging.Handler):
    """Keeps what is logged, with its arguments."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.words: list[str] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.words += [record.getMessage(), repr(vars(record))]
        if record.exc_info:
            self.words.append(told(record.exc_info[1]))


@contextmanager
def _overheard() -> Generator[_Records]:
    """Listen to every logger at its most talkative."""
    root, records = logging.getLogger(), _Records()
    level = root.level
    root.addHandler(records)
    root.setLevel(logging.DEBUG)
    try:
        yield records
    finally:
        root.setLevel(level)
        root.removeHandler(records)


async def _errors(t: T, handle: Handle) -> list[tuple[str, DurablyError]]:
    """Return an error of each kind that content can cause."""
    found: list[tuple[str, DurablyError]] = []
    for slot in slots(t):
        for bad in (b"hunter3", CONTENT + "\ud83d\ude00"):
            answer = await t.attempt(slot.write(handle, slot.path, {"k": [CONTENT, bad]}))
            if isinstance(answer, DurablyError):
                found.append((f"a value in {slot}", answer))
    if t.capabilities.checkpointer:
        large = RunHead(output=CONTENT * (t.limits.head_bytes // len(CONTENT) + 1))
        saved = await t.attempt(handle.checkpointer.append("s", [], large))
        if isinstance(saved, DurablyError):
            found.append(("a large head", saved))
    if t.capabilities.log_store:
        found += await _corruptions(t, handle)
    return found


async def _corruptions(t: T, handle: Handle) -> list[tuple[str, DurablyError]]:
    found: list[tuple[str, DurablyError]] = []
    text = CONTENT.encode()
    broken = (
        b'{"type":"input","role":"' + text + b'","content":17}',
        b'{"type":"input","role":17,"content":"' + text + b'"}',
        b'"' + text + b'"',
    )
    spoiled = (text, b'{"entries":"' + text, b'{"entries":[\xff"' + text + b'"]}')
    for one in (*broken, *spoiled):
        for keeper in keepers(t):
            swaps = [(encoded(MARK), one)] if one in broken else []
            whole = one if one in spoiled else None
            await plant(t, handle, keeper, [MARK], *swaps, spoiled=whole)
            answer = await t.attempt(keeper.read(await t.connect(), "x"))
            if isinstance(answer, DurablyError):
                found.append((f"a broken entry in {keeper}", answer))
            await keeper.remove(handle, "x")
    return found


@check("SEC-CONTENT-001", contract="storage", reports=("google/adk-python#6791",))
async def no_error_repeats_content(t: T) -> None:
    """No error repeats stored content, nor do those behind it."""
    handle = await t.connect()
    for keeper in keepers(t):
        await keeper.write(handle, "fine", [MARK])
        t.eq(await keeper.read(handle, "fine"), [MARK], f"entries of {keeper}")
    for name, error in await _errors(t, handle):
        words = told(error)
        t.ok("hunter" not in words, f"the error of {name} and those behind it hold no content")


@check("SEC-CONTENT-002", contract="storage")
async def nothing_talks_about_content(t: T) -> None:
    """No log record and no repr repeats stored content, however much is logged."""
    entries: list[Entry] = [MARK, CustomEntry(kind="k", data={CONTENT: CONTENT})]
    with _overheard() as records:
        handle, other = await t.connect(), await t.connect()
        for slot in slots(t):
            await slot.write(handle, slot.path, {"k": CONTENT})
            t.eq(await slot.read(other, slot.path), {"k": CONTENT}, str(slot))
        for keeper in keepers(t):
            await keeper.write(handle, "s", entries)
            t.eq(await keeper.read(other, "s"), entries, f"entries of {keeper}")
        await _errors(t, handle)
        names = ("sessions", "checkpointer", "log_store")
        things = [getattr(handle, name) for name in names if getattr(t.capabilities, name)]
        if t.capabilities.checkpoint_saver:
            things.append(handle.checkpoint_saver())
        await other.aclose()
    t.ok("hunter" not in "\n".join(records.words), "nothing that was logged holds content")
    t.ok("hunter" not in "\n".join(map(repr, [handle, other, *things])), "no repr holds content")


@check("SEC-URL-001", contract="storage", reports=("google/adk-python#6791",))
async def nothing_repeats_the_password(t: T) -> None:
    """The password of a URL is in no repr, no log record, no error and no description."""
    with _overheard() as records:
        handle = await t.connect()
        for keeper in keepers(t):
            await keeper.write(handle, "fine", [MARK])
            t.eq(await keeper.read(handle, "fine"), [MARK], f"entries of {keeper}")
        words = [repr(handle), str(handle)]
        if t.capabilities.log_store:
            words += [repr(handle.log_store), repr(await handle.log_store.describe())]
        words += [told(error) for _, error in await _errors(t, handle)]
        await handle.aclose()
        for keeper in keepers(t):
            answer = await t.attempt(keeper.read(handle, "fine"))
            words.append(told(answer) if isinstance(answer, DurablyError) else "")
    password = _password(t.url)
    for name, said_ in (("said", words), ("logged", records.words)):
        t.ok(password not in "\n".join(said_), f"nothing that was {name} holds the password")


def _password(url: str) -> str:
    """Return the password of a URL.

    Raises:
        DoesNotApply: it has none.
    """
    password = unquote(urlsplit(url).password or "")
    if not password:
        raise DoesNotApply("the URL has no password")
    return password
