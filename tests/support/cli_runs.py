"""Running the ``durably`` command, and what the tests of it have in common."""

import asyncio
import contextlib
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import durably
from durably.commands import running

COMMAND = str(Path(sys.executable).with_name("durably"))
ENVIRONMENT = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}


def run(*arguments, environment=None, **options):
    """Run a command to its end: in this process, unless it needs one of its own."""
    if environment is None and not options and not _loop_is_running():
        return _run_here([*map(str, arguments)])
    return run_apart(*arguments, environment=environment, **options)


def _loop_is_running():
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_here(arguments):
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        code = running.run(arguments)
    for stream in streams:
        stream.flush()
    told, complained = (stream.buffer.getvalue().decode() for stream in streams)
    return subprocess.CompletedProcess(arguments, code, told, complained)


def run_apart(*arguments, environment=None, **options):
    """Run a command to its end in a process of its own."""
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**ENVIRONMENT, **(environment or {})},
        **options,
    )


def objects(told):
    """Return the JSON objects a command printed, one a line."""
    return [json.loads(line) for line in told.stdout.splitlines()]


def words(text):
    """Return a help text without its frame and its line breaks."""
    return " ".join("".join(" " if one in "│╭╮╰╯─" else one for one in text).split())


def url(path, **options):
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return f"sqlite:///{path}{'?' if query else ''}{query}"


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def called(call_id, name, arguments):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def conversation(id_, *asked):
    """Return a conversation with a run for each question."""
    said = [message("system", "You help.")]
    for text in asked:
        said += [message("user", text), message("assistant", f"You said {text}")]
    return {"id": id_, "messages": said}


def write_lines(path, *lines):
    """Write a file of lines; values become JSON, text stays, a .gz is compressed."""
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    data = "".join(f"{line}\n" for line in text).encode("utf-8", "surrogateescape")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def sessions(path):
    """Return every session of a file: its segments, by its id."""

    async def read():
        async with durably.open(url(path)) as storage:
            page = await storage.log_store.list("session", limit=1000)
            assert page.next is None
            return {one.id: await storage.sessions.segments(one.id) for one in page.items}

    return asyncio.run(read())


def store(path, *sessions_):
    """Store sessions, each an id and its entries, one run each."""

    async def write():
        async with durably.open(url(path)) as storage:
            for id_, entries in sessions_:
                await storage.sessions.append(id_, entries, run_id="r1")

    asyncio.run(write())


def install(folder, name, entries, *, group="durably.commands", **modules):
    """Put a distribution into a folder that is to be on the path of a child process."""
    info = folder / f"{name.replace('-', '_')}-1.5.dist-info"
    info.mkdir(parents=True)
    lines = [f"{entry} = {value}" for entry, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source)
