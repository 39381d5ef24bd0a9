"""``durably doctor``: what it finds, in words and in JSON."""

from importlib import metadata

import pytest

from cli_runs import objects, run, store, url
from durably.commands.doctor import percentiles

KEYS = {
    "url",
    "reachable",
    "problem",
    "durably",
    "backend",
    "engine",
    "capabilities",
    "limits",
    "durability",
    "latency_ms",
}


@pytest.fixture
def path(tmp_path):
    """A file with an empty storage: the command makes none."""
    path = tmp_path / "a.db"
    store(path)
    return path


def examined(*arguments, code=0):
    told = run("doctor", *arguments, "--json")
    assert told.returncode == code, told.stderr
    (found,) = objects(told)
    assert found.keys() == KEYS
    return found


def facts(told):
    return dict(line.split(maxsplit=1) for line in told.stdout.splitlines())


def test_a_file_with_its_default_settings(path):
    """Settings are as the engine answers them, versions those that are installed."""
    found = examined(url(path))
    assert found["reachable"] is True
    assert found["problem"] is None
    assert found["durably"] == metadata.version("durably")
    assert found["backend"] == {
        "distribution": "durably-sqlite",
        "version": metadata.version("durably-sqlite"),
        "contract": "1.0",
    }
    engine = found["engine"]
    assert engine.pop("engine").startswith("SQLite 3.")
    assert int(engine.pop("pages")) > 0
    assert engine == {
        "journal_mode": "wal",
        "synchronous": "full",
        "page_size": "4096 bytes",
        "busy_timeout": "10 s",
        "free_pages": "0",
    }
    assert found["capabilities"] == {"durability": "power_loss", "writers": "one_host"}
    assert found["limits"] == {"record_bytes": 64 * 1024 * 1024, "head_bytes": 64 * 1024}
    assert found["durability"] == "an acknowledged change survives power loss"


def test_the_settings_are_read_back(path):
    """Options of the URL are seen in what the engine answers."""
    options = {"synchronous": "extra", "journal_mode": "delete", "busy_timeout": "2.5"}
    engine = examined(url(path, **options))["engine"]
    assert (engine["synchronous"], engine["journal_mode"]) == ("extra", "delete")
    assert engine["busy_timeout"] == "2.5 s"


def test_what_normal_means_is_said_in_words(path):
    """With synchronous=normal it says what power loss may take."""
    told = run("doctor", url(path, synchronous="normal"))
    assert told.returncode == 0
    found = facts(told)
    assert found["synchronous"] == "normal"
    assert found["durability"].startswith("process_death: ")
    assert "power loss or a crash of the machine may take the last changes" in found["durability"]


def test_memory():
    """Memory promises nothing, and says so."""
    found = examined("memory://")
    assert found["engine"].keys() == {"engine"}
    assert "gone when this process ends" in found["durability"]
    assert "one process may use it" in run("doctor", "memory://").stdout


def test_latency_is_measured_so_many_times():
    """--pings says how often; percentiles do not fall."""
    latency = examined("memory://", "--pings", 7)["latency_ms"]
    assert latency.pop("pings") == 7
    assert list(latency) == ["p50", "p90", "p99", "max"]
    assert sorted(latency.values()) == list(latency.values())
    assert "(7 pings)" in run("doctor", "memory://", "--pings", 7).stdout
    assert run("doctor", "memory://", "--pings", 0).returncode == 2


def test_percentiles():
    """Each is a measured value: the smallest that so many are not above."""
    assert percentiles(range(100, 0, -1)) == {"p50": 50, "p90": 90, "p99": 99, "max": 100}
    assert percentiles([3.0]) == {"p50": 3.0, "p90": 3.0, "p99": 3.0, "max": 3.0}
    assert percentiles([1.0, 2.0]) == {"p50": 1.0, "p90": 2.0, "p99": 2.0, "max": 2.0}


@pytest.mark.parametrize(
    "spoil", [lambda path: path.write_bytes(b"no database" * 100), lambda path: path.mkdir()]
)
def test_what_cannot_be_reached_is_reported(path, spoil):
    """It says why, exits with 1, and still tells what is known without it."""
    path.unlink()
    spoil(path)
    found = examined(url(path), code=1)
    assert found["reachable"] is False
    assert found["problem"]
    assert (found["latency_ms"], found["engine"]) == (None, {})
    assert found["backend"]["distribution"] == "durably-sqlite"
    told = run("doctor", url(path))
    assert facts(told)["reachable"].startswith("no: ")
    assert told.stderr == f"durably: {found['problem']}\n"


def test_the_url_shows_no_secret(path):
    """The URL in the report is the one that was given, less its secrets."""
    assert examined(url(path))["url"] == url(path)
    assert "reachable     yes" in run("doctor", url(path)).stdout
