"""``durably doctor``: is it there, what is it, and how fast does it answer."""

import asyncio
import math
import time
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated

import msgspec
import typer

from durably.capabilities import Capabilities, Durability, Limits, Writers
from durably.commands.arguments import AsJson, Url, open_url, read_url
from durably.commands.backends import describe_backend, write_capabilities, write_limits
from durably.commands.output import print_facts, print_json
from durably.errors import DurablyError
from durably.storage import Storage

__all__ = ["doctor"]

_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}

DURABILITY = {
    Durability.NOTHING: "what is stored is gone when this process ends",
    Durability.PROCESS_DEATH: "an acknowledged change survives the crash of a process;"
    " power loss or a crash of the machine may take the last changes",
    Durability.POWER_LOSS: "an acknowledged change survives power loss",
}
WRITERS = {
    Writers.ONE_PROCESS: "one process may use it",
    Writers.ONE_HOST: "any number of processes of one host may write at once",
    Writers.MANY_HOSTS: "any number of hosts may write at once",
}


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What was found; ``latency`` is in milliseconds."""

    capabilities: Capabilities
    limits: Limits
    engine: dict[str, str] = {}
    latency: dict[str, float] = {}
    problem: str | None = None


def doctor(
    url: Url,
    *,
    pings: Annotated[
        int, typer.Option(min=1, max=100_000, help="How many round trips to measure.")
    ] = 50,
    as_json: AsJson = False,
) -> None:
    """Look at a storage: can it be reached, what is it, what does it promise, how fast is it.

    Settings are those the engine itself answers, and what they mean for durability is said in
    words. No entry is read or written. Exits with 1 where the storage cannot be reached.

    With --json, it is one object: url (without secrets), reachable, problem, durably, backend
    {distribution, version, contract}, engine {name: text}, capabilities {durability, writers},
    limits {record_bytes, head_bytes}, durability (in words), latency_ms {pings, p50, p90, p99,
    max}.
    """
    findings = asyncio.run(_examine(open_url(url), pings))
    place = read_url(url)
    if as_json:
        print_json(_as_json(str(place), place.scheme, findings, pings))
    else:
        print_facts(_facts(str(place), place.scheme, findings, pings))
    if findings.problem is not None:
        raise DurablyError(findings.problem)


async def _examine(storage: Storage, pings: int) -> Findings:
    """Open, ask and measure; that it cannot be reached is a finding."""
    found = Findings(capabilities=storage.capabilities, limits=storage.limits)
    try:
        async with storage:
            engine = await storage.log_store.describe()
            found = msgspec.structs.replace(found, engine=engine)
            latency = percentiles([await _ping(storage) for _ in range(pings)])
            return msgspec.structs.replace(found, latency=latency)
    except DurablyError as error:
        return msgspec.structs.replace(found, problem=str(error))


async def _ping(storage: Storage) -> float:
    """Return how many milliseconds a round trip took."""
    began = time.perf_counter()
    await storage.ping()
    return (time.perf_counter() - began) * 1000


def percentiles(measured: Sequence[float]) -> dict[str, float]:
    """Return percentiles of at least one measurement, each one that was measured."""
    ordered = sorted(measured)
    ranks = {name: math.ceil(part * len(ordered)) for name, part in _PERCENTILES.items()}
    return {name: round(ordered[rank - 1], 3) for name, rank in ranks.items()}


def _as_json(url: str, scheme: str, findings: Findings, pings: int) -> dict[str, object]:
    backend = describe_backend(scheme.partition("+")[0])
    return {
        "url": url,
        "reachable": findings.problem is None,
        "problem": findings.problem,
        "durably": metadata.version("durably"),
        "backend": {
            "distribution": backend.distribution,
            "version": backend.version,
            "contract": backend.contract,
        },
        "engine": findings.engine,
        "capabilities": write_capabilities(findings.capabilities),
        "limits": msgspec.structs.asdict(findings.limits),
        "durability": DURABILITY[findings.capabilities.durability],
        "latency_ms": {"pings": pings, **findings.latency} if findings.latency else None,
    }


def _facts(url: str, scheme: str, findings: Findings, pings: int) -> dict[str, str]:
    backend = describe_backend(scheme.partition("+")[0])
    declared = findings.capabilities
    record, head = write_limits(findings.limits)
    latency = ", ".join(f"{name} {value:.3f} ms" for name, value in findings.latency.items())
    return {
        "url": url,
        "reachable": "yes" if findings.problem is None else f"no: {findings.problem}",
        "durably": metadata.version("durably"),
        "backend": f"{backend.distribution} {backend.version}, contract {backend.contract}",
        **findings.engine,
        "durability": f"{declared.durability.name.lower()}: {DURABILITY[declared.durability]}",
        "writers": f"{declared.writers.name.lower()}: {WRITERS[declared.writers]}",
        "limits": f"record {record}, head {head}",
        "latency": f"{latency} ({pings} pings)" if latency else "not measured",
    }
