"""The suite's proof, the gate of CI: wrong backends fail what they declare, odd ones nothing."""

import msgspec
import pytest

from durably_conformance import all_checks
from durably_conformance.killtable import reasons_against
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.parallel import prove_in_parallel
from durably_conformance.selftest.proving import Outcome, Proof, is_installed, prove
from durably_conformance.selftest.table import Mutant, Tables, Variant, all_tables
from prepared import checks, holding

RUNS = 20
EVERY = 10
"""Of the wrong backends, one in so many is run again and again, by the checks it fails alone."""

CHECKS = {one.id: one for one in all_checks()}
MUSTS = [id_ for id_, one in CHECKS.items() if one.level == "must"]
TABLES = all_tables()
MUTANTS = TABLES.mutants
"""Each is a test of its own, so that the gate is spread over what processors there are."""


def named(row):
    return row.name


def expected(tables=TABLES):
    """Return the proof in which every row ends as its table says."""
    return Proof(
        checks=tuple(CHECKS.values()),
        tables=tables,
        mutants={one.name: Outcome(name=one.name, failed=one.fails) for one in tables.mutants},
        variants={one.name: Outcome(name=one.name, failed=frozenset()) for one in tables.variants},
        hollow=(),
    )


@pytest.mark.parametrize("row", [*MUTANTS, *TABLES.variants], ids=named)
def test_a_backend_fails_what_its_row_says(row):
    """A wrong backend fails exactly what it declares, and a probe shows why; an odd one nothing."""
    assert is_installed(row.scheme)
    is_mutant = isinstance(row, Mutant)
    tables = Tables(mutants=(row,)) if is_mutant else Tables(variants=(row,))
    faults = prove(tables=tables, only=[row.name]).faults
    assert [line for line in faults if line.startswith(f"{row.name}: ")] == []


def test_the_hollow_backend_fails_every_check():
    """A backend that does nothing fails every positive check, and skips none."""
    assert prove(tables=Tables()).hollow == ()


def test_every_check_is_guarded():
    """With every row as declared, nothing speaks against the suite."""
    assert reasons_against(expected()) == []


@pytest.mark.parametrize("id_", MUSTS)
def test_no_check_can_be_removed(id_):
    """Without any one must-check, it is not proved."""
    assert expected().without(id_).faults != []


def test_processes_prove_the_same(monkeypatch):
    """What several processes find out is what one does."""
    few = Tables(mutants=MUTANTS[:5], variants=TABLES.variants[:1])
    monkeypatch.setattr("durably_conformance.selftest.parallel.all_tables", lambda: few)
    one, several = prove(tables=few), prove_in_parallel()
    assert (several.mutants, several.variants) == (one.mutants, one.variants)
    assert (several.hollow, several.absent) == (one.hollow, one.absent)


@pytest.mark.parametrize("row", MUTANTS[::EVERY], ids=named)
def test_removing_is_what_it_says(row):
    """A proof without a check is that of a suite which never had it."""
    id_ = min(row.fails)
    whole, less = (
        prove(checks=found, only=[row.name])
        for found in (few(row), [one for one in few(row) if one.id != id_])
    )
    assert whole.mutants[row.name].failed == row.fails
    assert whole.without(id_).mutants[row.name].failed == less.mutants[row.name].failed
    assert f"{row.name}: is let pass by {id_}" in less.faults


def few(row):
    """Return those about the harness, and checks that a row fails."""
    return [one for one in CHECKS.values() if one.is_first or one.id in row.fails]


@pytest.mark.parametrize("row", MUTANTS[::EVERY], ids=named)
def test_a_mutant_fails_the_same_every_time(row):
    """Twenty of twenty runs with one seed end the same."""
    found = {prove(checks=few(row), only=[row.name]).mutants[row.name].failed for _ in range(RUNS)}
    assert found == {row.fails}


def test_a_check_that_the_hollow_backend_passes_is_found():
    """A check that holds where nothing is implemented is a fault of the suite."""
    faults = prove(checks=checks(holding), tables=Tables()).faults
    for manner in ("raises", "returns None"):
        assert f"hollow, {manner}: CHK-001 is passed" in faults


def test_a_check_that_the_hollow_backend_skips_is_found():
    """So is one that does not apply where everything is declared."""
    faults = prove(checks=checks(holding, requires=("durability",)), tables=Tables()).faults
    assert "hollow, raises: CHK-001 is unsupported" in faults


@pytest.fixture
def row():
    """A wrong backend that one check alone catches."""
    return next(one for one in MUTANTS if one.fails == {"SES-IDEM-001"})


def test_a_mutant_that_is_none_is_found(row):
    """A row whose backend breaks no rule, or declares too much or too little, is a fault."""
    correct = msgspec.structs.replace(row, harness=lambda: MemoryMutant("correct"))
    more = msgspec.structs.replace(row, name="more", fails=row.fails | {"SES-APP-001"})
    less = msgspec.structs.replace(row, name="less", fails=frozenset({"SES-APP-001"}))
    wrong = Tables(mutants=(correct, more, less))
    faults = prove(tables=wrong, only=[row.name, "more", "less"]).faults
    for words in (
        f"{row.name}: its probe does not show the fault",
        f"{row.name}: is let pass by SES-IDEM-001",
        "more: is let pass by SES-APP-001",
        "less: fails undeclared SES-IDEM-001",
    ):
        assert any(line.startswith(words) for line in faults), words


def test_a_variant_that_breaks_a_rule_is_found(row):
    """A variant is a row that may fail nothing."""
    variant = Variant(name="odd", says="It is wrong.", harness=row.harness)
    faults = prove(tables=Tables(variants=(variant,)), only=["odd"]).faults
    assert any(line.startswith("odd: breaks no rule, but SES-IDEM-001") for line in faults)


def test_an_excuse_that_is_none_is_found(row):
    """An excuse for a check that has a mutant, or for no check, is a fault."""
    excuses = {"SES-IDEM-001": "so", "SES-IDEM-999": "so"}
    faults = prove(tables=Tables(mutants=(row,), excuses=excuses), only=[]).faults
    assert "SES-IDEM-001: has an excuse, and a mutant" in faults
    assert "SES-IDEM-999: has an excuse, and is no check" in faults
