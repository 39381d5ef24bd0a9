"""The backend of durably for S3 and whatever speaks its language: ``s3://``.

Its names are imported when they are asked for: to describe a backend must not import its driver.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durably_s3._settings import Settings
    from durably_s3._store import S3LogStore

__all__ = ["S3LogStore", "Settings"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any name of the package
    if name == "S3LogStore":
        from durably_s3._store import S3LogStore  # noqa: PLC0415 - see above

        return S3LogStore
    if name == "Settings":
        from durably_s3._settings import Settings  # noqa: PLC0415 - see above

        return Settings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
