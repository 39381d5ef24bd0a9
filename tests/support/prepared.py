"""Checks, reports and proofs made by hand, for tests of what is done with them."""

from durably_conformance import Registry, run
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.proving import Outcome, Proof
from durably_conformance.selftest.table import Mutant, Tables, Variant


async def holding(t):
    """It holds. Everybody needs it."""
    t.eq(1, 1, "one")


async def broken(t):
    """It does not hold."""
    t.eq("got it", "wanted it", "what was stored")


async def vacuous(t):
    """It asserts nothing."""


def checks(*functions, first=1, **options):
    """Return functions as checks CHK-001, CHK-002 and so on."""
    registry = Registry()
    for number, function in enumerate(functions, first):
        id_ = f"CHK-{number:03}"
        registry.check(id_, **({"contract": "session"} | options))(function)
    return registry.checks


def report(*functions, name="mydb", profile="quick", **options):
    """Return the report on a backend for which these checks were run."""
    return run(MemoryMutant(name), checks=checks(*functions, **options), profile=profile)


def write(path, made):
    """Write a report and return where it is."""
    path.write_bytes(made.to_json())
    return str(path)


def proof(**changes):
    """Return a proof with one row of each kind, in which all is well."""
    row = Mutant(
        name="forgets",
        says="What was stored is there.",
        fails=frozenset({"CHK-001"}),
        provenance="somebody/something#7",
        harness=MemoryMutant,
        probe=holding,
    )
    odd = Variant(name="slow", says="It takes its time.", harness=MemoryMutant)
    made = {
        "checks": checks(holding),
        "tables": Tables(mutants=(row,), variants=(odd,)),
        "mutants": {"forgets": Outcome(name="forgets", failed=frozenset({"CHK-001"}))},
        "variants": {"slow": Outcome(name="slow", failed=frozenset())},
        "hollow": (),
    }
    return Proof(**(made | changes))
