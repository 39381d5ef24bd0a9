"""What users may import: complete, sorted, documented, and errors that travel well."""

import importlib
import inspect
import pickle
import pkgutil

import pytest

import durably
import durably_redis
import durably_s3
import durably_sqlite
from durably import errors

PUBLIC = [
    durably,
    durably_redis,
    durably_s3,
    durably_sqlite,
    *(
        importlib.import_module(f"durably.{info.name}")
        for info in pkgutil.iter_modules(durably.__path__)
        if not info.name.startswith("_")
    ),
]


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_all_is_sorted_and_there(module):
    """__all__ names what exists, each once, in the order ruff sorts it."""
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)


def test_the_package_exports_every_error_entry_and_value():
    """What the contracts take, return and raise is importable from durably itself."""
    for module in (durably.errors, durably.entries, durably.runs, durably.contracts):
        constants = {name for name in module.__all__ if name.isupper()}
        assert set(module.__all__) - constants <= set(durably.__all__), module.__name__


def test_the_package_exports_nothing_unmeant():
    """Every public name is in __all__ or a module, but ``open``: a star must not shadow it."""
    modules = {info.name for info in pkgutil.iter_modules(durably.__path__)}
    public = {name for name in vars(durably) if not name.startswith("_")}
    assert public - modules - set(durably.__all__) == {"open"}


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (durably_redis, ["RedisLogStore", "Settings"]),
        (durably_s3, ["S3LogStore", "Settings"]),
        (durably_sqlite, ["SQLiteLogStore", "open_url"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_backend_exports_its_store_and_what_it_takes(module, names):
    """The store of a backend is its public name, with its settings where it has a class of them."""
    assert module.__all__ == names
    assert issubclass(getattr(module, names[0]), durably.LogStore)


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_public_things_are_documented(module):
    """Every public class, function and contract method has a docstring of its own."""
    for name in module.__all__:
        thing = getattr(module, name)
        if not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        assert inspect.getdoc(thing), name
        for method, value in vars(thing).items() if inspect.isclass(thing) else ():
            if inspect.isfunction(value) and not method.startswith("_"):
                assert inspect.getdoc(getattr(thing, method)), f"{name}.{method}"


EXAMPLES = {
    "BackendNotInstalled": errors.BackendNotInstalled("no s3", hint="Install it"),
    "BackendBroken": errors.BackendBroken("it broke"),
    "BackendConflict": errors.BackendConflict("dup", ("a", "b")),
    "ContractMismatch": errors.ContractMismatch("x", implemented=(2, 0), spoken=(1, 0)),
    "InvalidConfig": errors.InvalidConfig("no url"),
    "CheckpointNotFound": errors.CheckpointNotFound("t", 3),
    "CopyConflict": errors.CopyConflict("session 'u'"),
    "CursorExpired": errors.CursorExpired("u"),
    "CursorForeign": errors.CursorForeign("u"),
    "CursorIncompatible": errors.CursorIncompatible("it is older"),
    "CursorMalformed": errors.CursorMalformed(),
    "CorruptRecord": errors.CorruptRecord("session 'u'", "cut off", record="r", index=2),
    "DurablyError": errors.DurablyError("it broke", hint="Mend it"),
    "ForeignData": errors.ForeignData("not ours", hint="Choose another"),
    "HistoryTooLarge": errors.HistoryTooLarge("session 'u'", max_records=9, max_bytes=99),
    "InvalidExport": errors.InvalidExport(7, "it is cut off"),
    "InvalidFilter": errors.InvalidFilter("types", "tools", known=("messages",)),
    "InvalidId": errors.InvalidId("session", "", "it is empty"),
    "InvalidLimit": errors.InvalidLimit("limit", -1, minimum=1, maximum=9),
    "InvalidNode": errors.InvalidNode("t", "n", "it would be its own parent"),
    "InvalidStatus": errors.InvalidStatus("status", "lost", known=("running",)),
    "InvalidUrl": errors.InvalidUrl("no scheme"),
    "MigrationError": errors.MigrationError("it", found=1, wanted=2, reason="it failed"),
    "NodeNotFound": errors.NodeNotFound("t", "n"),
    "NotSerializable": errors.NotSerializable("meta.a", "set is not JSON"),
    "RecordTooLarge": errors.RecordTooLarge("run 'r'", "head", size=9, limit=8),
    "RevisionConflict": errors.RevisionConflict("run 'r'", expected=1, actual=2),
    "RunNotFound": errors.RunNotFound("r"),
    "SchemaTooNew": errors.SchemaTooNew("it", found=2, supported=1, distribution="durably"),
    "SessionExists": errors.SessionExists("u"),
    "SessionNotFound": errors.SessionNotFound("u"),
    "StateNotFound": errors.StateNotFound("k"),
    "StorageBusy": errors.StorageBusy("locked"),
    "StorageClosed": errors.StorageClosed(),
    "TreeNotFound": errors.TreeNotFound("t"),
    "Unavailable": errors.Unavailable("gone"),
    "UnknownEntryType": errors.UnknownEntryType("run 'r'", record="b", index=0, entry_type="x"),
    "UnknownScheme": errors.UnknownScheme("sqlit", installed=("sqlite",), suggestion="sqlite"),
    "WrongLoop": errors.WrongLoop(),
    "WrongProcess": errors.WrongProcess(),
    "Unsupported": errors.Unsupported("too old"),
}


def test_every_error_has_an_example():
    """The table below is complete, so that what follows holds for every class."""
    assert set(EXAMPLES) == set(errors.__all__)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_errors_survive_pickling(name):
    """An error crosses a process boundary with its class, message, hint and data."""
    error = EXAMPLES[name]
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made a line above
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("BackendBroken", ImportError),
        ("BackendNotInstalled", ImportError),
        ("InvalidConfig", ValueError),
        ("CheckpointNotFound", LookupError),
        ("CopyConflict", ValueError),
        ("CursorExpired", LookupError),
        ("CursorForeign", ValueError),
        ("CursorIncompatible", ValueError),
        ("CursorMalformed", ValueError),
        ("HistoryTooLarge", ValueError),
        ("InvalidExport", ValueError),
        ("InvalidFilter", ValueError),
        ("InvalidId", ValueError),
        ("InvalidLimit", ValueError),
        ("InvalidNode", ValueError),
        ("InvalidStatus", ValueError),
        ("InvalidUrl", ValueError),
        ("NodeNotFound", LookupError),
        ("NotSerializable", TypeError),
        ("RecordTooLarge", ValueError),
        ("RunNotFound", LookupError),
        ("SessionExists", ValueError),
        ("SessionNotFound", LookupError),
        ("StateNotFound", LookupError),
        ("StorageBusy", TimeoutError),
        ("TreeNotFound", LookupError),
        ("Unavailable", ConnectionError),
        ("UnknownEntryType", LookupError),
        ("UnknownScheme", ValueError),
    ],
)
def test_errors_are_what_a_caller_would_catch(name, builtin):
    """An error can be caught by the builtin a caller would think of."""
    assert isinstance(EXAMPLES[name], builtin)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_tree_in_the_docstring_is_the_tree(name):
    """The drawing in the module's docstring names every class."""
    assert f"{name} " in errors.__doc__ or f"{name}\n" in errors.__doc__
