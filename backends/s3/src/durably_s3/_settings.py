"""Where a storage lies, and how it is talked to."""

import re

import msgspec
from typing_extensions import override

from durably import InvalidUrl
from durably_s3._keys import LONGEST_PREFIX

__all__ = ["ADDRESSING", "COMPRESSIONS", "Settings"]

ADDRESSING = ("auto", "path", "virtual")
COMPRESSIONS = ("zlib", "none")
LONGEST_TIMEOUT = 3600
MOST_WORKERS = 256
_ENDPOINT = re.compile(r"https?://[^\s@/?#]+/?", re.ASCII)
_BUCKET = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,254}", re.ASCII)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """A bucket, a prefix within it, and how to reach it.

    What is not given boto3 finds as it always does: environment, shared files, roles. So it
    finds credentials, which no setting takes. ``encryption`` is ``AES256`` or ``aws:kms``, the
    latter with ``kms_key_id`` or the bucket's own key; ``storage_class`` is for chunks, which
    never change. ``timeout`` is how many seconds an operation goes on trying; what is under
    way then is waited for, which can double them where a server takes requests and does not
    answer. ``workers`` is how many requests are under way at once, ``grace`` how many seconds old
    garbage must be before it is collected: twice the ``timeout`` at least, or 0 while nobody
    writes.

    Raises:
        InvalidUrl: one of them cannot be used.
    """

    bucket: str
    prefix: str = ""
    endpoint_url: str | None = None
    region: str | None = None
    profile: str | None = None
    addressing: str = "auto"
    encryption: str | None = None
    kms_key_id: str | None = None
    storage_class: str | None = None
    compression: str = "zlib"
    timeout: float = 20.0
    workers: int = 16
    grace: float = 3600.0

    def __post_init__(self) -> None:
        if not _BUCKET.fullmatch(self.bucket):
            raise InvalidUrl(
                "a storage in S3 needs the name of a bucket", hint="Write s3://bucket/prefix"
            )
        if not self.prefix.isprintable() or len(self.prefix.encode()) > LONGEST_PREFIX:
            raise InvalidUrl(
                f"a prefix is printable text of {LONGEST_PREFIX} bytes at most",
                hint="It has no control characters",
            )
        if not all(part not in {"", ".", ".."} for part in self.prefix.split("/") if self.prefix):
            raise InvalidUrl("a prefix has no empty part, no . and no .. between its slashes")
        if self.endpoint_url is not None and not _ENDPOINT.fullmatch(self.endpoint_url):
            raise InvalidUrl(
                "endpoint_url must be an http:// or https:// address without credentials"
            )
        if self.addressing not in ADDRESSING:
            raise InvalidUrl(f"addressing must be one of {', '.join(ADDRESSING)}")
        if self.compression not in COMPRESSIONS:
            raise InvalidUrl(f"compression must be one of {', '.join(COMPRESSIONS)}")
        if not 0 < self.timeout <= LONGEST_TIMEOUT:
            raise InvalidUrl(f"timeout must be above 0, and at most {LONGEST_TIMEOUT} seconds")
        if not 1 <= self.workers <= MOST_WORKERS:
            raise InvalidUrl(f"workers must be from 1 to {MOST_WORKERS}")
        if not (self.grace == 0 or self.grace >= 2 * self.timeout):
            raise InvalidUrl("grace must be twice the timeout at least, or 0 while nobody writes")

    @override
    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")
