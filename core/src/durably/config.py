"""Choosing a storage by configuration: URLs, mappings, files and the environment."""

import json
import os
import re
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias, cast
from urllib.parse import quote

import msgspec
import pydantic

from durably._typing import override
from durably.errors import InvalidConfig, InvalidUrl
from durably.plugins import backends, open_backend
from durably.storage import Storage
from durably.urls import StorageUrl, closest, parse_url

__all__ = ["ENVIRONMENT_VARIABLE", "Source", "StorageConfig", "open_storage"]

ENVIRONMENT_VARIABLE = "DURABLY_URL"

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_INVALID = object()
"""What a reader returns for a text that is none of its kind, whose words may repeat a secret."""


def _check_scalar(value: object) -> object:
    if not isinstance(value, str | int | float):
        raise ValueError("must be text, a number, true or false")  # noqa: TRY004 - for pydantic
    return value


_Scalar = Annotated[str | int | float | bool, pydantic.BeforeValidator(_check_scalar)]


class StorageConfig(pydantic.BaseModel):
    """Which storage to open: its ``url``, and ``options`` that would else stand in its query.

    ``${NAME}`` in either stands for an environment variable, so that secrets stay out of files.
    Inside a URL its value is percent-encoded; a URL that is one reference is taken as it is.
    Text and repr show no secret.
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, hide_input_in_errors=True
    )

    url: str
    options: dict[str, _Scalar] = {}

    @pydantic.model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, values: object) -> object:
        for name in map(str, _table(values) or {}):
            if name not in cls.model_fields:
                guess = closest(name, cls.model_fields)
                meant = f", did you mean {guess!r}?" if guess else ""
                raise ValueError(f"unknown key {name!r}{meant}")
        return values

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Make a configuration of what a file of the application's own held.

        Raises:
            InvalidConfig: a key is unknown, missing, or of a wrong type.
        """
        try:
            return cls.model_validate(dict(mapping))
        except pydantic.ValidationError as error:
            raise InvalidConfig(f"the storage configuration is wrong: {_reasons(error)}") from None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, table: str | None = None) -> Self:
        """Read a configuration from a TOML, YAML or JSON file, by its ending.

        ``table`` names where in the file it stands, with dots between nested tables; without it
        the file holds nothing else. YAML needs the extra ``yaml``.

        Raises:
            InvalidConfig: the file cannot be read, or holds no such configuration.
        """
        file = Path(path)
        values = _table(_read(file))
        for name in table.split(".") if table else ():
            values = _table((values or {}).get(name))
        if values is None:
            missing = f"no table {table!r}" if table else "no table at its top"
            raise InvalidConfig(f"{str(file)!a} has {missing}")
        return cls.from_mapping(values)

    def storage_url(self) -> StorageUrl:
        """Return the URL with its references resolved and the options added.

        Raises:
            InvalidConfig: a referenced environment variable is not set.
            InvalidUrl: the URL cannot be read, or gives one of the options, too.
        """
        url = parse_url(_resolved(self.url, in_url=_REFERENCE.fullmatch(self.url) is None))
        for name, value in self.options.items():
            if name in url.options:
                raise InvalidUrl(f"the option {name!r} is given in the URL and beside it")
            url.options[name] = _text(value)
        return url

    @override
    def __str__(self) -> str:
        return repr(self)

    @override
    def __repr_args__(self) -> Iterator[tuple[None, str]]:
        yield None, self._shown()

    def _shown(self) -> str:
        """Return the URL with its options, its references and whatever is secret masked."""
        try:
            url = parse_url(_REFERENCE.sub("***", self.url))
        except InvalidUrl:
            return "***"
        for name, value in self.options.items():
            url.options[name] = _REFERENCE.sub("***", str(value))
        return str(url)


Source: TypeAlias = "str | StorageConfig | Mapping[str, Any] | None"


def open_storage(
    source: Source = None, *, clock: Callable[[], float] = time.time, must_exist: bool = False
) -> Storage:
    """Return the storage of a URL or configuration, to be entered with ``async with``.

    What ``durably.open`` does; see there. With ``must_exist`` a backend that can refuses to create
    what is not there, unless the URL says otherwise.
    """
    url = _storage_url(source)
    spec = backends.find(url.scheme)
    if must_exist:
        url = msgspec.structs.replace(url, options={**dict(spec.read_options), **url.options})
    opened = open_backend(spec, url)
    return opened if isinstance(opened, Storage) else Storage(opened, clock=clock)


def _storage_url(source: Source) -> StorageUrl:
    if source is None:
        source = os.environ.get(ENVIRONMENT_VARIABLE)
        if not source:
            raise InvalidUrl(
                "no storage URL is given",
                hint=f"Pass one, or set the environment variable {ENVIRONMENT_VARIABLE}",
            )
    if isinstance(source, Mapping):
        source = StorageConfig.from_mapping(source)
    return source.storage_url() if isinstance(source, StorageConfig) else parse_url(source)


def _table(value: object) -> Mapping[str, Any] | None:
    """Return a mapping as one, and anything else as None."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None


def _reasons(error: pydantic.ValidationError) -> str:
    """Say what pydantic found wrong, and where; it is told to hide what was given."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        ": ".join([*([".".join(map(str, one["loc"]))] if one["loc"] else []), _words(one["msg"])])
        for one in found
    )


def _words(message: str) -> str:
    return message.removeprefix("Value error, ")


def _resolved(text: str, *, in_url: bool) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in os.environ:
            raise InvalidConfig(f"the environment variable {name!a} is not set")
        return quote(os.environ[name], safe="") if in_url else os.environ[name]

    return _REFERENCE.sub(value, text)


def _text(value: str | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _resolved(value, in_url=False) if isinstance(value, str) else str(value)


def _read(file: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    readers: dict[str, Callable[[str], Any]] = {
        ".json": _json,
        ".toml": tomllib.loads,
        ".yaml": _yaml,
        ".yml": _yaml,
    }
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise InvalidConfig(f"{str(file)!a} is no .toml, .yaml or .json file")
    values = _parsed(file, reader)
    if values is _INVALID:
        raise InvalidConfig(f"{str(file)!a} is no valid {file.suffix[1:]}")
    return values


def _parsed(file: Path, reader: Callable[[str], Any]) -> Any:  # noqa: ANN401 - what a file holds
    try:
        return reader(file.read_text("utf-8"))
    except OSError as error:
        raise InvalidConfig(f"{str(file)!a} cannot be read: {error.strerror}") from error
    except InvalidConfig:
        raise
    except ValueError:
        return _INVALID


def _json(text: str) -> Any:  # noqa: ANN401 - as above
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key given twice, as TOML does; JSON's own reader takes the last in silence."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is given twice")
    return dict(pairs)


def _yaml(text: str) -> Any:  # noqa: ANN401 - whatever the text holds
    try:
        import yaml  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise InvalidConfig(
            "YAML files need another package",
            hint='Install it with: pip install "durably[yaml]"',
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return _INVALID
