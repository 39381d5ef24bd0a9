"""Text and values that are fit to be stored, of whatever a tool or an exception gives."""

from hashlib import blake2b
from typing import Any

import pydantic_core

from durably import NotSerializable
from durably.codec import Codec

__all__ = ["digest", "json_of", "plain_text", "to_json", "words_of"]

_json: Codec[Any] = Codec(Any)


def digest(identity: object) -> str:
    """Return 32 hexadecimal characters that tell JSON values apart."""
    return blake2b(_json.encode(identity, "identity"), digest_size=16).hexdigest()


def plain_text(text: str) -> str:
    """Return a text as one that can be stored: a ``str`` itself, halves of characters replaced."""
    plain = str.__str__(text)
    try:
        _json.encode(plain, "text")
    except NotSerializable:
        return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return plain


def words_of(error: BaseException) -> str:
    """Return an exception in words, also one that has none to say."""
    name = type(error).__name__
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - what an exception says of itself is no error of the run
        return name
    return plain_text(f"{name}: {said}" if said else name)


def json_of(value: object) -> str:
    """Return the text of a value that is JSON.

    Raises:
        NotSerializable: JSON cannot give it back exactly.
    """
    return _json.encode(value, type(value).__name__).decode()


def to_json(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return what pydantic makes of a value in JSON.

    Raises:
        NotSerializable: it cannot be made JSON, or JSON cannot give it back exactly.
    """
    try:
        made = pydantic_core.to_jsonable_python(value, inf_nan_mode="constants")
    except (pydantic_core.PydanticSerializationError, ValueError) as error:
        raise NotSerializable(type(value).__name__, str(error)) from error
    json_of(made)
    return made
