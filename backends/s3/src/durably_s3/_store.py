"""``S3LogStore``: the log store on S3 and whatever speaks its language."""

import asyncio
import copy
from typing import Any

from typing_extensions import override

from durably import Capabilities, Durability, LogStore, StorageClosed, Writers, WrongLoop
from durably.checks import check_namespace
from durably.logstore import ALL, Applied, Batch, Log, LogId, LogInfo, Page, Range, Rewrite
from durably_s3._area import Area, Memory
from durably_s3._bucket import Bucket
from durably_s3._changing import Answer
from durably_s3._collecting import collect
from durably_s3._keys import Keys
from durably_s3._lanes import Deletion, Lane
from durably_s3._layout import Layout, check_layout, mark_layout
from durably_s3._listing import Wanted, list_logs
from durably_s3._patience import Patience
from durably_s3._reading import read
from durably_s3._settings import Settings

__all__ = ["CAPABILITIES", "S3LogStore"]

CAPABILITIES = Capabilities(durability=Durability.POWER_LOSS, writers=Writers.MANY_HOSTS)
"""What S3 acknowledges it keeps; a server of your own keeps what its disks do."""


class _Opened:
    """A bucket as a store and its scoped views use it, until the store is closed."""

    def __init__(self, bucket: Bucket, settings: Settings) -> None:
        self.bucket = bucket
        self.memory = Memory()
        self._keys = Keys(root=f"{settings.prefix}/" if settings.prefix else "")
        self._settings = settings
        self._lanes: dict[str, Lane] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looking: asyncio.Lock | None = None
        self._looked = False
        self._layout: Layout | None = None
        self._collected = 0
        self._closed = False

    def area(self, namespace: str) -> Area:
        """Return what reads the logs of a namespace."""
        keys = Keys(root=self._keys.root, namespace=namespace)
        return Area(self.bucket, keys, self.memory)

    def patience(self) -> Patience:
        """Return the time of an operation that begins."""
        return Patience(self._settings.timeout)

    async def get_ready(self, *, changing: bool = False, creating: bool = False) -> None:
        """Look at the layout, unless that was done, and say which it is before it is needed.

        Where nothing was yet, whoever is ``changing`` what lies there looks again.
        """
        self._check_open()
        if self._layout is not None or (self._looked and not changing):
            return
        if self._looking is None:
            self._looking = asyncio.Lock()
        async with self._looking:
            if self._layout is None:
                await self._look(creating=creating)
        self._check_open()

    async def _look(self, *, creating: bool) -> None:
        place = str(self._settings)
        self._layout = await check_layout(self.bucket, self._keys, place, self.patience())
        self._looked = True
        if creating and self._layout is None:
            self._layout = await mark_layout(self.bucket, self._keys, place, self.patience())
        if self._layout is not None:
            self.memory.can_delete = self._layout.can_delete
            self.memory.is_ordered = self._layout.is_ordered

    def _check_open(self) -> None:
        if self._closed:
            raise StorageClosed
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise WrongLoop

    async def send(self, namespace: str, log: LogId, change: Batch | Rewrite | Deletion) -> Answer:
        """Carry out a change in the lane of its log."""
        await self.get_ready(changing=True, creating=not isinstance(change, Deletion))
        area = self.area(namespace)
        key = area.keys.tip(log)
        lane = self._lanes.get(key)
        if lane is None:
            settings = self._settings
            compress = settings.compression != "none"
            lane = self._lanes[key] = Lane(area, log, seconds=settings.timeout, compress=compress)
        return await lane.send(change, lambda: self._leave(key))

    def _leave(self, key: str) -> None:
        """Forget a lane in which nothing is left."""
        if key in self._lanes and self._lanes[key].task is None:
            del self._lanes[key]

    def describe(self) -> dict[str, str]:
        """Return where the logs lie and what was found of the server."""
        settings, layout = self._settings, self._layout
        unknown = "not known before the first change"
        return {
            "engine": f"S3 at {settings.endpoint_url or 'the endpoint boto3 finds'}",
            "place": str(settings),
            "compression": settings.compression,
            "conditional writes": "heeded" if layout else unknown,
            "conditional deletions": unknown
            if layout is None
            else ("heeded" if layout.can_delete else "ignored, so that 16 bytes stay of each log"),
            "garbage": f"{self._collected} collected since this was opened",
            "survives": "a crash of the process, and power loss, as far as the server keeps what"
            " it acknowledges",
        }

    async def collect(self, namespace: str) -> None:
        """Remove garbage."""
        await self.get_ready(changing=True)
        settings = self._settings
        self._collected += await collect(self.area(namespace), settings.grace, settings.timeout)

    async def aclose(self) -> None:
        """Let what was sent be carried out, and release the bucket."""
        self._closed = True
        try:
            if self._loop in {None, asyncio.get_running_loop()}:
                tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
                if tasks:
                    await asyncio.wait(tasks)
        finally:  # also where who closes waits no longer
            await self.bucket.aclose()


class S3LogStore(LogStore):
    """Logs in one bucket of S3, or of a server that speaks its language and heeds conditions.

    Without ``client`` it makes one as ``settings`` say and closes it; a client of yours, from
    ``boto3.client("s3")``, is used as it is and never closed. It connects with its first
    operation.

    Raises:
        InvalidId: ``namespace`` is neither empty nor legal as an id.
    """

    capabilities = CAPABILITIES

    def __init__(
        self,
        settings: Settings,
        *,
        client: Any = None,  # noqa: ANN401 - boto3's has no type
        bucket: Bucket | None = None,
        namespace: str = "",
    ) -> None:
        check_namespace(namespace)
        if bucket is None:
            from durably_s3._boto import BotoBucket  # noqa: PLC0415 - boto3 takes long to import

            bucket = BotoBucket(settings, client)
        self._opened = _Opened(bucket, settings)
        self._namespace = namespace
        self._owner = True

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        return _applied(await self._opened.send(self._namespace, log, batch))

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        await self._opened.get_ready()
        return await read(self._area(), log, span, self._opened.patience())

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        return _applied(await self._opened.send(self._namespace, log, change))

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        deletion = Deletion(expected_revision)
        return bool(await self._opened.send(self._namespace, log, deletion))

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
        await self._opened.get_ready()
        wanted = Wanted(kind=kind, prefix=prefix, after=after, limit=limit, with_state=with_state)
        return await list_logs(self._area(), wanted, self._opened.patience())

    @override
    def scoped(self, namespace: str) -> "S3LogStore":
        check_namespace(namespace)
        view = copy.copy(self)
        view._namespace = namespace  # noqa: SLF001 - one of us
        view._owner = False  # noqa: SLF001 - one of us
        return view

    @override
    async def maintain(self) -> None:
        await self._opened.collect(self._namespace)

    @override
    async def describe(self) -> dict[str, str]:
        await self._opened.get_ready()
        return self._opened.describe()

    @override
    async def aclose(self) -> None:
        if self._owner:
            await self._opened.aclose()

    def _area(self) -> Area:
        return self._opened.area(self._namespace)


def _applied(answer: Answer) -> Applied:
    if not isinstance(answer, Applied):
        raise TypeError(f"a change was told {answer!r}")
    return answer
