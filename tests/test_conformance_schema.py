"""The JSON Schema of reports, which ships with the suite: it describes what is written."""

import json
from importlib import resources

import jsonschema
import msgspec
import pytest

from durably_conformance import Report, UrlHarness, run
from durably_conformance.report import BackendInfo, Environment, Result, SuiteInfo
from durably_conformance.selftest.hollow import Hollow
from prepared import broken, checks, holding, report, vacuous

TEXT = (resources.files("durably_conformance") / "schema/report-1.json").read_text("utf-8")
SCHEMA = json.loads(TEXT)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def document(made):
    return json.loads(made.to_json())


def test_the_schema_is_one():
    """It is a valid schema of its draft."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    "made",
    [
        lambda: run(UrlHarness("memory://"), only=["HAR-*", "SES-*", "NEG-*"], seed=-3),
        lambda: run(Hollow()),
        lambda: report(holding, broken, vacuous),
        lambda: report(broken, level="should", family="crash", profile="full"),
        lambda: report(broken, requires=("durability",)),
        report,
    ],
    ids=["memory", "hollow", "statuses", "full", "unsupported", "none"],
)
def test_real_reports_are_valid(made):
    """Whatever a run finds out, its report is described."""
    VALIDATOR.validate(document(made()))


def test_a_known_failure_is_valid():
    """So is the report on a harness with excuses, good and stale."""
    harness = Hollow()
    harness.known_failures = {"CHK-001": "a link", "CHK-002": "a link"}
    VALIDATOR.validate(document(run(harness, checks=checks(holding, broken))))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "durably-conformance/2"),
        (("level",), "93%"),
        (("suite", "digest"), "md5:0"),
        (("suite", "profile"), "slow"),
        (("counts",), {"must": {"green": 1}}),
        (("checks", 0, "status"), "skipped"),
        (("checks", 0, "reason"), "it passed"),
        (("checks", 0, "assertions"), 0),
        (("checks", 1, "reason"), None),
        (("selftest",), {}),
    ],
)
def test_other_documents_are_not(path, value):
    """What no run writes is refused, a field more too."""
    changed = document(report(holding, broken))
    *above, last = path
    part = changed
    for step in above:
        part = part[step]
    part[last] = value
    assert not VALIDATOR.is_valid(changed)


@pytest.mark.parametrize(
    ("struct", "described"),
    [
        (Report, SCHEMA),
        (SuiteInfo, SCHEMA["properties"]["suite"]),
        (BackendInfo, SCHEMA["properties"]["backend"]),
        (Environment, SCHEMA["properties"]["environment"]),
        (Result, SCHEMA["properties"]["checks"]["items"]),
    ],
)
def test_the_schema_has_every_field(struct, described):
    """Each field of a report is required and described, in the order in which it is written."""
    fields = [one.encode_name for one in msgspec.structs.fields(struct)]
    assert list(described["properties"]) == fields
    assert described["required"] == fields
    assert described["additionalProperties"] is False
