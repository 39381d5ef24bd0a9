"""WAL mode is refused on network file systems, by the table of mounts."""

import pytest

from durably import Unsupported
from durably_sqlite import SQLiteLogStore, _mounts
from logs import LOG, batch


@pytest.fixture
def mounted(tmp_path, monkeypatch):
    """Write a table of mounts in which a folder of this test has a file system of its own."""

    def mount(kind, folder="shared disk"):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        table = tmp_path / "mounts"
        escaped = str(place).replace(" ", r"\040")
        table.write_text(f"root / ext4 rw 0 0\nserver:/x {escaped} {kind} rw 0 0\n")
        monkeypatch.setattr(_mounts, "MOUNTS", table)
        return place / "agent.db"

    return mount


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "virtiofs", "fuse.sshfs"])
async def test_a_network_file_system_is_refused_with_a_remedy(mounted, kind):
    """The error names the file and the kind of file system, and says what to do instead."""
    file = mounted(kind)
    store = SQLiteLogStore(file)
    with pytest.raises(Unsupported, match=f"agent.db.*{kind}.*local disk.*journal_mode=delete"):
        await store.append(LOG, batch("a"))
    await store.aclose()


async def test_it_may_be_used_without_a_write_ahead_log(mounted):
    """With journal_mode=delete the same place is usable, and stays so without asking again."""
    file = mounted("nfs4")
    for settings in ({"journal_mode": "delete"}, {}):
        store = SQLiteLogStore(file, **settings)
        await store.append(LOG, batch("a"))
        assert (await store.describe())["journal_mode"] == "delete"
        await store.aclose()


@pytest.mark.parametrize(("kind", "folder"), [("ext4", "shared disk"), ("nfs4", "shared disk 2")])
async def test_a_local_file_system_is_not(mounted, tmp_path, kind, folder):
    """Local file systems are used, also beside a mount of a longer name."""
    mounted(kind, folder)
    (tmp_path / "shared disk").mkdir(exist_ok=True)
    store = SQLiteLogStore(tmp_path / "shared disk" / "agent.db")
    await store.append(LOG, batch("a"))
    await store.aclose()


async def test_a_machine_without_a_table_of_mounts(tmp_path, monkeypatch):
    """Where there is no table of mounts nothing is refused."""
    monkeypatch.setattr(_mounts, "MOUNTS", tmp_path / "none")
    store = SQLiteLogStore(tmp_path / "agent.db")
    await store.append(LOG, batch("a"))
    await store.aclose()
