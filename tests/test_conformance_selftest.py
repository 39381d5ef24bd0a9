"""The suite's proof: wrong backends fail exactly what they declare, odd ones nothing."""

import msgspec
import pytest

from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.proving import prove
from durably_conformance.selftest.table import Variant, all_tables


@pytest.fixture(scope="module")
def proof():
    return prove()


def test_the_suite_is_proved(proof):
    """No row behaves otherwise than its table says, and none was left out."""
    assert proof.faults == []
    assert proof.absent == ()


def test_no_check_can_be_removed(proof):
    """Without any one must-check, the proof fails."""
    assert proof.unguarded() == []


@pytest.mark.parametrize("harness", [lambda: MemoryMutant("correct")])
def test_a_mutant_that_is_none_is_found(harness):
    """A row whose backend breaks no rule, or declares too much or too little, is a fault."""
    tables = all_tables()
    one = next(row for row in tables.mutants if row.name == "last write wins")
    correct = msgspec.structs.replace(one, harness=harness)
    more = msgspec.structs.replace(one, name="more", fails=one.fails | {"SES-APP-001"})
    less = msgspec.structs.replace(one, name="less", fails=frozenset({"SES-APP-001"}))
    wrong = msgspec.structs.replace(tables, mutants=(correct, more, less))
    faults = prove(tables=wrong, only=["last write wins", "more", "less"]).faults
    for words in (
        "last write wins: its probe does not show the fault",
        "last write wins: is let pass by SES-IDEM-001",
        "more: is let pass by SES-APP-001",
        "less: fails undeclared SES-IDEM-001",
    ):
        assert any(line.startswith(words) for line in faults), words


def test_a_variant_that_breaks_a_rule_is_found():
    """A variant is a row that may fail nothing."""
    tables = all_tables()
    one = next(row for row in tables.mutants if row.name == "last write wins")
    variant = Variant(name="odd", says="It is wrong.", harness=one.harness)
    wrong = msgspec.structs.replace(tables, mutants=(), variants=(variant,))
    faults = prove(tables=wrong, only=["odd"]).faults
    assert any(line.startswith("odd: breaks no rule, but SES-IDEM-001") for line in faults)
