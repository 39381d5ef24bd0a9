"""Broken plugins: each a real distribution, each refused in words, none of harm to another."""

from typing import NamedTuple

import pytest

from plugin_site import GOOD, Site

OTHERS = ("memory://", "sqlite://")


class Fault(NamedTuple):
    """A plugin's source, and the error it gives: class, beginning of its text, and cause."""

    source: str
    error: str
    text: str
    cause: str | None = None

    def told_of(self, scheme: str) -> str:
        text = self.text.replace("WHO", "backend 'SCHEME' of DISTRIBUTION 0.1")
        return text.replace("DISTRIBUTION", f"{scheme}-backend").replace("SCHEME", scheme)


def hook(returned: str) -> str:
    return GOOD.replace("[spec()]", returned)


FAULTS = {
    "broken-import": Fault(
        "raise RuntimeError('boom')",
        "BackendBroken",
        "WHO failed to import: RuntimeError: boom",
        "RuntimeError: boom",
    ),
    "missing-module": Fault(
        "import no_such_module",
        "BackendBroken",
        "WHO failed to import: ModuleNotFoundError: No module named 'no_such_module'",
        "ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "syntax-error": Fault("def", "BackendBroken", "WHO failed to import: SyntaxError: "),
    "misspelt-hook": Fault(
        GOOD.replace("durably_backends", "durably_backend"),
        "BackendBroken",
        "WHO cannot be used: PluginValidationError: unknown hook 'durably_backend'",
    ),
    "hook-with-an-argument": Fault(
        GOOD.replace("()", "(contract)", 1),
        "BackendBroken",
        "WHO cannot be used: PluginValidationError: ",
    ),
    "no-hook": Fault(
        "", "BackendBroken", "WHO implements no hook durably_backends that describes a backend"
    ),
    "undecorated": Fault(
        GOOD.replace("@hookimpl", ""),
        "BackendBroken",
        "WHO implements no hook durably_backends that describes a backend",
    ),
    "another-projects-marker": Fault(
        "import pluggy\nhookimpl = pluggy.HookimplMarker('pytest')" + GOOD,
        "BackendBroken",
        "WHO implements no hook durably_backends that describes a backend",
    ),
    "raises": Fault(
        hook("1 / 0"),
        "BackendBroken",
        "WHO cannot be used: ZeroDivisionError: division by zero",
        "ZeroDivisionError: division by zero",
    ),
    "returns-a-number": Fault(
        hook("42"),
        "BackendBroken",
        "WHO is described by a value of type int. Return a list of BackendSpec",
    ),
    "returns-a-spec": Fault(
        hook("spec()"), "BackendBroken", "WHO is described by a value of type BackendSpec"
    ),
    "returns-a-dict": Fault(
        hook("{SCHEME: spec()}"), "BackendBroken", "WHO is described by a value of type dict"
    ),
    "returns-a-list-of-dicts": Fault(
        hook("[{'name': SCHEME}]"), "BackendBroken", "WHO describes a dict, not a BackendSpec"
    ),
    "returns-nothing": Fault(
        hook("None"), "BackendBroken", "WHO implements no hook durably_backends that describes"
    ),
    "returns-an-empty-list": Fault(
        hook("[]"), "BackendBroken", "WHO implements no hook durably_backends that describes"
    ),
    "returns-a-coroutine": Fault(
        GOOD.replace("def ", "async def "),
        "BackendBroken",
        "WHO is described by a value of type coroutine",
    ),
    "schemes-is-text": Fault(
        hook("[spec(schemes='x')]"),
        "BackendBroken",
        "WHO describes itself wrongly: Expected `array`, got `str` - at `$.schemes`",
    ),
    "contract-is-text": Fault(
        hook("[spec(contract='1.0')]"), "BackendBroken", "WHO describes itself wrongly: "
    ),
    "contract-is-short": Fault(
        hook("[spec(contract=(1,))]"), "BackendBroken", "WHO describes itself wrongly: "
    ),
    "capabilities-is-a-dict-of-wrong-keys": Fault(
        hook("[spec(capabilities={'durable': True})]"),
        "BackendBroken",
        "WHO describes itself wrongly: Object missing required field",
    ),
    "unknown-field": Fault(
        hook("[spec(colour='red')]"), "BackendBroken", "WHO cannot be used: TypeError: "
    ),
    "another-scheme": Fault(
        hook("[spec(schemes=('y',))]"),
        "BackendBroken",
        "WHO claims y without an entry point of that name",
    ),
    "claims-sqlite": Fault(
        hook("[spec(schemes=(SCHEME, 'sqlite'))]"),
        "BackendBroken",
        "WHO claims sqlite without an entry point of that name",
    ),
    "claims-sqlite-beside-its-own": Fault(
        hook("[spec(), spec(name='sqlite', schemes=('sqlite',))]"),
        "BackendBroken",
        "WHO claims sqlite without an entry point of that name",
    ),
    "one-scheme-twice": Fault(
        hook("[spec(), spec(open='y_store:open_url')]"),
        "BackendBroken",
        "WHO describes one scheme twice",
    ),
    "newer-minor": Fault(
        hook("[spec(contract=(1, 7))]"),
        "ContractMismatch",
        "DISTRIBUTION implements contract 1.7, this durably speaks 1.0",
    ),
    "newer-major": Fault(
        hook("[spec(contract=(2, 0))]"),
        "ContractMismatch",
        "DISTRIBUTION implements contract 2.0, this durably speaks 1.0",
    ),
    "older-major": Fault(
        hook("[spec(contract=(0, 9))]"),
        "ContractMismatch",
        "DISTRIBUTION implements contract 0.9, this durably speaks 1.0",
    ),
    "opens-a-missing-module": Fault(
        hook("[spec(open='no_such_module:open_url')]"),
        "BackendBroken",
        "backend 'SCHEME' failed to import: ModuleNotFoundError: No module named 'no_such_module'",
        "ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "opens-no-function": Fault(
        hook("[spec(open='x_store')]"),
        "BackendBroken",
        "backend 'SCHEME' failed to import: AttributeError: ",
    ),
    "opens-something-else": Fault(
        hook("[spec(open='builtins:str')]"),
        "BackendBroken",
        "backend 'SCHEME' opened a value of type str. Return a LogStore or a Storage",
    ),
}


@pytest.fixture(scope="module", params=[(), ("-O",)], ids=["plain", "optimised"])
def outcomes(request, tmp_path_factory):
    """What comes of opening every URL, twice, where all these plugins are installed."""
    site = Site(tmp_path_factory.mktemp("site"))
    for name, fault in FAULTS.items():
        site.plugin(fault.source, scheme=name)
    urls = [f"{name}://" for name in FAULTS]
    return site.outcomes(*urls, *OTHERS, flags=request.param)["opened"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_plugin_is_refused_in_words(outcomes, name):
    """A faulty plugin gives the error of its fault, with the cause; also with python -O."""
    fault = FAULTS[name]
    error, text, cause = outcomes[f"{name}://"][0]
    assert error == fault.error
    assert text.startswith(fault.told_of(name))
    assert fault.cause in (None, cause)


@pytest.mark.parametrize("name", FAULTS)
def test_a_second_attempt_gives_the_same_error(outcomes, name):
    """What was refused once is refused again in the same words."""
    first, second = outcomes[f"{name}://"]
    assert first == second


@pytest.mark.parametrize("url", OTHERS)
def test_faulty_plugins_harm_no_other(outcomes, url):
    """With every one of them installed, and tried before, memory:// and sqlite:// work."""
    assert outcomes[url] == ["works", "works"]


def test_a_sound_plugin_works(tmp_path):
    """The plugin of which each fault above is one change opens."""
    site = Site(tmp_path)
    site.plugin()
    assert site.outcomes("good://")["opened"] == {"good://": ["works", "works"]}
