"""What a server keeps and what it may lose, as it answers itself."""

from collections.abc import Mapping, Sequence
from typing import Any

from redis import exceptions

from durably_redis._calls import Call, plain
from durably_redis._server import Server

__all__ = ["describe"]

_ASKED = ("appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy")
_UNKNOWN = "unknown: the server does not tell"
_NOTHING = "nothing: the server keeps its data in memory alone"
_MEANINGS = (
    _UNKNOWN,
    _NOTHING,
    "nothing for sure: the server may evict any log when memory runs short",
    "a crash of the server up to its last snapshot: minutes may be lost",
    "a crash of the server, which may take the last seconds; power loss may take more",
    "a crash of the server or power loss, which may take the last two seconds",
    "a crash of the server, and power loss",
)
"""From the worst to the best."""


async def describe(server: Server) -> dict[str, str]:
    """Return the engine, the settings that decide what is kept, and what they mean.

    Of the primaries of a Cluster it tells whatever differs, and what the worst of them keeps.
    """
    nodes: Sequence[Any] = [None]
    if hasattr(server.client, "get_primaries"):
        await server.send(plain("GET", b"durably:layout"))
        nodes = server.client.get_primaries()
    answers = await server.ask(*(call for node in nodes for call in _questions(node)))
    width = len(_ASKED) + 1
    told = [_facts(answers[start : start + width]) for start in range(0, len(answers), width)]
    facts = {name: ", ".join(sorted({one[name] for one in told})) for name in told[0]}
    engine = facts.pop("engine")
    cluster = "" if nodes == [None] else f", a Cluster of {len(nodes)} primaries"
    survives = min((_meaning(one) for one in told), key=_MEANINGS.index)
    return {"engine": engine + cluster, **facts, "survives": survives}


def _questions(node: Any) -> Sequence[Call]:  # noqa: ANN401 - a node of redis-py's
    settings = (plain("CONFIG", "GET", name, node=node) for name in _ASKED)
    return [plain("INFO", "server", node=node), *settings]


def _facts(answers: Sequence[Any]) -> dict[str, str]:
    """Return what one server told."""
    info, *settings = answers
    return {
        "engine": _UNKNOWN if isinstance(info, Exception) else _engine(info),
        **{name: _setting(answer) for name, answer in zip(_ASKED, settings, strict=True)},
    }


def _engine(info: Any) -> str:  # noqa: ANN401 - text, or what redis-py made of it
    if isinstance(info, (bytes, str)):
        info = dict(line.split(":", 1) for line in _text(info).splitlines() if ":" in line)
    found = {_text(name): _text(value) for name, value in info.items()}
    name = "Valkey" if "valkey_version" in found else "Redis"
    return f"{name} {found.get('valkey_version') or found.get('redis_version', '')}".strip()


def _setting(answer: Any) -> str:  # noqa: ANN401 - pairs, or what redis-py made of them
    if isinstance(answer, exceptions.ResponseError):
        return _UNKNOWN
    values = answer.values() if hasattr(answer, "values") else answer[1::2]
    return next(map(_text, values), _UNKNOWN)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _meaning(settings: Mapping[str, str]) -> str:
    """Say in words what an acknowledged change survives."""
    unknown, nothing, evicted, snapshot, rarely, everysec, always = _MEANINGS
    if _UNKNOWN in settings.values():
        return unknown
    if settings["maxmemory-policy"].startswith("allkeys") and settings["maxmemory"] != "0":
        return evicted
    if settings["appendonly"] == "yes":
        return {"always": always, "everysec": everysec}.get(settings["appendfsync"], rarely)
    return snapshot if settings["save"] else nothing
