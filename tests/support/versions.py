"""Snapshots as each version of an application stored them, and the steps from one to the next."""

from durably import InputEntry, Migrators, StateSnapshot

STORED = {
    "unversioned": (
        b'{"messages":[{"type":"input","role":"human","content":"hi"}],'
        b'"snapshot":{"turn":2,"extra":{"who":"ada"}}}'
    ),
    "version 1": (
        b'{"messages":[{"type":"input","role":"human","content":"hi"}],'
        b'"snapshot":{"version":1,"turn":2,"extra":{"who":"ada"}}}'
    ),
    "version 2": (
        b'{"messages":[{"type":"input","role":"user","content":"hi"}],'
        b'"snapshot":{"version":2,"turn":2,"extra":{"who":"ada"}}}'
    ),
    "version 3": (
        b'{"messages":[{"type":"input","role":"user","content":"hi"}],'
        b'"snapshot":{"version":3,"turn":2,"extra":{"user":{"name":"ada"}}}}'
    ),
}
"""A snapshot as each version of an application stored it."""

LATER = (
    b'{"messages":[{"type":"input","role":"user","content":"hi","mood":"glad"}],'
    b'"snapshot":{"version":4,"turn":2,"plan":["rest"],"extra":{"user":{"name":"ada"}}}}'
)
"""What a version to come stored, with fields that nobody knows yet."""

NOW = StateSnapshot(
    version=3,
    turn=2,
    messages=[InputEntry(role="user", content="hi")],
    extra={"user": {"name": "ada"}},
)
"""What each of them says, in version 3."""


def speak_plainly(old):
    for message in old["messages"]:
        message["role"] = "user"
    return old


def name_user(old):
    return {**old, "version": 3, "extra": {"user": {"name": old["extra"]["who"]}}}


MIGRATORS = Migrators(version=3, steps={1: speak_plainly, 2: name_user})
