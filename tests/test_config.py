"""Configuration: each road opens the same storage, what is wrong is named, secrets are not told."""

import json
import logging
import os
import subprocess
import sys
import traceback
from pathlib import Path
from types import MappingProxyType

import pydantic
import pytest
import rich.console

import durably
from durably import InputEntry, InvalidConfig, InvalidUrl, UnknownScheme
from durably.config import ENVIRONMENT_VARIABLE, StorageConfig
from durably.urls import StorageUrl, parse_url

SAID = [InputEntry(role="user", content="hello")]
SECRET = "s3cr:t/@ +%"  # noqa: S105 - to be looked for


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, "utf-8")
    return file


def as_text(values: dict, ending: str, table: str | None) -> str:
    """Return a configuration as a file of some kind holds it, beside other things."""
    whole = values if table is None else {"app": {"name": "mine", table: values}, "other": {}}
    if ending in ("json", "yaml", "yml"):
        return json.dumps(whole)
    lines = ["[other]", f"[app.{table}]"] if table else []
    lines += [f"url = {json.dumps(values['url'])}", "[options]"]
    lines[-1] = f"[app.{table}.options]" if table else "[options]"
    lines += [f"{name} = {json.dumps(value)}" for name, value in values["options"].items()]
    return "\n".join(lines)


def roads(folder: Path):
    """Each way to say the same storage, by name; a source for ``durably.open``."""
    file = folder / "agent.db"
    values = {"url": f"sqlite:///{file}", "options": {"namespace": "n", "busy_timeout": 5}}
    yield "url", lambda: f"sqlite:///{file}?namespace=n&busy_timeout=5"
    yield "environment", lambda: None
    yield "mapping", lambda: values
    yield "another mapping", lambda: MappingProxyType(values)
    yield "StorageConfig", lambda: StorageConfig(**values)
    yield "reference", lambda: {"url": "${WHOLE_URL}"}
    yield "references", lambda: {"url": "sqlite:///${FILE}", "options": {"namespace": "${NS}"}}
    for ending in ("toml", "yaml", "yml", "json"):
        for table in (None, "storage"):
            path = written(folder, f"{table}.{ending}", as_text(values, ending, table))
            where = table and f"app.{table}"
            yield (
                f"{ending} {table}",
                lambda path=path, where=where: StorageConfig.from_file(path, table=where),
            )


async def test_each_road_opens_the_same_storage(tmp_path, monkeypatch):
    """A URL, the environment, a mapping, a StorageConfig and each file open one storage."""
    url = f"sqlite:///{tmp_path}/agent.db?namespace=n&busy_timeout=5"
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, url)
    monkeypatch.setenv("WHOLE_URL", url)
    monkeypatch.setenv("FILE", f"{tmp_path}/agent.db")
    monkeypatch.setenv("NS", "n")
    names = []
    for name, source in roads(tmp_path):
        async with durably.open(source()) as storage:
            assert len(await storage.sessions.segments("u1")) == len(names), name
            await storage.sessions.append("u1", SAID, run_id=name)
        names.append(name)
    assert len(names) == 15


def test_yaml_may_be_written_as_people_do(tmp_path):
    """A block of YAML with a number and a truth value is read as it looks."""
    text = "url: memory://x\noptions:\n  a: 1\n  b: true\n  c: 1.5\n"
    config = StorageConfig.from_file(written(tmp_path, "c.yaml", text))
    assert config.storage_url().options == {"a": "1", "b": "true", "c": "1.5"}


def test_without_a_source_the_environment_must_have_one(monkeypatch):
    """open() without DURABLY_URL, or with an empty one, says which variable to set."""
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    with pytest.raises(InvalidUrl, match="set the environment variable DURABLY_URL"):
        durably.open()
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "")
    with pytest.raises(InvalidUrl, match="set the environment variable DURABLY_URL"):
        durably.open()


@pytest.mark.parametrize(
    "url",
    ["redis://u:${SECRET}@h/0", "redis://u:p@h/${SECRET}", "redis://h/?a=${SECRET}&b=1"],
)
def test_a_reference_inside_a_url_is_one_part_of_it(monkeypatch, url):
    """What a variable holds is percent-encoded in a URL: it ends no password, path or option."""
    monkeypatch.setenv("SECRET", SECRET)
    read = StorageConfig(url=url).storage_url()
    assert SECRET in (read.password, read.path.removeprefix("/"), read.options.get("a"))
    assert read.host == "h"


def test_a_url_that_is_one_reference_is_taken_as_it_is(monkeypatch):
    """A variable that holds a whole URL is not encoded once more."""
    monkeypatch.setenv("WHOLE", "redis://u:p%40ss@h:1/0?a=b%26c")
    read = StorageConfig(url="${WHOLE}").storage_url()
    assert (read.password, read.port, read.options) == ("p@ss", 1, {"a": "b&c"})


def test_a_reference_in_an_option_is_taken_as_it_is(monkeypatch):
    """An option beside the URL is no part of one, so a variable in it is not encoded."""
    monkeypatch.setenv("SECRET", SECRET)
    config = StorageConfig(url="redis://h", options={"token": "${SECRET}", "b": "x${SECRET}"})
    assert config.storage_url().options == {"token": SECRET, "b": f"x{SECRET}"}


@pytest.mark.parametrize("name", ["NOT_SET", "not-set", ""])
@pytest.mark.parametrize("place", ["url", "whole", "option"])
def test_a_missing_variable_is_named(monkeypatch, name, place):
    """A reference to a variable that is not set is refused by its name, wherever it stands."""
    monkeypatch.delenv("NOT_SET", raising=False)
    sources = {
        "url": {"url": f"sqlite:///${{{name}}}.db"},
        "whole": {"url": f"${{{name}}}"},
        "option": {"url": "sqlite://", "options": {"namespace": f"${{{name}}}"}},
    }
    with pytest.raises(InvalidConfig, match=f"environment variable '{name}' is not set"):
        durably.open(sources[place])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.json", '{"ulr": "memory://"}'),
        ("c.toml", 'ulr = "memory://"'),
        ("c.yaml", "ulr: memory://"),
    ],
)
def test_an_unknown_key_in_a_file_is_refused_with_a_suggestion(tmp_path, name, text):
    """A misspelt key is no silent default, in any file."""
    with pytest.raises(InvalidConfig, match="unknown key 'ulr', did you mean 'url'"):
        StorageConfig.from_file(written(tmp_path, name, text))


def test_an_unknown_key_is_refused_with_a_suggestion():
    """A misspelt key is refused in a mapping, and by StorageConfig itself, in the same words."""
    with pytest.raises(InvalidConfig, match="unknown key 'ulr', did you mean 'url'"):
        durably.open({"ulr": "memory://"})
    with pytest.raises(pydantic.ValidationError, match="unknown key 'option', did you mean 'opt"):
        StorageConfig(url="memory://", option={})


@pytest.mark.parametrize(
    "source",
    [
        "memory://x?namespce=n",
        {"url": "memory://x?namespce=n"},
        {"url": "memory://x", "options": {"namespce": "n"}},
        StorageConfig(url="memory://x", options={"namespce": "n"}),
    ],
)
def test_an_unknown_option_is_refused_with_a_suggestion(source):
    """A misspelt option is refused on each road, with what it may have meant."""
    with pytest.raises(InvalidUrl, match="no option 'namespce', did you mean 'namespace'"):
        durably.open(source)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "url: Field required"),
        ({"url": 7}, "url: Input should be a valid string"),
        ({"url": None}, "url: Input should be a valid string"),
        ({"url": "memory://", "options": 3}, "options: Input should be a valid dictionary"),
        ({"url": "memory://", "options": {"a": None}}, "options.a: must be text, a number, true"),
        ({"url": "memory://", "options": {"a": [1]}}, "options.a: must be text, a number, true"),
        ({"url": "memory://", "options": {1: "a"}}, "options.1"),
        ({1: 2, "url": "memory://"}, "unknown key '1'"),
    ],
)
def test_wrong_types_are_named_with_their_place(values, said):
    """A value of a wrong type is refused by its place, and nothing is converted to text."""
    with pytest.raises(InvalidConfig) as caught:
        durably.open(values)
    assert str(caught.value).startswith(f"the storage configuration is wrong: {said}")


@pytest.mark.parametrize("source", [7, b"memory://", Path("a.db"), ["memory://"], True])
def test_other_sources_are_refused_by_their_type(source):
    """What is no URL, mapping or StorageConfig is refused, also a path."""
    with pytest.raises(InvalidUrl, match=f"is text, not {type(source).__name__}"):
        durably.open(source)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("c.ini", "", "is no .toml, .yaml or .json file"),
        ("c", "", "is no .toml, .yaml or .json file"),
        ("c.json", "{", "is no valid json"),
        ("c.toml", "url", "is no valid toml"),
        ("c.yaml", "a: [", "is no valid yaml"),
        ("c.json", '{"url": "memory://a", "url": "memory://b"}', "is no valid json"),
        ("c.toml", 'url = "memory://a"\nurl = "memory://b"', "is no valid toml"),
        ("c.json", "[]", "has no table at its top"),
        ("c.yaml", "memory://", "has no table at its top"),
        ("c.yaml", "", "has no table at its top"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, text, said):
    """A file of another kind, or one that holds no configuration, is refused by its path."""
    file = written(tmp_path, name, text)
    with pytest.raises(InvalidConfig) as caught:
        StorageConfig.from_file(file)
    assert str(caught.value) == f"{str(file)!a} {said}"


def test_a_file_that_is_not_there(tmp_path):
    """A missing file is refused by its path, with the system's reason."""
    with pytest.raises(InvalidConfig, match=r"nothing\.toml' cannot be read: No such file"):
        StorageConfig.from_file(tmp_path / "nothing.toml")


@pytest.mark.parametrize("table", ["storge", "app.storge", "app.name", "app.name.x"])
def test_a_table_that_is_not_there(tmp_path, table):
    """A table that the file does not have is named."""
    text = as_text({"url": "memory://", "options": {}}, "json", "storage")
    with pytest.raises(InvalidConfig, match=f"has no table '{table}'"):
        StorageConfig.from_file(written(tmp_path, "c.json", text), table=table)


def test_yaml_without_its_extra_names_the_extra(tmp_path):
    """Where PyYAML is not installed, a YAML file is refused with what to install."""
    file = written(tmp_path, "c.yaml", "url: memory://")
    code = f"""
import sys
sys.modules["yaml"] = None
from durably.config import StorageConfig
try:
    StorageConfig.from_file({str(file)!r})
except Exception as error:
    print(type(error).__name__, error)
"""
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert told.stdout == (
        "InvalidConfig YAML files need another package. "
        'Install it with: pip install "durably[yaml]"\n'
    )


@pytest.mark.parametrize(
    "source",
    [
        "memory://?namespace=a&namespace=b",
        {"url": "memory://?namespace=a", "options": {"namespace": "a"}},
    ],
)
def test_an_option_given_twice_is_refused(source):
    """Neither of two values of one option wins, in a URL and beside it."""
    with pytest.raises(InvalidUrl, match=r"given twice|in the URL and beside it"):
        durably.open(source)


@pytest.mark.parametrize(
    "path", ["C:\\agents\\a.db", "C:/agents/a.db", "c:a.db", "x://agents", "C:\\a.db?namespace=n"]
)
def test_a_windows_path_is_told_from_a_scheme(path):
    """One letter before a colon is taken for a drive, and the answer shows the URL to write."""
    for source in (path, {"url": path}):
        with pytest.raises(InvalidUrl, match=r"looks like a path.*sqlite:///C:/folder/file.db"):
            durably.open(source)


@pytest.mark.parametrize(
    ("url", "scheme"), [("SQLITE://", "sqlite"), ("Memory://x", "memory"), ("MEMORY://", "memory")]
)
def test_the_case_of_a_scheme_does_not_matter(url, scheme):
    """Schemes are written in either case, as in every URL."""
    assert parse_url(url).scheme == scheme
    assert isinstance(durably.open(url), durably.Storage)


@pytest.mark.parametrize("url", ["my_db://x", "://x", "1x://y", "éa://x"])
def test_a_scheme_of_other_characters_is_refused(url):
    """What can be no scheme is not looked up as one."""
    with pytest.raises(InvalidUrl, match="letters, digits"):
        durably.open(url)


async def test_the_case_of_memory_names_is_kept():
    """memory://Name and memory://name are two storages, and a percent-encoded name is one."""
    async with durably.open("memory://Cased") as one, durably.open("memory://cased") as other:
        await one.sessions.append("u1", SAID)
        assert await other.sessions.load("u1") == []
        async with durably.open("memory://%43ased") as same:
            assert await same.sessions.load("u1") == SAID


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("redis://h:6379/0", (None, None, "h", 6379, "/0")),
        ("redis://h:/0", (None, None, "h", None, "/0")),
        ("redis://[::1]:6379", (None, None, "::1", 6379, "")),
        ("redis://[::1]", (None, None, "::1", None, "")),
        ("redis://u%40x:p%3A%2F@H", ("u@x", "p:/", "H", None, "")),
        ("redis://:p@h", ("", "p", "h", None, "")),
        ("redis://u@h", ("u", None, "h", None, "")),
        ("x3+tls://b/a%20b", (None, None, "b", None, "/a b")),
        ("sqlite:////abs.db", (None, None, "", None, "//abs.db")),
    ],
)
def test_the_parts_of_a_url(url, parts):
    """Every part is percent-decoded and apart from the others."""
    read = parse_url(url)
    assert (read.username, read.password, read.host, read.port, read.path) == parts


@pytest.mark.parametrize("port", ["abc", "6379x", "65536", "-1"])
def test_a_port_that_is_none_is_named(port):
    """The error says that it is the port, and does not repeat it: it may be a password."""
    with pytest.raises(InvalidUrl, match="its port is no number from 0 to 65535") as caught:
        parse_url(f"redis://host:{port}/0")
    assert port not in str(caught.value).replace("65535", "")


def chain(error):
    """Return an error and everything it is chained to, shown or not."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


WRONG = {
    "scheme": f"zebra://u:{'hidden'}@h",
    "port": "redis://u:p@h:hidden",
    "password with ?": "redis://:hi?hidden@h",
    "password with /": "redis://:hi/hidden@h",
    "bracket": "redis://:hidden@[h",
    "host": "sqlite://u:hidden@h/a.db",
    "option": "memory://x?token=hidden",
    "two": "memory://x?token=hidden&token=hidden",
    "no scheme": "hidden@host",
    "blank": " redis://:hidden@h",
    "control": "redis://:hidden\n@h",
    "bytes": "redis://:hidden%ff@h",
    "fragment": "redis://:hidden@h#x",
    "mapping": {"url": "redis://:hidden@h", "pasword": "hidden"},
    "mapping type": {"url": ["redis://:hidden@h"]},
    "mapping option": {"url": "zebra://h", "options": {"password": "hidden"}},
    "mapping option type": {"url": "zebra://h", "options": {"password": ["hidden"]}},
    "mapping port": {"url": "redis://h:${HIDDEN}"},
    "mapping reference": {"url": "${HIDDEN}"},
    "mapping path": {"url": "memory://${HIDDEN}/path"},
}


@pytest.mark.parametrize("name", WRONG)
def test_no_error_tells_a_secret(monkeypatch, name):
    """Neither an error's text nor its traceback, nor what it is chained to, holds a secret."""
    monkeypatch.setenv("HIDDEN", "hidden")
    with pytest.raises((InvalidUrl, InvalidConfig, UnknownScheme)) as caught:
        durably.open(WRONG[name])
    for error in chain(caught.value):
        told = "".join(traceback.format_exception(error, chain=False)[-1:])
        assert "hidden" not in told + repr(error) + str(vars(error))


def test_no_error_of_storage_config_tells_a_secret():
    """Also the errors of pydantic, which StorageConfig itself raises, hide what was given."""
    for words in ({"ulr": "redis://:hidden@h"}, {"url": ["hidden"]}, {"url": b"hidden"}):
        with pytest.raises(pydantic.ValidationError) as caught:
            StorageConfig(**words)
        assert "hidden" not in "".join(traceback.format_exception(caught.value)[-3:])


@pytest.mark.parametrize("ending", ["json", "toml", "yaml"])
def test_no_error_of_a_file_tells_a_secret(tmp_path, ending):
    """A file that cannot be parsed is refused without a word of what stands in it."""
    text = 'password: "hidden\n  x: [hidden'
    with pytest.raises(InvalidConfig) as caught:
        StorageConfig.from_file(written(tmp_path, f"c.{ending}", text))
    for error in chain(caught.value):
        assert "hidden" not in repr(error) + str(error) + str(vars(error))


def shown(value, caplog) -> str:
    """Return every text that is made of a value in passing."""
    console = rich.console.Console(width=500)
    with console.capture() as captured:
        console.print(value)
    with caplog.at_level(logging.INFO):
        logging.getLogger("t").info("opening %s or %r", value, [value])
    return f"{value} {value!r} {[value]} {captured.get()} {caplog.text}"


@pytest.mark.parametrize(
    "word", ["password", "passwd", "passphrase", "pwd", "api_key", "secret", "TOKEN", "auth"]
)
def test_secrets_are_masked_wherever_a_url_is_shown(caplog, word):
    """str, repr, format, logging and rich show a URL without password and secret options."""
    url = parse_url(f"redis://user:hidden@host:6379/0?{word}=hidden&namespace=seen")
    text = shown(url, caplog)
    assert "hidden" not in text
    assert str(url) == f"redis://user:***@host:6379/0?{word}=***&namespace=seen"
    assert repr(url) == f"StorageUrl({str(url)!r})"
    assert {url.password, url.options[word]} == {"hidden"}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"url": "redis://u:hidden@h/0"}, "redis://u:***@h/0"),
        ({"url": "redis://h", "options": {"token": "hidden", "a": 1}}, "redis://h?token=***&a=1"),
        ({"url": "redis://u:${HIDDEN}@h"}, "redis://u:***@h"),
        ({"url": "redis://h/?a=${HIDDEN}"}, "redis://h/?a=***"),
        ({"url": "redis://h", "options": {"a": "${HIDDEN}"}}, "redis://h?a=***"),
        ({"url": "${HIDDEN}"}, "***"),
        ({"url": "hidden"}, "***"),
        ({"url": "${NOT_SET}"}, "***"),
    ],
)
def test_secrets_are_masked_wherever_a_configuration_is_shown(monkeypatch, caplog, values, told):
    """A configuration shows neither secrets nor what stands behind a reference."""
    monkeypatch.setenv("HIDDEN", "redis://hidden")
    config = StorageConfig(**values)
    assert "hidden" not in shown(config, caplog)
    assert str(config) == repr(config) == f"StorageConfig({told!r})"


def test_a_url_and_a_configuration_do_not_change():
    """Both are values: a field cannot be set."""
    with pytest.raises(AttributeError):
        parse_url("memory://").host = "x"
    with pytest.raises(pydantic.ValidationError):
        StorageConfig(url="memory://").url = "x"


def test_resolving_leaves_the_environment_and_the_configuration_alone(monkeypatch):
    """A configuration may be used any number of times, and follows the environment."""
    config = StorageConfig(url="memory://${NAME}", options={"namespace": "n"})
    for name in ("one", "two"):
        monkeypatch.setenv("NAME", name)
        assert config.storage_url() == StorageUrl(
            scheme="memory", host=name, options={"namespace": "n"}
        )
    assert config.options == {"namespace": "n"}
    assert os.environ["NAME"] == "two"
