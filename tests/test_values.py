"""Values: the stated edges of the codec, its words, and the bytes it writes."""

import json

import msgspec
import pytest

from builders import call, dump, raw
from durably import (
    CustomEntry,
    NotSerializable,
    ReasoningEntry,
    RunHead,
    StateSnapshot,
)
from durably._records import decode_entries, encode_entries
from durably.logstore import LogId
from durably_conformance.context import T
from durably_conformance.keeping import slots
from durably_conformance.samples import GOOD, nested
from durably_conformance.selftest.mutating import MemoryMutant

LOG = LogId(kind="session", id="s")


def there_and_back(value):
    """Return what becomes of a value in an entry's bytes."""
    items = map(msgspec.Raw, encode_entries([CustomEntry(kind="k", data=value)]))
    return decode_entries(list(items), LOG, "r")[0].data


@pytest.mark.parametrize(
    "value", [nested(255), 10**4000, -(10**4000)], ids=["nested", "positive", "negative"]
)
def test_the_edge_of_what_is_stored(value):
    """Values of 255 levels below an entry, and integers of 4,000 digits, are stored."""
    assert there_and_back(value) == value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (nested(257), "nested deeper than 256 levels"),
        (10**5000, "an integer of over 4300 digits"),
        (float("nan"), "JSON has no nan"),
        ({1, 2}, "set is not JSON. Pass a list"),
        (b"x", "bytes is not JSON. Encode it as base64 text"),
        (msgspec.UNSET, "msgspec.UnsetType is not JSON. Convert it"),
        ({1: "x"}, "a key of it is int, not text"),
        ("a\ud83d\ude00", "join two lone surrogates"),
    ],
    ids=["nested", "integer", "nan", "set", "bytes", "unset", "key", "surrogates"],
)
def test_a_refusal_says_why_and_what_to_do(value, words):
    """A NotSerializable says what is at fault, and what to pass instead where that is known."""
    with pytest.raises(NotSerializable) as caught:
        there_and_back(value)
    assert caught.value.path.startswith("entries[0].data")
    assert words in str(caught.value)


def test_a_path_is_written_as_a_person_would():
    """A path has dots before names and brackets around indexes and strange keys."""
    with pytest.raises(NotSerializable) as caught:
        there_and_back({"a": [0, {"a b": {"\ud800": b""}}]})
    assert caught.value.path == "entries[0].data.a[1]['a b']['\\ud800']"


def _refuse_constant(name):
    raise AssertionError(f"{name} is not JSON")


async def test_stored_bytes_are_strict_json(place):
    """Everything stored parses with a JSON parser that knows no NaN, and is valid UTF-8."""
    every = slots(T(MemoryMutant()))
    async with place.open() as storage:
        for number, values in enumerate(GOOD):
            for slot in every:
                await slot.write(storage, f"{number} {slot.path}", values)
    parsed = 0
    async with raw(place) as store:
        for kind in ("session", "run", "thread", "meta"):
            page = await store.list(kind, limit=1000)
            assert page.next is None
            for row in page.items:
                log = await store.read(LogId(kind=kind, id=row.id))
                for data in (log.state.head, *(record.data for record in log.records)):
                    if data is not None:
                        json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
                        parsed += 1
    assert parsed > len(GOOD) * len(every)


async def test_a_refusal_changes_no_byte(place):
    """What is refused leaves the columns of every table, times included, as they were."""
    async with place.open() as storage:
        await storage.sessions.append("s", [call("c")])
        before = dump(place)
        with pytest.raises(NotSerializable):
            await storage.sessions.append("s", [call("d"), CustomEntry(kind="k", data={1})])
        assert dump(place) == before


async def test_default_containers_are_not_shared():
    """Two heads or snapshots made without usage do not share one dict."""
    RunHead().usage["x"] = 1
    StateSnapshot().extra["x"] = 1
    StateSnapshot().messages.append(1)
    ReasoningEntry(provider="p").metadata["x"] = 1
    assert RunHead().usage == {}
    assert (StateSnapshot().extra, StateSnapshot().messages) == ({}, [])
    assert ReasoningEntry(provider="p").metadata == {}


async def test_values_are_frozen():
    """An entry cannot be changed after it was made."""
    with pytest.raises(AttributeError):
        call("c").name = "other"
    assert msgspec.structs.replace(call("c"), name="other").name == "other"
