"""boto3, whose surface has no types: the one module that touches it."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, TypeVar, cast

import boto3  # type: ignore[import-untyped]  # it has no types
import botocore.session  # type: ignore[import-untyped]  # as above
from botocore.config import Config  # type: ignore[import-untyped]  # it has no types
from botocore.exceptions import IncompleteReadError  # type: ignore[import-untyped]  # as above
from typing_extensions import override

from durably import InvalidUrl, StorageClosed, Unavailable
from durably_s3._bucket import Bucket, Found, Listing, Lost, Named
from durably_s3._errors import DRIVER_ERRORS, code_of, is_lost, is_repeated, translate
from durably_s3._settings import Settings

__all__ = ["BotoBucket"]

T = TypeVar("T")

ATTEMPTS = 2
"""Of the library itself, for one request; the patience of an operation comes on top."""

LONGEST_CONNECT = 5.0
"""Seconds."""

DEFAULT_REGION = "us-east-1"
_NO_KEY = "NoSuchKey"
"""A 404 without it may be a proxy's: a server that is away must not look like an absent log."""

_ABSENT = {"404", _NO_KEY, "NotFound"}
_UNCHANGED = {"304", "NotModified"}
_BEYOND_END = {"416", "InvalidRange"}


class BotoBucket(Bucket):
    """A bucket through boto3 on threads of its own, as many as there may be requests at once.

    A ``client`` of the caller's is used as it is, and not closed.
    """

    def __init__(self, settings: Settings, client: Any = None) -> None:  # noqa: ANN401 - boto3's
        self._settings = settings
        self._given = client is not None
        self._client = client
        self._closed = False
        self._making = threading.Lock()
        self._pool = ThreadPoolExecutor(settings.workers, thread_name_prefix="durably-s3")

    @override
    async def get(
        self, key: str, *, span: tuple[int, int] | None = None, unless: str | None = None
    ) -> Found | None:
        options = {} if span is None else {"Range": f"bytes={span[0]}-{span[1] - 1}"}
        if unless is not None:
            options["IfNoneMatch"] = _quoted(unless)
        return await self._call(lambda client: self._get(client, key, unless, options))

    def _get(self, client: Any, key: str, unless: str | None, options: Any) -> Found | None:  # noqa: ANN401 - as above
        try:
            answer = client.get_object(Bucket=self._settings.bucket, Key=key, **options)
            return Found(answer["Body"].read(), _etag(answer))
        except DRIVER_ERRORS as error:
            code = code_of(error)
            if code == _NO_KEY:
                return None
            if code in _UNCHANGED and unless is not None:
                return Found(b"", unless)
            if code in _BEYOND_END:  # the object is empty
                return Found(b"", "")
            raise

    @override
    async def put(
        self,
        key: str,
        data: bytes,
        *,
        match: str | None = None,
        absent: bool = False,
        sealed: bool = False,
    ) -> str:
        options: dict[str, Any] = {}
        if match is not None:
            options["IfMatch"] = _quoted(match)
        if absent:
            options["IfNoneMatch"] = "*"
        if sealed and self._settings.storage_class:
            options["StorageClass"] = self._settings.storage_class
        if self._settings.encryption:
            options["ServerSideEncryption"] = self._settings.encryption
        if self._settings.kms_key_id:
            options["SSEKMSKeyId"] = self._settings.kms_key_id
        return await self._call(lambda client: self._put(client, key, data, options))

    def _put(self, client: Any, key: str, data: bytes, options: Any) -> str:  # noqa: ANN401 - as above
        try:
            answer = client.put_object(
                Bucket=self._settings.bucket,
                Key=key,
                Body=data,
                ContentType="application/octet-stream",
                **options,
            )
        except DRIVER_ERRORS as error:
            if is_lost(error) or ("IfMatch" in options and code_of(error) in _ABSENT):
                raise Lost(is_sure=not is_repeated(error)) from error
            raise
        return _etag(answer)

    @override
    async def delete(self, key: str, *, match: str) -> None:
        await self._call(lambda client: self._delete(client, key, match))

    def _delete(self, client: Any, key: str, match: str) -> None:  # noqa: ANN401 - as above
        try:
            client.delete_object(Bucket=self._settings.bucket, Key=key, IfMatch=_quoted(match))
        except DRIVER_ERRORS as error:
            if is_lost(error) or code_of(error) in _ABSENT:
                raise Lost from error
            raise

    @override
    async def delete_all(self, keys: Sequence[str]) -> None:
        await self._call(lambda client: self._delete_all(client, keys))

    def _delete_all(self, client: Any, keys: Sequence[str]) -> None:  # noqa: ANN401 - as above
        """Remove many at once; one by one what the server does not remove like that."""
        bucket = self._settings.bucket
        listed = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        try:
            if len(keys) > 1:
                answer = client.delete_objects(Bucket=bucket, Delete=listed)
                keys = [one["Key"] for one in answer.get("Errors", ())]
        except DRIVER_ERRORS as error:
            if code_of(error) == "":
                raise
        for key in keys:
            client.delete_object(Bucket=bucket, Key=key)

    @override
    async def list(
        self, prefix: str, *, after: str = "", token: str | None = None, limit: int = 1000
    ) -> Listing:
        start = {"StartAfter": after} if after else {}
        if token is not None:
            start["ContinuationToken"] = token
        return await self._call(lambda client: self._list(client, prefix, limit, start))

    def _list(self, client: Any, prefix: str, limit: int, start: Any) -> Listing:  # noqa: ANN401 - as above
        answer = client.list_objects_v2(
            Bucket=self._settings.bucket, Prefix=prefix, MaxKeys=limit, **start
        )
        if answer.keys() == {"ResponseMetadata"}:  # boto3 takes one cut off for an empty one
            raise IncompleteReadError(actual_bytes=0, expected_bytes="some")
        objects = tuple(map(_named, answer.get("Contents", ())))
        token = answer.get("NextContinuationToken") if answer.get("IsTruncated") else None
        return Listing(objects=objects, token=token, now=_date(answer))

    @override
    async def work(self, task: Callable[[], T]) -> T:
        if self._closed:
            raise StorageClosed
        return await asyncio.get_running_loop().run_in_executor(self._pool, task)

    @override
    async def aclose(self) -> None:
        self._closed = True
        self._pool.shutdown(wait=False)
        if self._client is not None and not self._given:
            self._client.close()

    async def _call(self, request: Callable[[Any], T]) -> T:
        """Send a request from a thread of the pool, and translate what goes wrong."""
        try:
            return await self.work(lambda: request(self._connected()))
        except DRIVER_ERRORS as error:
            raise translate(error, str(self._settings)) from error
        except KeyError as missing:
            raise Unavailable(
                f"{self._settings} does not answer as S3 does: there is no {missing}",
                hint="Check ?endpoint_url=",
            ) from None

    def _connected(self) -> Any:  # noqa: ANN401 - as above
        """Return the client; making one takes a while, and must not be done twice at once."""
        with self._making:
            if self._client is None:
                self._client = _make(self._settings)
            return self._client


@cache
def _models() -> Any:  # noqa: ANN401 - as above
    """Return what reads the descriptions of services: a tenth of a second, once in a process."""
    return cast("Any", botocore.session).get_session().get_component("data_loader")


def _make(settings: Settings) -> Any:  # noqa: ANN401 - as above
    underlying: Any = cast("Any", botocore.session).get_session()
    underlying.register_component("data_loader", _models())
    session: Any = cast("Any", boto3).Session(
        botocore_session=underlying, profile_name=settings.profile
    )
    config = Config(
        connect_timeout=min(LONGEST_CONNECT, settings.timeout / 2),
        read_timeout=settings.timeout / 3,
        max_pool_connections=settings.workers,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        s3={"addressing_style": settings.addressing},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        user_agent_extra="durably",
    )
    try:
        return session.client(
            "s3",
            region_name=settings.region or session.region_name or DEFAULT_REGION,
            endpoint_url=settings.endpoint_url,
            config=config,
        )
    except ValueError as error:
        if isinstance(error, DRIVER_ERRORS):
            raise
        raise InvalidUrl("endpoint_url is no address that boto3 can use") from None


def _quoted(etag: str) -> str:
    return f'"{etag}"'


def _etag(answer: Any) -> str:  # noqa: ANN401 - as above
    return str(answer["ETag"]).removeprefix("W/").strip('"')


def _named(row: Any) -> Named:  # noqa: ANN401 - as above
    modified: datetime = row["LastModified"]
    return Named(key=row["Key"], size=row["Size"], modified=modified.timestamp())


def _date(answer: Any) -> float:  # noqa: ANN401 - as above
    text = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    try:
        return parsedate_to_datetime(text).timestamp()
    except ValueError:
        return 0.0
