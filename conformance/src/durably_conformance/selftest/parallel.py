"""The proof by several processes at once: rows do not touch each other, and take a second each."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import msgspec

from durably_conformance.collecting import all_checks
from durably_conformance.selftest.proving import Outcome, Proof, is_installed, prove
from durably_conformance.selftest.table import Mutant, Tables, Variant, all_tables

__all__ = ["prove_in_parallel"]

ROWS = 4
"""What a process takes at once."""


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """What became of some rows; a proof itself holds functions, which do not travel."""

    mutants: dict[str, Outcome]
    variants: dict[str, Outcome]


def prove_in_parallel(*, say: Callable[[str], None] | None = None) -> Proof:
    """Return what ``prove`` returns; ``say`` hears how far it is."""
    tables = all_tables()
    rows: list[Mutant | Variant] = [*tables.mutants, *tables.variants]
    names = [one.name for one in rows if is_installed(one.scheme)]
    mutants: dict[str, Outcome] = {}
    variants: dict[str, Outcome] = {}
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        hollow = pool.submit(_hollow)
        some = [pool.submit(_part, names[at : at + ROWS]) for at in range(0, len(names), ROWS)]
        for part in (one.result() for one in as_completed(some)):
            mutants |= part.mutants
            variants |= part.variants
            if say is not None:
                say(f"{len(mutants) + len(variants)} of {len(names)} backends")
        return Proof(
            checks=all_checks(),
            tables=tables,
            mutants=mutants,
            variants=variants,
            hollow=hollow.result(),
            absent=tuple(one.name for one in rows if one.name not in names),
        )


def _part(names: list[str]) -> _Part:
    proof = prove(only=names)
    return _Part(mutants=proof.mutants, variants=proof.variants)


def _hollow() -> tuple[str, ...]:
    """Return the faults that a backend which does nothing brings to light."""
    return prove(tables=Tables()).hollow
