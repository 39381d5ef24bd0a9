"""The Lua scripts, each one change or one consistent read."""

from hashlib import sha1
from importlib import resources

__all__ = [
    "APPEND",
    "DELETE",
    "FORGET",
    "HOLD",
    "READ",
    "RELEASE",
    "REWRITE",
    "WHOLE",
    "Script",
]


class Script:
    """A script and the digest by which a server that has it knows it."""

    def __init__(self, name: str) -> None:
        file = resources.files("durably_redis").joinpath(f"lua/{name}.lua")
        self.source = file.read_bytes()
        self.sha = sha1(self.source, usedforsecurity=False).hexdigest()


APPEND = Script("append")
DELETE = Script("delete")
FORGET = Script("forget")
HOLD = Script("hold")
READ = Script("read")
RELEASE = Script("release")
REWRITE = Script("rewrite")
WHOLE = Script("whole")
