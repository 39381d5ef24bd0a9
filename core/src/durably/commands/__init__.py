"""The commands of ``durably``; other distributions add theirs.

A distribution that offers a command declares an entry point in the group ``durably.commands``.
Its name is the command's, its value a function typer can take, or a ``typer.Typer`` app with
commands of its own::

    [project.entry-points."durably.commands"]
    audit = "durably_audit:audit"

The commands here are found the same way. Only the command that was asked for is imported, so
that a broken one harms no other; two distributions that offer one are a conflict in words.

Exit codes: 0 when all went well, 1 for an error of ours, for what was only done in part and for a
question that was answered with no, 2 for wrong usage, 130 for an interruption. A command ends with
another by raising ``typer.Exit``. An error of ours is one line on stderr; no password is printed.
A reader that closes the pipe early, as ``head`` does, ends a command quietly with 0.
"""

__all__ = ["GROUP"]

GROUP = "durably.commands"
"""The entry-point group."""
