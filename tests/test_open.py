"""URLs: what opens, and what is refused in words."""

import asyncio
import os
import subprocess
import sys
import traceback
import warnings

import pytest

import durably
from durably import InputEntry, InvalidUrl, StorageClosed, UnknownScheme

SAID = [InputEntry(role="user", content="hello")]


async def _write(url):
    async with durably.open(url) as storage:
        await storage.sessions.append("u1", SAID, run_id="r1")


async def _read(url):
    async with durably.open(url) as storage:
        return await storage.sessions.load("u1")


async def test_three_slashes_are_relative_and_four_absolute(tmp_path, monkeypatch):
    """sqlite:/// opens a file of the working directory, sqlite://// one from the root."""
    monkeypatch.chdir(tmp_path)
    await _write("sqlite:///agent.db")
    assert (tmp_path / "agent.db").exists()
    assert await _read(f"sqlite:///{tmp_path}/agent.db") == SAID


async def test_odd_file_names(tmp_path, monkeypatch):
    """Spaces, percent signs, question and hash marks reach the file name by percent-encoding."""
    monkeypatch.chdir(tmp_path)
    await _write("sqlite:///a%20b%25%3F%23%C3%A9.db")
    assert (tmp_path / "a b%?#é.db").exists()


@pytest.mark.parametrize("scheme", ["memory://", "sqlite://"])
async def test_private_storages_share_nothing(scheme):
    """Two storages of a private URL are two storages."""
    async with durably.open(scheme) as one, durably.open(scheme) as other:
        await one.sessions.append("u1", SAID)
        assert await other.sessions.load("u1") == []


@pytest.mark.parametrize("url", ["memory://shared-name", "sqlite://?name=shared%2Fname"])
async def test_named_storages_are_shared(url):
    """Two storages of one name in the process are one storage."""
    async with durably.open(url) as one, durably.open(url) as other:
        await one.sessions.append("u1", SAID)
        assert await other.sessions.load("u1") == SAID


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("agent.db", "sqlite:///relative.db"),
        ("", "starts with a scheme"),
        (7, "not int"),
        ("sqlite://localhost/agent.db", "has a host"),
        ("sqlite://user:secret@localhost/agent.db", "has a host"),
        ("sqlite:///a.db?jurnal_mode=wal", "did you mean 'journal_mode'"),
        ("sqlite:///a.db?journal_mode=off", "must be one of wal"),
        ("sqlite:///a.db?synchronous=off", "must be one of normal"),
        ("sqlite:///a.db?busy_timeout=soon", "number of seconds"),
        ("sqlite:///a.db?busy_timeout=-1", "0 to 3600"),
        ("sqlite:///a.db?busy_timeout=nan", "0 to 3600"),
        ("sqlite:///a.db?namespace=a&namespace=b", "given twice"),
        ("sqlite:///a.db?namespace", "cannot be read"),
        ("sqlite:///a.db#part", "no #fragment"),
        ("sqlite:///a.db?name=x", "has a path"),
        ("sqlite:///:memory:", "no path of a file"),
        ("sqlite:///a%00b.db", "no path of a file"),
        ("sqlite://[::1/a.db", "cannot be read"),
        ("sqlite+aiosqlite:///a.db", "has no variant 'aiosqlite'"),
        ("memory+x://", "has no variant 'x'"),
        ("sqlite:///", "names no file"),
        ("sqlite:///?namespace=x", "names no file"),
        ("sqlite:///a\tb.db", "no control characters"),
        (" sqlite:///a.db", "no blanks around it"),
        ("sqlite:///a%ff.db", "cannot be read"),
        ("sqlite:///a\ud800.db", "no control characters"),
        ("sqlite://?name=a%00b", "contains NUL"),
        ("redis://:pa?secret@host", "cannot be read"),
        ("memory:///path", "takes a name alone"),
        ("memory://x?synchronous=full", "has no option 'synchronous'"),
        ("memory://x?namespace=%00", "contains NUL"),
    ],
)
def test_urls_that_cannot_be_read(url, said, tmp_path, monkeypatch):
    """A URL that cannot be read is refused before anything is made, and repeats no password."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises((InvalidUrl, durably.InvalidId)) as caught:
        durably.open(url)
    assert said in str(caught.value)
    assert "secret" not in "".join(traceback.format_exception(caught.value)[-1:])
    assert caught.value.__cause__ is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("url", "suggestion"), [("sqlit:///a.db", "sqlite"), ("zebra://x", None)])
def test_unknown_schemes(url, suggestion):
    """A scheme nobody answers to names those that exist, and the one it may have meant."""
    with pytest.raises(
        UnknownScheme, match="Installed: memory, redis, rediss, s3, sqlite"
    ) as caught:
        durably.open(url)
    assert caught.value.suggestion == suggestion


async def test_opening_connects():
    """A storage that cannot be opened says so on entering, not at the first append."""
    with pytest.raises(durably.Unavailable, match="directory"):
        async with durably.open("sqlite:////nowhere/at/all.db"):
            raise AssertionError("entered")


async def test_a_closed_storage_is_not_entered(place):
    """A storage that was closed is refused on entering it again."""
    storage = place.open()
    await storage.aclose()
    with pytest.raises(StorageClosed):
        async with storage:
            raise AssertionError("entered")


async def test_a_storage_takes_a_log_store_object(place):
    """Storage(log_store) is the same storage as that of the URL, and closes what it was given."""
    store = place.log_store()
    async with durably.Storage(store) as storage:
        await storage.sessions.append("u1", SAID)
    assert await _read(place.url) == SAID
    with pytest.raises(StorageClosed):
        await store.list("session")


def test_an_unclosed_storage_does_not_keep_the_process_alive(tmp_path):
    """A process that forgets to close ends all the same, with a warning."""
    code = f"""
import asyncio, durably
async def forget():
    storage = durably.open("sqlite:///{tmp_path}/a.db")
    await storage.sessions.append("u1", [])
asyncio.run(forget())
asyncio.run(forget())
print("stored")
"""
    command = [sys.executable, "-W", "always", "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    assert told.stdout == "stored\n"
    assert told.stderr.count("a durably.Storage was not closed") == 2
    assert "Traceback" not in told.stderr


def test_a_second_loop_is_refused_at_once(place):
    """A storage used in one event loop is refused in the next, and can be closed there."""
    storage = place.open()
    asyncio.run(storage.sessions.append("u1", SAID))
    with pytest.raises(durably.WrongLoop, match="in each loop"):
        asyncio.run(storage.sessions.load("u1"))
    asyncio.run(storage.aclose())
    assert asyncio.run(_read(place.url)) == SAID


async def test_a_forked_child_is_refused_at_once(place):
    """A storage used before a fork is refused in the child, whose parent goes on."""
    async with place.open() as storage:
        await storage.sessions.append("u1", SAID)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _tell_what_happens(storage, writer)
        os.close(writer)
        with open(reader, encoding="utf-8") as told:  # noqa: ASYNC230, PTH123 - a pipe
            assert told.read() == "WrongProcess, closed"
        os.waitpid(child, 0)  # noqa: ASYNC222 - it has told everything already
        assert await storage.sessions.load("u1") == SAID


def _tell_what_happens(storage, writer):
    """In the child: use and close the storage, write what came of it, end without clean-up."""
    said = "nothing"
    try:
        storage.sessions.load("u1").send(None)
    except BaseException as error:  # noqa: BLE001 - told to the parent
        said = type(error).__name__
    try:
        storage.aclose().send(None)
    except StopIteration:
        said += ", closed"
    os.write(writer, said.encode())
    os._exit(0)


async def test_a_scoped_storage_shares_the_connection_and_no_data(handles):
    """Two namespaces share nothing; another handle finds each by the same name."""
    first, second = handles
    tenant = first.scoped("tenant-7")
    await tenant.sessions.append("u1", SAID, run_id="r1")
    assert await first.sessions.load("u1") == []
    assert await first.scoped("tenant-8").sessions.load("u1") == []
    assert await second.scoped("tenant-7").sessions.load("u1") == SAID
    assert (await tenant.checkpointer.runs()).items == ()


async def test_the_namespace_of_a_url_is_that_of_scoped(place):
    """?namespace= opens what scoped() of the same name gives."""
    async with place.open() as storage:
        await storage.scoped("tenant é").sessions.append("u1", SAID)
        assert await _read(f"{place.url}?namespace=tenant%20%C3%A9") == SAID


async def test_who_opens_closes(place):
    """Closing a scoped storage closes it alone; closing the storage closes its scopes."""
    storage = place.open()
    one, other = storage.scoped("one"), storage.scoped("other")
    await one.sessions.append("u1", SAID)
    await one.aclose()
    with pytest.raises(StorageClosed):
        await one.sessions.load("u1")
    assert await storage.sessions.load("u1") == []
    assert await other.sessions.load("u1") == []
    await storage.aclose()
    with pytest.raises(StorageClosed):
        await other.sessions.load("u1")


async def test_ping_is_one_round_trip(place):
    """ping() passes on a storage that can be reached, and is refused on a closed one."""
    storage = place.open()
    assert await storage.ping() is None
    await storage.aclose()
    with pytest.raises(StorageClosed):
        await storage.ping()


def test_a_storage_that_was_never_closed_warns(place):
    """A storage that was used and dropped warns; one that was closed or never used does not."""
    storage = place.open()
    asyncio.run(storage.sessions.load("u1"))
    with pytest.warns(ResourceWarning, match="Storage was not closed"):
        storage.__del__()
    asyncio.run(storage.aclose())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        storage.__del__()
        place.open().__del__()
