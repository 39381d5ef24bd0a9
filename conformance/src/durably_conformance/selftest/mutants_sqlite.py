"""SQLite with a spoiled schema: triggers that do what a careless author's code would."""

from durably_conformance.selftest.mutating import SQLiteMutant
from durably_conformance.selftest.table import Mutant, Variant

MUTANTS: tuple[Mutant, ...] = ()

VARIANTS = (
    Variant(
        name="sqlite",
        says="Nothing is odd about it: the schema is left as it is.",
        harness=lambda: SQLiteMutant("sqlite", ""),
        scheme="sqlite",
    ),
)
