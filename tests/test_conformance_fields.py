"""The values with every field set, which the conformance suite saves and compares."""

import pytest

from durably import RunHead, StateSnapshot
from durably_conformance.checks import heads, saver


@pytest.mark.parametrize(
    ("full", "stamped"),
    [(heads.FULL, {"updated_at"}), (saver.FULL, set())],
    ids=["head", "snapshot"],
)
def test_every_field_is_set(full, stamped):
    """A field that is added to a head or a snapshot has to be added to what is compared."""
    default = type(full)()
    same = {
        name for name in full.__struct_fields__ if getattr(full, name) == getattr(default, name)
    }
    assert same == stamped
    assert isinstance(full, RunHead | StateSnapshot)
