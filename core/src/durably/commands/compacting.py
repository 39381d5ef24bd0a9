"""``durably compact``, which is ``durably gc`` too: give back the space that deletions left."""

import asyncio

from durably.commands.arguments import AsJson, Url, open_url, read_url
from durably.commands.output import print_facts, print_json

__all__ = ["compact"]


def compact(url: Url, *, as_json: AsJson = False) -> None:
    """Tidy up what earlier operations left behind, such as the space of what was deleted.

    What that is depends on the backend; many have nothing to do. SQLite's rewrites the file
    without its free pages; S3's collects objects that nothing names any more, in the namespace of
    the URL. It loses nothing and may be repeated, or stopped and run again. While it rewrites a
    storage others may have to wait. Its two names, compact and gc, are one command.

    With --json, it is one object: url (without secrets), before and after, each what the engine
    says of itself {name: text}.
    """
    before, after = asyncio.run(_compact(url))
    place = str(read_url(url))
    if as_json:
        print_json({"url": place, "before": before, "after": after})
    else:
        changed = {
            name: f"{before.get(name, 'unknown')}, before; {now}, now"
            for name, now in after.items()
            if before.get(name) != now
        }
        print_facts({"url": place, **(changed or {"changed": "nothing"})})


async def _compact(url: str) -> tuple[dict[str, str], dict[str, str]]:
    async with open_url(url) as storage:
        before = await storage.log_store.describe()
        await storage.log_store.maintain()
        return before, await storage.log_store.describe()
