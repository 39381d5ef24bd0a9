"""The suite's own proof as a person reads it: which wrong backend is caught by which check."""

from collections.abc import Iterator

from durably_conformance.selftest.proving import Proof
from durably_conformance.wording import amount, filled

__all__ = ["kill_table", "reasons_against"]


def reasons_against(proof: Proof) -> list[str]:
    """Return every reason why the suite is not proved, none if it is."""
    unguarded = [f"{id_}: it can be removed, and nobody would notice" for id_ in proof.unguarded()]
    return [*proof.faults, *unguarded]


def kill_table(proof: Proof) -> Iterator[str]:
    """Return a paragraph for each wrong backend that ran, then for each odd one."""
    yield "Wrong backends, the mistake each makes, and the checks that catch it:"
    for one in proof.tables.mutants:
        if one.name in proof.mutants:
            caught = ", ".join(sorted(proof.mutants[one.name].failed)) or "nothing"
            yield ""
            yield from filled(f"{one.name}, caught by {caught}", "  ", "    ")
            yield from filled(f"breaks: {one.says}", "    ", "      ")
            yield from filled(f"seen: {one.provenance}", "    ", "      ")
    yield from ("", "Odd backends that break no rule, and fail nothing:", "")
    for variant in proof.tables.variants:
        if variant.name in proof.variants:
            yield from filled(f"{variant.name}: {variant.says}", "  ", "    ")
    if proof.absent:
        yield ""
        yield from filled(f"Not tried, as what they need is not installed: {_names(proof.absent)}")
    yield from ("", *_verdict(proof))


def _verdict(proof: Proof) -> Iterator[str]:
    against = reasons_against(proof)
    if against:
        yield f"Not proved, for {amount(len(against), 'reason')}:"
        for line in against:
            yield from filled(line, "  ", "    ")
        return
    musts = sum(one.level == "must" for one in proof.checks)
    excused = len(proof.tables.excuses)
    yield from filled(
        f"Proved: {amount(len(proof.mutants), 'wrong backend')} fail exactly the checks they"
        f" name, {amount(len(proof.variants), 'odd one')} fail none, and a backend that does"
        f" nothing fails every check. Of {amount(musts, 'must-check')} none can be removed"
        f" unnoticed; {excused} of them are never the only one to catch a mistake, and say why."
    )


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(sorted(names))
