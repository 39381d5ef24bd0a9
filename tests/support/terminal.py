"""Running a command whose stdin is a terminal, on which somebody answers."""

import os
import pty
import signal
import subprocess

from cli_runs import COMMAND, ENVIRONMENT


def run_asked(answer, *arguments):
    """Run a command to its end in a process of its own; type an answer once it asks.

    A signal is an answer, too.
    """
    ours, theirs = pty.openpty()
    command = [COMMAND, *map(str, arguments)]
    pipes = {"stdin": theirs, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        with subprocess.Popen(command, env=ENVIRONMENT, **pipes) as child:
            said = b""
            while b"?" not in said and (piece := os.read(child.stderr.fileno(), 1000)):
                said += piece
            if isinstance(answer, signal.Signals):
                child.send_signal(answer)
            else:
                os.write(ours, answer.encode())
            told, more = child.communicate(timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    complaints = (said + more).decode()
    return subprocess.CompletedProcess(command, child.returncode, told.decode(), complaints)
