"""The command line as a whole: help, usage, exit codes, others' commands, secrets, pipes."""

import subprocess
from importlib import metadata

import pytest

from builders import said
from cli_runs import COMMAND, ENVIRONMENT, install, run, store, url, words

COMMANDS = {
    "backends": "a row for each URL scheme",
    "compact": "Tidy up what earlier operations left behind",
    "copy": "whatever its backend",
    "demo": "Kill a worker half-way",
    "doctor": "can it be reached",
    "export": "as JSON Lines",
    "finish": "Record an abandoned run",
    "fork": "under a new id",
    "gc": "Tidy up what earlier operations left behind",
    "history": "without reading the rest of it",
    "import": "recorded conversations in OpenAI chat form",
    "ls": "how many runs and entries",
    "prune": "Remove old sessions, runs, threads, states or trees",
    "recall": "what the archive holds of a call",
    "rewind": "Remove all but the first entries",
    "rm": "for good",
    "show": "as a person reads it",
    "states": "List the keys that have a snapshot",
    "tree": "where it branched",
    "trim": "Shorten the long tool results",
}
WITH_JSON = sorted(COMMANDS.keys() - {"demo"})
HELLO = "def hello(name: str):\n    '''Greet somebody.'''\n    print('hello', name)\n"
SECRET = "hunter2"  # noqa: S105 - what must not be seen


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_each_command_explains_itself(command):
    """Help of a command exits with 0 and says what it does; so does the list of commands."""
    told = run(command, "--help")
    assert told.returncode == 0
    assert COMMANDS[command] in words(told.stdout)
    assert command in words(run("--help").stdout)


@pytest.mark.parametrize("command", WITH_JSON)
def test_help_documents_the_json(command):
    """Each command that prints JSON says in its help which fields there are."""
    assert "With --json," in words(run(command, "--help").stdout)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_wrong_usage_exits_with_2(command):
    """An unknown option is one line on stderr that says where help is, and exit code 2."""
    told = run(command, "--nope")
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith("durably: ")
    assert told.stderr.endswith(f"Try: durably {command} --help\n")
    assert told.stderr.count("\n") == 1


def test_an_unknown_command_is_wrong_usage():
    """A misspelt command exits with 2 and is told the right one."""
    told = run("lss")
    assert (told.returncode, told.stdout) == (2, "")
    assert "Did you mean 'ls'?" in told.stderr


def test_no_command_shows_help():
    """Without arguments there is help."""
    assert run().stdout == run("--help").stdout


def test_version():
    """--version says which durably this is."""
    assert run("--version").stdout == f"durably {metadata.version('durably')}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls", "nosuch://"),
        ("ls", "sqlite:////no/such/folder/x.db"),
        ("show", "memory://", "nobody"),
        ("doctor", "sqlite:////no/such/folder/x.db"),
        ("import", "/no/such/file.jsonl", "memory://"),
        ("import", "/", "memory://"),
        ("ls", "memory://", "--prefix", "\udcff"),
        ("ls", "a path"),
        ("ls", "${NO_SUCH_VARIABLE}"),
        ("history", "memory://", "nobody"),
        ("history", "memory://", "nobody", "--after", "no cursor"),
        ("rewind", "memory://", "nobody", "--keep-entries", "1", "--yes"),
        ("trim", "memory://", "nobody", "--yes"),
        ("recall", "memory://", "nobody", "c1"),
        ("rm", "memory://", "nobody", "--yes"),
        ("finish", "memory://", "nobody", "nowhere"),
        ("fork", "memory://", "nobody", "somebody"),
        ("copy", "memory://", "nosuch://"),
        ("export", "memory://", "/no/such/folder/x.jsonl"),
        ("export", "memory://", "/"),
        ("prune", "nosuch://", "--keep-last", "1"),
    ],
    ids=lambda arguments: ascii(" ".join(arguments)),
)
def test_an_error_of_ours_is_one_line(arguments):
    """What goes wrong is one line on stderr, without traceback, and exit code 1."""
    told = run(*arguments)
    assert told.returncode == 1
    assert told.stderr.startswith("durably: ")
    assert told.stderr.count("\n") == 1


def test_others_add_commands(tmp_path):
    """A function and a typer app of another distribution become commands."""
    app = "import typer\napp = typer.Typer()\n@app.command()\ndef runs():\n    print('pruned')\n"
    entries = {"hello": "other:hello", "sweep": "others:app"}
    install(tmp_path, "other", entries, other=HELLO, others=app)
    environment = {"PYTHONPATH": str(tmp_path)}
    assert run("hello", "you", environment=environment).stdout == "hello you\n"
    assert run("sweep", "runs", environment=environment).stdout == "pruned\n"
    assert "Greet somebody." in run("--help", environment=environment).stdout
    assert run("sweep", "--help", environment=environment).returncode == 0


def test_a_number_a_command_returns_is_its_exit_code(tmp_path):
    """Another's command may end with a code by returning it, or by raising typer.Exit."""
    source = "import typer\ndef one():\n    return 3\ndef two():\n    raise typer.Exit(4)\n"
    install(tmp_path, "other", {"one": "other:one", "two": "other:two"}, other=source)
    environment = {"PYTHONPATH": str(tmp_path)}
    assert run("one", environment=environment).returncode == 3
    assert run("two", environment=environment).returncode == 4


BROKEN = {
    "import": ("broken:hello", "raise RuntimeError('boom\\nbang')", "RuntimeError: boom bang"),
    "missing": ("nowhere:hello", "", "ModuleNotFoundError"),
    "attribute": ("broken:nothing", HELLO, "AttributeError"),
    "value": ("broken:hello", "hello = 7", "int is neither a function nor a typer.Typer"),
    "signature": ("broken:hello", "def hello(x: 'Nothing'): pass", "NameError"),
}


@pytest.mark.parametrize("fault", sorted(BROKEN))
def test_a_broken_command_harms_no_other(tmp_path, fault):
    """It is named with its distribution and what to do, where it is asked for or listed."""
    value, source, reason = BROKEN[fault]
    install(tmp_path, "bad-tool", {"bad": value}, broken=source)
    environment = {"PYTHONPATH": str(tmp_path)}
    asked, listed = run("bad", environment=environment), run("--help", environment=environment)
    assert (asked.returncode, listed.returncode) == (1, 0)
    for told in (asked, listed):
        assert told.stderr.startswith("durably: command 'bad' of bad-tool 1.5 cannot be used: ")
        assert reason in told.stderr
        assert told.stderr.endswith("Upgrade bad-tool, or uninstall it\n")
        assert told.stderr.count("\n") == 1
    assert "doctor" in listed.stdout
    others = run("ls", "memory://", environment=environment)
    assert (others.returncode, others.stderr) == (0, "")


def test_two_that_offer_one_command_are_a_conflict(tmp_path):
    """Neither wins: both are named, in words, and other commands work."""
    install(tmp_path, "one", {"hello": "one:hello", "ls": "one:hello"}, one=HELLO)
    install(tmp_path, "two", {"hello": "two:hello"}, two=HELLO)
    environment = {"PYTHONPATH": str(tmp_path)}
    told = run("hello", "you", environment=environment)
    assert (told.returncode, told.stdout) == (1, "")
    said_ = "durably: command 'hello' is offered by one, two. Uninstall all but one of them\n"
    assert told.stderr == said_
    assert "'ls' is offered by durably, one" in run("ls", environment=environment).stderr
    assert run("backends", environment=environment).returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls", f"nosuch://me:{SECRET}@host/0"),
        ("ls", f"sqlite://me:{SECRET}@host/0"),
        ("ls", f"sqlite:///x.db?password={SECRET}"),
        ("ls", f"sqlite:///x.db?pass%77ord={SECRET}"),
        ("ls", f"memory://:{SECRET}@host:port"),
        ("ls", "memory://", f"redis://me:{SECRET}@host/0"),
        ("ls", "memory://", "--limit", f"redis://:{SECRET}@host"),
        ("ls", "memory://", "--kind", f"redis://:pass/{SECRET}@host"),
        ("ls", f"--url=redis://:{SECRET}@host"),
        (f"redis://me:{SECRET}@host/0",),
        (f"redis://host/0?access_token={SECRET}",),
        ("import", f"redis://me:{SECRET}@host/0", "memory://"),
        ("doctor", f"nosuch://me:{SECRET}@host/0", "--json"),
        ("show", f"nosuch://me:{SECRET}@host/0", "s"),
        ("copy", "memory://", f"nosuch://me:{SECRET}@host/0"),
        ("export", f"nosuch://me:{SECRET}@host/0", "-"),
        ("prune", "memory://", "--older-than", f"redis://:{SECRET}@host"),
        ("history", "memory://", "s", "--limit", f"redis://:{SECRET}@host"),
        ("rm", f"nosuch://me:{SECRET}@host/0", "s", "--yes"),
    ],
    ids=" ".join,
)
def test_no_secret_of_a_url_is_printed(arguments):
    """A refusal, whoever words it, repeats no password."""
    told = run(*arguments)
    assert told.returncode in (1, 2)
    assert told.stderr
    assert SECRET not in told.stdout + told.stderr


def test_an_environment_variable_stands_in_a_url(tmp_path):
    """A reference in a URL is resolved, so that a secret stays off the command line."""
    path = tmp_path / "a.db"
    store(path, ("u1", said("a")))
    environment = {"PLACE": url(path), "NAME": "a"}
    assert "u1" in run("ls", "${PLACE}", environment=environment).stdout
    assert "u1" in run("ls", url(tmp_path / "${NAME}.db"), environment=environment).stdout


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
def test_a_reader_that_leaves_early_ends_it_quietly(tmp_path, more):
    """Where the pipe is closed after a line, nothing is said and the exit code is 0."""
    path = tmp_path / "a.db"
    store(path, *((f"session-{number:05}", said("a")) for number in range(3000)))
    command = [COMMAND, "ls", url(path), *more]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as child:
        assert child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(60) == 0


def test_a_stream_of_a_small_charset_is_no_error(tmp_path):
    """What stdout's encoding lacks is written as an escape."""
    path = tmp_path / "a.db"
    store(path, ("u\u4e2d", said("\u4e2d")))
    environment = {"PYTHONIOENCODING": "latin-1"}
    assert "u\\u4e2d" in run("ls", url(path), environment=environment).stdout
