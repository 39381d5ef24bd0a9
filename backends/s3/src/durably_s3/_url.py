"""From a storage URL to a log store."""

from collections.abc import Callable
from typing import Any, TypeVar

from durably import InvalidUrl
from durably.urls import StorageUrl
from durably_s3._settings import Settings
from durably_s3._store import S3LogStore

__all__ = ["open_url", "settings_of"]

T = TypeVar("T")

_TEXTS = (
    "endpoint_url",
    "region",
    "profile",
    "addressing",
    "encryption",
    "kms_key_id",
    "storage_class",
    "compression",
)
_NUMBERS: dict[str, Callable[[str], float]] = {"timeout": float, "workers": int, "grace": float}


def open_url(url: StorageUrl) -> S3LogStore:
    """Return the log store of a URL: ``s3://bucket/prefix``.

    Options: ``namespace``, and the fields of ``Settings``.

    Raises:
        InvalidUrl: a part of it cannot be read.
    """
    return S3LogStore(settings_of(url), namespace=url.options.get("namespace", ""))


def settings_of(url: StorageUrl) -> Settings:
    """Return the settings a URL stands for.

    Raises:
        InvalidUrl: a part of it cannot be read.
    """
    url.check_options({"namespace", *_TEXTS, *_NUMBERS})
    if url.username is not None or url.password is not None:
        raise InvalidUrl(
            "an s3:// URL takes no credentials",
            hint="Give them to boto3: by environment, profile or role",
        )
    if url.port is not None:
        raise InvalidUrl("an s3:// URL names a bucket", hint="Write ?endpoint_url= for a server")
    given: dict[str, Any] = {name: url.options[name] for name in _TEXTS if name in url.options}
    for name, kind in _NUMBERS.items():
        if name in url.options:
            given[name] = _number(url, name, kind)
    return Settings(bucket=url.host, prefix=url.path.strip("/"), **given)


def _number(url: StorageUrl, name: str, kind: Callable[[str], T]) -> T:
    try:
        return kind(url.options[name])
    except ValueError:
        raise InvalidUrl(f"{name} must be a number") from None
