"""The values that cross a log store check themselves, so that it only ever sees legal ones."""

import pytest

from durably import InvalidId, InvalidLimit
from durably.logstore import Batch, LogId, NewRecord, Range, Rewrite

RECORD = NewRecord(key="a", data=b"")


@pytest.mark.parametrize("kind", ["", "Session", "a b", "a{b}", "ä", "a\n", "a" * 33, 7, None])
def test_a_kind_is_1_to_32_of_a_to_z_digits_and_dash(kind):
    """Any other kind is an InvalidId."""
    with pytest.raises(InvalidId):
        LogId(kind=kind, id="x")
    assert LogId(kind="a-9" + 29 * "z", id="x").kind.startswith("a-9")


BAD_TEXT = ["", "a\x00b", "\ud800", "x" * 2000, 7, None, b"bytes"]


@pytest.mark.parametrize("text", BAD_TEXT)
def test_an_id_is_text_without_nul_and_lone_surrogates(text):
    """Ids of logs and keys of batches are non-empty, storable, bounded text."""
    with pytest.raises(InvalidId):
        LogId(kind="session", id=text)
    with pytest.raises(InvalidId):
        Batch(records=(RECORD,), key=text)
    with pytest.raises(InvalidId):
        Rewrite(expected_revision=1, key=text)
    if text is not None:
        with pytest.raises(InvalidId):
            NewRecord(data=b"", key=text)


def test_ids_have_256_bytes_and_record_keys_1024_at_most():
    """Limits of ids and keys count UTF-8 bytes, and hold exactly."""
    assert LogId(kind="run", id="é" * 128).id == "é" * 128
    assert NewRecord(data=b"", key="é" * 512).key == "é" * 512
    with pytest.raises(InvalidId):
        LogId(kind="run", id="é" * 128 + "x")
    with pytest.raises(InvalidId):
        NewRecord(data=b"", key="é" * 512 + "x")


@pytest.mark.parametrize(
    "make",
    [
        Batch,
        lambda: Batch(records=()),
        lambda: Batch(records=(RECORD, RECORD)),
        lambda: Batch(records=(NewRecord(key="k:1", data=b""), NewRecord(data=b"")), key="k"),
        lambda: Rewrite(expected_revision=1, drop_after=0, replace={1: RECORD}),
        lambda: Rewrite(expected_revision=1, drop=frozenset({1}), replace={1: RECORD}),
    ],
)
def test_a_change_that_contradicts_itself_is_a_value_error(make):
    """An empty batch, one key twice, and a record dropped and replaced at once are refused."""
    with pytest.raises(ValueError):
        make()


NOT_COUNTS = [-1, True, 1.0, "1"]


@pytest.mark.parametrize("value", NOT_COUNTS)
def test_counts_are_integers_of_at_least_0(value):
    """Negative numbers, bools, floats and text are an InvalidLimit wherever a count belongs."""
    for make in (
        lambda: NewRecord(data=b"", entry_count=value),
        lambda: Batch(records=(RECORD,), expected_revision=value),
        lambda: Batch(records=(RECORD,), keep_last=value),
        lambda: Rewrite(expected_revision=value),
        lambda: Range(after=value),
        lambda: Range(until=value),
        lambda: Range(limit=value),
        lambda: Range(entry_limit=value),
    ):
        with pytest.raises(InvalidLimit):
            make()


@pytest.mark.parametrize("value", NOT_COUNTS)
def test_a_rewrite_names_its_records_by_seqs(value):
    """What drop_after, drop and replace name is an integer of at least 0 each."""
    for fields in (
        {"drop_after": value},
        {"drop": frozenset({value})},
        {"replace": {value: RECORD}},
    ):
        with pytest.raises(InvalidLimit):
            Rewrite(expected_revision=1, **fields)


@pytest.mark.parametrize("value", ["text", None, 7, [1]])
def test_data_and_head_are_bytes(value):
    """Anything but bytes as data or head is refused before a log store sees it."""
    with pytest.raises((TypeError, ValueError)):
        NewRecord(data=value)
    if value is not None:
        with pytest.raises((TypeError, ValueError)):
            Batch(head=value)
        with pytest.raises((TypeError, ValueError)):
            Rewrite(expected_revision=1, head=value)


def test_the_least_counts_that_make_sense_are_1():
    """keep_last, entry_limit and a rewrite's revision start at 1; limit and after at 0."""
    for make in (
        lambda: Batch(records=(RECORD,), keep_last=0),
        lambda: Range(entry_limit=0),
        lambda: Rewrite(expected_revision=0),
    ):
        with pytest.raises(InvalidLimit):
            make()
    assert Range(limit=0, after=0, until=0).limit == 0


def test_a_batch_has_an_identity_and_derives_its_records_keys_from_it():
    """Each batch has a key of its own, and its unkeyed records one by their position."""
    first, second = Batch(head=b""), Batch(head=b"")
    assert first.key != second.key
    named = Batch(key="k", records=(NewRecord(data=b""), RECORD, NewRecord(data=b"")))
    assert named.record_keys == ("k:0", "a", "k:2")
