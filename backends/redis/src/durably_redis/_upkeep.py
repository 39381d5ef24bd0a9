"""What a server keeps and what it may lose, as it answers itself."""

from typing import Any

from redis import exceptions

__all__ = ["describe"]

_ASKED = ("appendonly", "appendfsync", "save", "maxmemory-policy")
_FORBIDDEN = "unknown: the server does not tell"


async def describe(client: Any) -> dict[str, str]:  # noqa: ANN401 - a client of redis-py
    """Return the engine, the settings that decide what is kept, and what they mean."""
    facts = {"engine": await _engine(client)}
    settings = {name: await _setting(client, name) for name in _ASKED}
    return {**facts, **settings, "survives": _meaning(settings)}


async def _engine(client: Any) -> str:  # noqa: ANN401
    try:
        info = {_text(name): _text(value) for name, value in (await client.info("server")).items()}
    except exceptions.ResponseError:
        return _FORBIDDEN
    name = "Valkey" if "valkey_version" in info else "Redis"
    return f"{name} {info.get('valkey_version') or info.get('redis_version', '')}".strip()


async def _setting(client: Any, name: str) -> str:  # noqa: ANN401
    try:
        answer = await client.config_get(name)
    except exceptions.ResponseError:
        return _FORBIDDEN
    return next((_text(value) for value in answer.values()), _FORBIDDEN)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _meaning(settings: dict[str, str]) -> str:
    """Say in words what an acknowledged change survives."""
    if _FORBIDDEN in settings.values():
        return _FORBIDDEN
    if settings["maxmemory-policy"].startswith("allkeys"):
        return "nothing for sure: the server may evict any log when memory runs short"
    if settings["appendonly"] == "yes":
        return {
            "always": "a crash of the server, and power loss",
            "everysec": "a crash of the server; power loss may take the last second",
        }.get(settings["appendfsync"], "a crash of the server; power loss may take more")
    if settings["save"]:
        return "a crash of the server up to its last snapshot: minutes may be lost"
    return "nothing: the server keeps its data in memory alone"
