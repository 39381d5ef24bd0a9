"""The one place where botocore's errors become durably's."""

from collections.abc import Mapping
from typing import Any, cast

from botocore import exceptions  # type: ignore[import-untyped]  # it has no types

from durably import DurablyError, Unavailable, Unsupported
from durably_s3._bucket import Unsure

__all__ = ["DRIVER_ERRORS", "code_of", "is_lost", "is_repeated", "translate"]

DRIVER_ERRORS = (exceptions.BotoCoreError, exceptions.ClientError, OSError, RecursionError)
"""boto3 follows a redirection that names no region until Python stops it."""

_LOST = {"412", "PreconditionFailed", "409", "ConditionalRequestConflict", "OperationAborted"}
_PASSING = {
    "429",
    "500",
    "502",
    "503",
    "504",
    "BandwidthLimitExceeded",
    "InternalError",
    "InternalServerError",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
}
_UNANSWERED = (
    exceptions.HTTPClientError,
    exceptions.ConnectionError,
    exceptions.IncompleteReadError,
    exceptions.ResponseStreamingError,
    OSError,
)

_LACKING = {"501", "NotImplemented", "XNotImplemented"}
_TOO_MANY = {"429", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests"}

_REFUSED: tuple[tuple[tuple[str | type[Exception], ...], str, str], ...] = (
    (
        (
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.CredentialRetrievalError,
            exceptions.TokenRetrievalError,
            exceptions.UnauthorizedSSOTokenError,
            exceptions.SSOTokenLoadError,
        ),
        "cannot be used: boto3 finds no credentials",
        "Give them by environment, profile or role, never in the URL",
    ),
    ((exceptions.ProfileNotFound,), "cannot be used: no such profile", "Check ?profile="),
    (("NoSuchBucket",), "is in a bucket that does not exist", "Create it, or correct the URL"),
    (
        ("ExpiredToken", "TokenRefreshRequired", "InvalidToken", "RequestExpired"),
        "refuses the credentials: they have expired",
        "Renew them, or let boto3 find some that renew themselves",
    ),
    (
        ("InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthFailure", "InvalidClientTokenId"),
        "refuses the credentials",
        "Check what boto3 finds: environment, profile or role",
    ),
    (
        ("AccessDenied", "AllAccessDisabled", "AccountProblem", "403", "Forbidden"),
        "denies access",
        "Allow s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket on it",
    ),
    (
        (
            "PermanentRedirect",
            "301",
            "307",
            "AuthorizationHeaderMalformed",
            "IllegalLocationConstraintException",
            RecursionError,
        ),
        "lies in another region",
        "Give it: ?region=",
    ),
    (
        ("RequestTimeTooSkewed",),
        "refuses requests, since this machine's clock is wrong",
        "Set the clock",
    ),
    (
        ("InvalidBucketName",),
        "has a name that no bucket can have",
        "Correct the URL",
    ),
    (
        ("QuotaExceeded", "XMinioStorageFull", "507", "InsufficientStorage"),
        "is full; nothing was stored",
        "Make room, or raise its quota",
    ),
    (
        (
            "InvalidStorageClass",
            "KMS.NotFoundException",
            "KMS.DisabledException",
            "InvalidEncryptionAlgorithmError",
        ),
        "cannot store objects with these settings",
        "Check ?encryption=, ?kms_key_id= and ?storage_class=",
    ),
)


def code_of(error: Exception) -> str:
    """Return the code of an answer, else its HTTP status; empty for what is no answer."""
    is_answer = isinstance(error, exceptions.ClientError)
    response: Mapping[str, Any] = cast("Any", error).response if is_answer else {}
    code = response.get("Error", {}).get("Code", "")
    return str(code or response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))


def is_lost(error: Exception) -> bool:
    """Whether the condition of a request did not hold."""
    return code_of(error) in _LOST


def is_repeated(error: Exception) -> bool:
    """Whether the library had sent the request before, and got no answer that it took."""
    response: Mapping[str, Any] = cast("Any", error).response
    return bool(response.get("ResponseMetadata", {}).get("RetryAttempts", 0))


def translate(error: Exception, place: str) -> DurablyError | Unsure:
    """Return what an error means; ``place`` names the bucket.

    An ``Unsure`` is one after which nobody knows whether the request was carried out.
    """
    if isinstance(error, exceptions.HTTPClientError):
        cast("Any", error).request = None  # it has what was to be stored, and a session's token
    code = code_of(error)
    if code in _PASSING:
        what = "asks for fewer requests" if code in _TOO_MANY else f"fails: {code}"
        return Unsure(_unanswered(place, what))
    if isinstance(error, _UNANSWERED):
        return Unsure(_unanswered(place, f"does not answer: {type(error).__name__}"))
    if code in _LACKING:
        return Unsupported(
            f"{place} lacks an operation that durably needs",
            hint="Use a server with conditional writes",
        )
    for marks, what, hint in _REFUSED:
        if any(code == one if isinstance(one, str) else isinstance(error, one) for one in marks):
            return Unavailable(f"{place} {what}", hint=hint)
    return Unavailable(
        f"{place} cannot be used: {code or type(error).__name__}",
        hint="Check the bucket, ?endpoint_url= and ?region=",
    )


def _unanswered(place: str, what: str) -> Unavailable:
    return Unavailable(
        f"{place} {what}; a change may have been stored or not",
        hint="Try again: a change that was stored is not stored twice",
    )
