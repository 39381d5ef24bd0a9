"""What a run found, as frozen values that become one JSON document."""

import functools
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Literal, TypeAlias

import msgspec

from durably_conformance.registry import Check, Level, source_of

__all__ = [
    "BackendInfo",
    "Environment",
    "Report",
    "Result",
    "Status",
    "SuiteInfo",
    "Verdict",
    "counts_of",
    "digest_of",
]

SCHEMA = "durably-conformance/1"

Status: TypeAlias = Literal[
    "passed",
    "failed",
    "error",
    "unsupported",
    "undeclared",
    "known_failure",
    "unexpected_pass",
    "not_run",
]
"""``error`` is a check that could not judge: it hung, asserted nothing, or had no place."""

Verdict: TypeAlias = Literal["full", "core", "nonconforming", "incomplete"]


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    pass


class Result(_Value, frozen=True, kw_only=True):
    """What became of one check; ``reason`` is there unless it passed."""

    id: str
    status: Status
    level: Level
    assertions: int = 0
    seconds: float = 0.0
    evidence: dict[str, int] = {}
    reason: str | None = None


class SuiteInfo(_Value, frozen=True, kw_only=True):
    """Which checks ran: reports are comparable where ``digest`` is equal."""

    version: str
    contract: str
    checks: int
    digest: str
    profile: str
    seed: int


class BackendInfo(_Value, frozen=True, kw_only=True):
    """What was judged."""

    name: str
    distribution: str = ""
    version: str = ""
    engine: str = ""


class Environment(_Value, frozen=True, kw_only=True):
    """Where and when."""

    python: str
    platform: str
    optimize: int
    started: str
    seconds: float


class Report(_Value, frozen=True, kw_only=True):
    """One run. Equal seeds give equal reports but for times."""

    schema: str = SCHEMA
    suite: SuiteInfo
    core: str
    backend: BackendInfo
    environment: Environment
    capabilities: dict[str, str]
    limits: dict[str, int]
    counts: dict[str, dict[str, int]]
    level: Verdict
    why: tuple[str, ...]
    checks: tuple[Result, ...]

    def result(self, id_: str) -> Result:
        """Return what became of a check.

        Raises:
            KeyError: there is none of that id.
        """
        for one in self.checks:
            if one.id == id_:
                return one
        raise KeyError(id_)

    def to_json(self) -> bytes:
        """Return the document, indented."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def from_json(cls, document: bytes | str) -> "Report":
        """Read a document back.

        Raises:
            msgspec.ValidationError: it is no report of this schema.
        """
        report = msgspec.json.decode(document, type=cls)
        if report.schema != SCHEMA:
            raise msgspec.ValidationError(f"schema {report.schema!r} is not {SCHEMA!r}")
        return report


def counts_of(results: Iterable[Result]) -> dict[str, dict[str, int]]:
    """Return how many checks of each level came to each status."""
    counts: dict[str, Counter[str]] = {}
    for one in results:
        counts.setdefault(one.level, Counter())[one.status] += 1
    return {level: dict(sorted(found.items())) for level, found in sorted(counts.items())}


def digest_of(checks: Iterable[Check]) -> str:
    """Return a hash over ids and levels of the checks, and all source text they are made of.

    That is the whole package, since helpers decide, too, what a check asks for; only selftest
    asks nothing of a backend.

    Raises:
        OSError: a source cannot be read.
    """
    ordered = sorted(checks, key=lambda one: one.id)
    lines = [f"{one.id} {one.level}" for one in ordered]
    sources = {one.module: source_of(one) for one in ordered} | _package()
    lines += [sources[module] for module in sorted(sources)]
    return f"sha256:{hashlib.sha256(chr(0).join(lines).encode()).hexdigest()}"


@functools.cache
def _package() -> dict[str, str]:
    """Return the text of every module of this package but those of selftest, by its name."""
    name = __package__ or ""
    return dict(_texts(resources.files(name), name))


def _texts(folder: Traversable, name: str) -> Iterator[tuple[str, str]]:
    for one in folder.iterdir():
        if one.is_dir() and one.name != "selftest":
            yield from _texts(one, f"{name}.{one.name}")
        elif one.name.endswith(".py"):
            yield f"{name}.{one.name.removesuffix('.py')}", one.read_text(encoding="utf-8")
