"""Who may import whom, and what the source must look like."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = {
    "durably": ROOT / "core/src",
    "durably_conformance": ROOT / "conformance/src",
    "durably_redis": ROOT / "backends/redis/src",
    "durably_runner": ROOT / "runner/src",
    "durably_s3": ROOT / "backends/s3/src",
    "durably_sqlite": ROOT / "backends/sqlite/src",
}
ALLOWED = {
    "durably": {"durably", "msgspec", "pluggy", "pydantic", "yaml"},
    "durably_conformance": {"durably", "durably_conformance", "msgspec", "typing_extensions"},
    "durably_redis": {"durably", "durably_redis", "msgspec", "redis", "typing_extensions"},
    "durably_runner": {
        "durably",
        "durably_runner",
        "msgspec",
        "pydantic",
        "pydantic_core",
        "typing_extensions",
    },
    "durably_s3": {"boto3", "botocore", "durably", "durably_s3", "msgspec", "typing_extensions"},
    "durably_sqlite": {"aiosqlite", "durably", "durably_sqlite", "msgspec", "typing_extensions"},
}
CLI = {"rich", "typer"}
CLI_MODULES = {
    "arguments.py",
    "asking.py",
    "commands.py",
    "copying.py",
    "doctor.py",
    "drawing.py",
    "exporting.py",
    "finishing.py",
    "importing.py",
    "listing.py",
    "output.py",
    "paging.py",
    "progress.py",
    "pruning.py",
    "registry.py",
    "removing.py",
    "rewinding.py",
    "running.py",
    "show.py",
    "showing.py",
    "snapshots.py",
    "trimming.py",
}
MODULES = sorted(
    (package, path) for package, root in SOURCES.items() for path in root.rglob("*.py")
)


def imports(path):
    """Return every module a file imports, wherever the statement stands."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(("package", "path"), MODULES, ids=lambda value: getattr(value, "name", ""))
def test_arrows(package, path):
    """A module imports the standard library and what its distribution declares, nothing else."""
    allowed = ALLOWED[package] | (CLI if path.name in CLI_MODULES else set())
    if path.name == "_typing.py":
        allowed = allowed | {"typing_extensions"}
    if path.name == "pytest.py":
        allowed = allowed | {"pytest"}
    found = {name.split(".")[0] for name in imports(path)}
    assert found <= allowed | set(sys.stdlib_module_names)


@pytest.mark.parametrize(
    "path", [path for package, path in MODULES if package != "durably"], ids=lambda path: path.name
)
def test_backends_use_public_names(path):
    """A backend, and the suite, import no private module and no private name of core."""
    private = [
        name
        for name in imports(path)
        if name.split(".")[0] == "durably" and any(part[0] == "_" for part in name.split("."))
    ]
    assert private == []


def test_core_names_no_backend_but_by_scheme():
    """Core knows a backend by its entry point alone."""
    core = SOURCES["durably"]
    naming = {
        path.name
        for path in core.rglob("*.py")
        if re.search("durably_(redis|s3|sqlite)", path.read_text())
    }
    assert naming == set()


def test_import_is_light():
    """Importing durably imports no driver, no plugin machinery and no command line."""
    heavy = (
        "aiosqlite",
        "boto3",
        "botocore",
        "durably_redis",
        "durably_s3",
        "durably_sqlite",
        "pluggy",
        "pydantic",
        "redis",
        "rich",
        "sqlite3",
        "typer",
    )
    code = f"import sys, durably; print([m for m in {heavy!r} if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_nothing_is_unpickled_or_imported_by_name():
    """No source uses pickle, eval or exec; plugins and the suite's parts are imported by name.

    So is what a stored value names, by a backend that is wrong on purpose.
    """
    for _, path in MODULES:
        used = set(imports(path))
        assert not used & {"pickle", "shelve", "dill"}, path
        assert "marshal.load" not in path.read_text("utf-8"), path
        calls = {
            node.func.id
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not calls & {"eval", "exec", "__import__"}, path
        by_name = path.name in {"collecting.py", "mutants_decoding.py", "plugins.py"}
        assert "import_module" not in path.read_text("utf-8") or by_name, path


def test_the_suite_neither_asserts_nor_skips():
    """No source of the suite has an assert, which -O removes, or names pytest's ways to skip.

    Its front end for pytest does: it passes on what the engine decided.
    """
    front = SOURCES["durably_conformance"] / "durably_conformance" / "pytest.py"
    for path in sorted({*SOURCES["durably_conformance"].rglob("*.py")} - {front}):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            assert not isinstance(node, ast.Assert), path
            named = getattr(node, "attr", getattr(node, "id", ""))
            assert named not in {"skip", "skipif", "xfail", "importorskip"}, path


def test_sizes():
    """A module stays near 300 lines, those that are mostly prose aside, a function below 45."""
    for _, path in MODULES:
        text = path.read_text("utf-8")
        prose = path.name in {"contracts.py", "errors.py", "logstore.py", "storage.py"}
        assert text.count("\n") <= (560 if prose else 320), path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = node.end_lineno - node.body[0].lineno + 1
                assert length <= 45, f"{path}: {node.name} has {length} lines"
