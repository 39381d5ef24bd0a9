"""Log stores that list otherwise than they should."""

from typing import Any

from typing_extensions import override

from durably import LogStore, Page
from durably.logstore import LogInfo
from durably_conformance.building import log
from durably_conformance.logs import keyed
from durably_conformance.selftest.sparing import ScopedMutation
from durably_conformance.selftest.tracking import Tracked

__all__ = ["AlteredListing", "Asked", "made"]


class Asked:
    """What a listing was asked for."""

    def __init__(self, kind: str, **fields: Any) -> None:  # noqa: ANN401 - list's own
        self.kind = kind
        self.prefix: str = fields["prefix"]
        self.after: str = fields["after"]
        self.limit: int = fields["limit"]
        self.with_state: bool = fields["with_state"]

    @property
    def name(self) -> tuple[str, str, str, int, bool]:
        """What tells one listing from another."""
        return self.kind, self.prefix, self.after, self.limit, self.with_state


class AlteredListing(ScopedMutation):
    """Lists otherwise than it should: what ``look`` gives."""

    async def look(self, asked: Asked) -> Page[LogInfo]:
        """Return a page."""
        return await self.ask(asked)

    async def ask(self, asked: Asked, **other: Any) -> Page[LogInfo]:  # noqa: ANN401 - list's own
        """Return the page that the inner store gives."""
        fields = {name: getattr(asked, name) for name in ("prefix", "after", "limit", "with_state")}
        return await self.inner.list(other.pop("kind", asked.kind), **{**fields, **other})

    async def everything(self, asked: Asked) -> list[LogInfo]:
        """Return a row for every log of the kind."""
        rows, after = list[LogInfo](), ""
        while True:
            page = await self.ask(asked, prefix="", after=after, limit=1000)
            rows += page.items
            if page.next is None:
                return rows
            after = page.next

    @override
    async def list(
        self,
        kind: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int = 100,
        with_state: bool = False,
    ) -> Page[LogInfo]:
        return await self.look(
            Asked(kind, prefix=prefix, after=after, limit=limit, with_state=with_state)
        )


async def made(place: Tracked, *names: str) -> LogStore:
    """Make logs and return the store."""
    store = (await place.connect()).log_store
    for name in names:
        await store.append(log(name), keyed("a", head=b"h"))
    return store
