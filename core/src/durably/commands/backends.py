"""``durably backends``: what is installed, and whether it can be used."""

import pkgutil

import msgspec

from durably import plugins
from durably.capabilities import Capabilities, Limits
from durably.commands.arguments import AsJson
from durably.commands.output import print_json, print_table
from durably.errors import DurablyError
from durably.plugins import BackendSpec

__all__ = ["BackendRow", "backends", "describe_backend", "write_capabilities", "write_limits"]

_HEADINGS = (
    "SCHEME",
    "DISTRIBUTION",
    "VERSION",
    "CONTRACT",
    "DURABILITY",
    "WRITERS",
    "RECORD",
    "HEAD",
    "USABLE",
)


class BackendRow(msgspec.Struct, frozen=True, kw_only=True):
    """One scheme: who offers it, what it declares, and why it cannot be used, if it cannot."""

    scheme: str
    distribution: str | None = None
    version: str | None = None
    contract: str | None = None
    capabilities: Capabilities | None = None
    limits: Limits | None = None
    problem: str | None = None


def backends(*, as_json: AsJson = False) -> None:
    """List the backends: a row for each URL scheme, and why one cannot be used.

    Nothing is opened. A backend that is broken, disabled or in conflict is a row that says so,
    and the exit code is 0 all the same.

    With --json, each row is an object on a line of its own: scheme, distribution, version,
    contract, capabilities {durability, writers}, limits {record_bytes, head_bytes}, usable,
    problem. What is not known is null.
    """
    offered = {offer.scheme for offer in plugins.offers()}
    schemes = sorted({*offered, *plugins.backends.schemes(), *plugins.FIRST_PARTY})
    rows = [describe_backend(scheme) for scheme in schemes]
    if as_json:
        for row in rows:
            print_json(_as_json(row))
        return
    print_table(_HEADINGS, map(_cells, rows))


def describe_backend(scheme: str) -> BackendRow:
    """Describe the backend of a scheme, importing it, opening nothing."""
    claims = [offer for offer in plugins.offers() if offer.scheme == scheme]
    row = BackendRow(
        scheme=scheme,
        distribution=", ".join(claim.distribution for claim in claims) or None,
        version=", ".join(claim.version for claim in claims) or None,
    )
    try:
        spec = plugins.backends.find(scheme)
    except DurablyError as error:
        return msgspec.structs.replace(row, problem=str(error))
    return msgspec.structs.replace(
        row,
        contract=".".join(map(str, spec.contract)),
        capabilities=spec.capabilities,
        limits=spec.limits,
        problem=_problem(spec),
    )


def _problem(spec: BackendSpec) -> str | None:
    """Import what would open a storage, and say why that fails."""
    try:
        pkgutil.resolve_name(spec.open)
    except Exception as error:  # noqa: BLE001 - a stranger's import may raise anything
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        needed = dict(spec.requires).get((missing or "").partition(".")[0])
        if needed is not None:
            return f'{needed!r} is not installed. Install it with: pip install "{needed}"'
        return f"it failed to import: {type(error).__name__}: {error}"
    return None


def write_capabilities(capabilities: Capabilities) -> dict[str, str]:
    """Return what a backend declares, in words for programs."""
    return {
        "durability": capabilities.durability.name.lower(),
        "writers": capabilities.writers.name.lower(),
    }


def write_limits(limits: Limits) -> tuple[str, str]:
    """Return the limits of a record and of a head as a person reads them."""
    return f"{limits.record_bytes / 2**20:g} MiB", f"{limits.head_bytes / 2**10:g} KiB"


def _as_json(row: BackendRow) -> dict[str, object]:
    values = msgspec.structs.asdict(row)
    values["capabilities"] = row.capabilities and write_capabilities(row.capabilities)
    values["limits"] = row.limits and msgspec.structs.asdict(row.limits)
    problem = values.pop("problem")
    return {**values, "usable": problem is None, "problem": problem}


def _cells(row: BackendRow) -> list[str]:
    declared = write_capabilities(row.capabilities) if row.capabilities else {}
    return [
        row.scheme,
        row.distribution or "-",
        row.version or "-",
        row.contract or "-",
        declared.get("durability", "-"),
        declared.get("writers", "-"),
        *(write_limits(row.limits) if row.limits else "--"),
        "yes" if row.problem is None else f"no: {row.problem}",
    ]
