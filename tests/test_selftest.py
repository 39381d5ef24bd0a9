"""The suite's proof, the gate of CI: wrong backends fail what they declare, odd ones nothing."""

import os

import msgspec
import pytest

from durably_conformance import all_checks
from durably_conformance.killtable import reasons_against
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.proving import prove
from durably_conformance.selftest.table import Tables, Variant, all_tables
from prepared import checks, holding

RUNS = 20
EVERY = 35
"""Of the wrong backends, one in so many is run again and again, by the checks it fails alone."""

CHECKS = {one.id: one for one in all_checks()}
MUSTS = [id_ for id_, one in CHECKS.items() if one.level == "must"]
MUTANTS = all_tables().mutants

pytestmark = pytest.mark.xdist_group("selftest")


def named(row):
    return row.name


@pytest.fixture(scope="module")
def proof():
    return prove(processes=os.cpu_count() or 1)


def test_the_suite_is_proved(proof):
    """Every wrong backend fails exactly what it declares, every odd one nothing; none is left out.

    A backend that does nothing fails every positive check, and skips none.
    """
    assert reasons_against(proof) == []
    assert proof.absent == ()
    assert {*proof.mutants} == {one.name for one in MUTANTS}


@pytest.mark.parametrize("id_", MUSTS)
def test_no_check_can_be_removed(proof, id_):
    """Without any one must-check, it is not proved."""
    assert proof.without(id_).faults != []


def test_processes_prove_the_same(proof):
    """What several processes find out is what one does; reasons may show a random revision."""
    for name, found in prove(only=[one.name for one in MUTANTS[::60]]).mutants.items():
        shared = proof.mutants[name]
        assert (shared.failed, shared.probed) == (found.failed, found.probed)


def is_narrowed(row):
    """Whether a row runs only the checks that can meet what is wrong."""
    return row.harness().wrapped is not None


@pytest.mark.parametrize("row", [row for row in MUTANTS if is_narrowed(row)][::30], ids=named)
def test_a_narrowed_row_fails_the_same_of_all_checks(proof, row):
    """The checks that a row does not run, as they cannot meet what is wrong, do not fail it."""

    def whole():
        harness = row.harness()
        harness.wrapped = None
        return harness

    tables = Tables(mutants=(msgspec.structs.replace(row, harness=whole),))
    [found] = prove(tables=tables, only=[row.name]).mutants.values()
    assert (found.failed, found.probed) == (proof.mutants[row.name].failed, "")


def test_a_check_that_fails_a_correct_backend_proves_nothing():
    """What a check uses is known only once it passes; so one that does not is refused."""

    async def fails(t):
        """It fails."""
        t.fail("it always does")

    with pytest.raises(ValueError, match="CHK-001 is failed on a correct backend: it always does"):
        prove(checks=checks(fails), tables=Tables())


@pytest.mark.parametrize("processes", [1, 2])
def test_each_row_is_told_of_once(processes):
    """Whoever listens hears of every row, by as many processes as may be."""
    heard = []
    names = {one.name for one in MUTANTS[::90]}
    prove(only=names, say=heard.append, processes=processes)
    assert {line.partition(": fails ")[0] for line in heard} == names
    assert len(heard) == len(names)


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
