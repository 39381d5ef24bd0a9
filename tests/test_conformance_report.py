"""What a report says of its suite, of what it did not look at, and what it keeps to itself."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

import durably
import durably_conformance
from builders import user
from durably.testing import Harness, MemoryPlace
from durably_conformance import UrlHarness, context, registry, run
from durably_conformance import report as reports
from durably_conformance.context import NO_DUMP
from durably_conformance.masking import Mask
from durably_conformance.report import digest_of
from durably_conformance.showing import verdict_lines
from durably_sqlite.testing import SQLitePlace
from prepared import checks, holding, report

SECRET = "hunter2"  # noqa: S105 - what must not be seen


def test_the_digest_covers_helpers(monkeypatch):
    """Another text of any module but those of selftest gives another digest."""
    told = reports._package()
    folder = Path(durably_conformance.__file__).parent
    names = {
        ".".join(path.relative_to(folder).with_suffix("").parts) for path in folder.rglob("*.py")
    }
    wanted = {f"durably_conformance.{one}" for one in names if not one.startswith("selftest")}
    assert set(told) == wanted
    one = checks(holding)
    before = digest_of(one)
    for name in ("durably_conformance.building", "durably_conformance.checks.ids"):
        monkeypatch.setattr(reports, "_package", lambda n=name: told | {n: told[n] + "#"})
        assert digest_of(one) != before


def test_a_digest_needs_every_source():
    """A check whose text cannot be read has no digest."""
    [one] = checks(holding)
    with pytest.raises(OSError, match=r"CHK-001, no\.such, cannot be read"):
        digest_of([msgspec.structs.replace(one, module="no.such")])


def test_every_public_name_is_told():
    """What other modules import is public."""
    assert "source_of" in registry.__all__
    assert "said" in context.__all__


class Telling(Harness):
    """A backend that describes itself by its URL, wherever it says anything."""

    name = f"at db://me:{SECRET}@host/"
    distribution = f"dist-{SECRET}"
    capabilities = msgspec.structs.replace(
        durably.MemoryLogStore.capabilities, trim=durably.Support.no(f"not for {SECRET}")
    )

    def place(self):
        place = MemoryPlace()
        connect = place.connect

        async def connected(**options):
            handle = await connect(**options)
            handle.log_store.describe = self.describe
            return handle

        place.connect = connected
        return place

    async def describe(self):
        return {"engine": f"1.0 at db://me:{SECRET}@host/ as {SECRET}"}


def test_what_a_backend_says_of_itself_is_masked():
    """No description of a backend's own brings its password into a report."""
    made = run(Telling(), checks=checks(holding))
    assert made.to_json().decode().count(SECRET) == 5
    hidden = Mask(f"db://me:{SECRET}@host/").report(made)
    assert SECRET not in hidden.to_json().decode()
    assert hidden.backend.engine == "1.0 at db://me:***@host/ as ***"


async def dumping(t):
    """It looks past the backend."""
    t.ok(await t.dump() is not None, "a dump")


def test_residue_that_nobody_looked_at_is_named(monkeypatch):
    """A good verdict says so where the place cannot be read past the backend."""
    made = run(UrlHarness("sqlite://"), checks=checks(holding, dumping))
    line = f"residue was not looked at by CHK-002: {NO_DUMP}"
    assert made.level == "core"
    assert line in made.why
    lines = " ".join(" ".join(verdict_lines(made)).split())
    assert f"Note: {line}." in lines
    assert "network checks. Note" in lines
    assert not any("residue" in one for one in report(holding, dumping).why)


@pytest.fixture
async def place(tmp_path):
    place = SQLitePlace(f"sqlite:///{tmp_path}/x.db")
    yield place
    await place.wipe()


async def test_a_dump_of_sqlite_shows_what_lies_there(place):
    """Content is in a dump as it was written, by table, row and column, and so is the schema."""
    async with await place.connect() as handle:
        await handle.sessions.append("s", [user("hunter2 é")])
        shown = await place.dump()
        assert any("hunter2 é".encode() in data for data in shown.values())
        assert b"s" in [data for name, data in shown.items() if name.endswith("/id")]
        assert shown["table/durably_logs"].startswith(b"CREATE TABLE")
        assert await place.dump() == shown
        await handle.sessions.clear("s")
        left = await place.dump()
        assert not any(SECRET.encode() in data for data in left.values())


def _residue():
    return [one for one in durably_conformance.all_checks() if one.id == "DEL-RES-001"]


def test_residue_is_found_where_rows_are_kept(tmp_path, monkeypatch):
    """Content that was there before all, and is there after all, is found in blobs, too."""

    class Hoarding(SQLitePlace):
        async def dump(self):
            await asyncio.to_thread(self.hoard)
            return await super().dump()

        def hoard(self):
            with closing(sqlite3.connect(self._file())) as connection, connection:
                connection.execute("CREATE TABLE IF NOT EXISTS bin (data BLOB)")
                connection.execute("DELETE FROM bin")
                connection.execute("INSERT INTO bin VALUES (?)", (b"\x00 hunter2",))

    harness = UrlHarness(f"sqlite:///{tmp_path}/x.db")
    [found] = run(harness, checks=_residue()).checks
    assert found.status == "passed"
    monkeypatch.setattr(harness, "place", lambda: Hoarding(f"sqlite:///{tmp_path}/x.db"))
    [found] = run(harness, checks=_residue()).checks
    assert found.status == "failed"
    assert "what still holds deleted content" in found.reason


def test_residue_nobody_can_see_is_not_judged(monkeypatch):
    """Where content cannot be seen in a dump, its absence proves nothing."""
    harness = UrlHarness("memory://")

    class Sealed(MemoryPlace):
        async def dump(self):
            return {
                name: bytes(255 - one for one in data)
                for name, data in (await super().dump()).items()
            }

    monkeypatch.setattr(harness, "place", Sealed)
    [found] = run(harness, checks=_residue()).checks
    assert (found.status, found.reason) == (
        "unsupported",
        "the raw content does not show what is stored",
    )
