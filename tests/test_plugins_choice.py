"""Which plugin answers to a scheme: never one of two in silence, and none before it is asked."""

import inspect
import sys
from importlib import metadata
from types import ModuleType

import pytest

import durably
from durably import (
    BackendBroken,
    BackendConflict,
    BackendNotInstalled,
    ContractMismatch,
    UnknownScheme,
    _asking,
    _hooks,
)
from durably.config import open_storage
from durably.plugins import Backends, register, unregister
from durably.urls import parse_url
from plugin_site import GOOD, PRELUDE, STORE, Site, made

OTHERS = ("memory://", "sqlite://")
WORKS = ["works", "works"]


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def hook(returned):
    return GOOD.replace("[spec()]", returned)


def told(site, url, **environment):
    """Open a URL twice where a site is installed; return what was told, the same both times."""
    opened = site.outcomes(url, *OTHERS, **environment)["opened"]
    first, second = opened.pop(url)
    assert first == second
    assert opened == dict.fromkeys(OTHERS, WORKS)
    return first


def test_two_distributions_with_one_scheme_are_a_conflict(site):
    """A scheme that two distributions offer is refused, naming both; neither wins."""
    site.plugin(scheme="dup", name="one-backend")
    site.plugin(scheme="dup", name="two-backend")
    error, text, _ = told(site, "dup://")
    assert error == "BackendConflict"
    assert text == (
        "dup:// is offered by one-backend, two-backend. Uninstall one, or register the one you "
        "want: durably.plugins.register(plugin)"
    )


def test_a_distribution_that_offers_sqlite_too_is_a_conflict(site):
    """A stranger's entry point for sqlite does not shadow ours, nor ours the stranger's."""
    site.plugin(scheme="sqlite", name="a-backend")
    opened = site.outcomes("sqlite://", "memory://")["opened"]
    error, text, _ = opened["sqlite://"][0]
    assert error == "BackendConflict"
    assert text.startswith("sqlite:// is offered by a-backend, durably-sqlite. Uninstall one, or")
    assert opened["memory://"] == WORKS


def test_one_distribution_with_one_scheme_twice_is_a_conflict(site):
    """Two entry points of one name are a conflict, also within a distribution."""
    site.plugin(scheme="one")
    site.distribution("two-backend", "dup = one_backend_plugin", "dup = another_plugin")
    error, text, _ = told(site, "dup://")
    assert error == "BackendConflict"
    assert text.startswith("dup:// is offered by two-backend, two-backend")


def test_one_module_may_stand_behind_two_schemes(site):
    """A module under two entry-point names opens under both, whichever is asked first."""
    site.module("both", "SCHEME = 'both'" + PRELUDE + hook("[spec(schemes=('aa', 'bb'))]"))
    site.distribution("both-backend", "aa = both", "bb = both")
    for urls in (("aa://", "bb://"), ("bb://", "aa://")):
        assert site.outcomes(*urls)["opened"] == dict.fromkeys(urls, WORKS)


def test_a_plugin_that_forgets_a_scheme_of_its_own_is_broken(site):
    """An entry point whose plugin describes other schemes alone is refused, its others work."""
    site.plugin(hook("[spec()]"), scheme="aa", name="both-backend")
    info = site.folder / "both_backend-0.1.dist-info" / "entry_points.txt"
    info.write_text(info.read_text() + "bb = both_backend_plugin\n")
    opened = site.outcomes("bb://", "aa://")["opened"]
    assert opened["bb://"][0][:2] == [
        "BackendBroken",
        "backend 'bb' of both-backend 0.1 describes no backend for bb://",
    ]
    assert opened["aa://"] == WORKS


def test_the_part_before_the_plus_selects_the_backend(site):
    """good+cluster:// is opened by the backend of good, which is told the whole scheme."""
    site.module("x_store", STORE.replace("    return", "    assert '+' in url.scheme\n    return"))
    site.plugin()
    assert told(site, "good+cluster://") == "works"


def test_a_distribution_without_metadata_harms_nobody(site):
    """What is left of a distribution that was half removed is named unknown, others work."""
    site.distribution("gone-backend", "gone = gone_plugin", metadata=False)
    error, text, _ = told(site, "gone://")
    assert error == "BackendBroken"
    assert text.startswith("backend 'gone' of unknown unknown failed to import: ModuleNotFound")


@pytest.mark.parametrize(
    "store",
    ["import driver", "import driver.client", "def open_url(url):\n    import driver"],
    ids=["module", "submodule", "late"],
)
def test_a_half_installed_backend_says_what_to_install(site, store):
    """A missing module that the backend requires gives the requirement, when it is imported."""
    site.plugin(hook("[spec(requires=(('driver', 'the-driver>=5'),))]"))
    site.module("x_store", store)
    error, text, cause = told(site, "good://")
    assert error == "BackendNotInstalled"
    assert text == (
        "backend 'good' needs 'the-driver>=5', which is not installed. "
        'Install it with: pip install "the-driver>=5"'
    )
    assert cause == "ModuleNotFoundError: No module named 'driver'"


def test_a_missing_part_of_a_namespace_package_says_what_to_install(site):
    """A requirement may be named by a module of several parts."""
    site.plugin(hook("[spec(requires=(('cloud.blobs', 'cloud-blobs'),))]"))
    site.module("x_store", "import cloud.blobs.client")
    assert told(site, "good://")[0] == "BackendNotInstalled"


@pytest.mark.parametrize(
    ("store", "cause"),
    [
        ("import driver", "ModuleNotFoundError: No module named 'what_the_driver_needs'"),
        ("from driver_of_old import new", "ImportError: cannot import name 'new' from"),
        ("import drive", "ModuleNotFoundError: No module named 'drive'"),
        ("raise ImportError('no wheel')", "ImportError: no wheel"),
        ("def open_url(url):\n    import drive", "ModuleNotFoundError: No module named 'drive'"),
    ],
)
def test_any_other_import_error_is_a_broken_backend(site, store, cause):
    """An ImportError that is not a missing requirement does not read as not installed."""
    site.plugin(hook("[spec(requires=(('driver', 'd'), ('driver_of_old', 'o')))]"))
    site.module("driver", "import what_the_driver_needs")
    site.module("driver_of_old", "")
    site.module("x_store", store)
    error, text, told_cause = told(site, "good://")
    assert error == "BackendBroken"
    assert text.startswith(f"backend 'good' failed to import: {cause}")
    assert told_cause.startswith(cause)


def test_nothing_is_imported_before_its_scheme_is_asked_for(site):
    """``import durably`` imports neither pluggy nor pydantic, opening x:// no plugin of y://."""
    site.plugin(scheme="asked")
    site.plugin(scheme="other")
    seen = site.outcomes("asked://")
    heavy = {"pluggy", "pydantic", "durably.plugins", "asked_backend_plugin", "x_store"}
    assert heavy & set(seen["before"]) == set()
    assert heavy <= set(seen["after"])
    others = {"other_backend_plugin", "durably_sqlite", "durably_sqlite._plugin", "aiosqlite"}
    assert others & set(seen["after"]) == set()


def test_describing_a_backend_does_not_import_it(site):
    """Finding a backend imports its light module, not what opens it."""
    site.plugin()
    code = "import sys; from durably.plugins import backends; backends.find('good')"
    tells = f"{code}; print('good_backend_plugin' in sys.modules, 'x_store' in sys.modules)"
    assert site.run("-c", tells) == "True False\n"


@pytest.mark.parametrize("disabled", ["good", " good , dup", "good,sqlite"])
def test_a_disabled_backend_is_not_used(site, disabled):
    """DURABLY_DISABLE_BACKENDS takes schemes out, also their + forms, and says so."""
    site.plugin()
    opened = site.outcomes(
        "good://", "good+tls://", "sqlite://", "memory://", DURABLY_DISABLE_BACKENDS=disabled
    )["opened"]
    refused = [
        "BackendNotInstalled",
        "backend 'good' is disabled. Take it out of DURABLY_DISABLE_BACKENDS to use it",
        None,
    ]
    assert opened["good://"] == opened["good+tls://"] == [refused, refused]
    assert (opened["sqlite://"] == WORKS) == ("sqlite" not in disabled)
    assert opened["memory://"] == WORKS


def test_a_disabled_backend_is_not_listed(monkeypatch):
    """A scheme that is disabled is neither among those installed nor suggested."""
    monkeypatch.setenv("DURABLY_DISABLE_BACKENDS", "memory")
    with pytest.raises(UnknownScheme) as caught:
        durably.open("memry://")
    assert caught.value.installed == ("redis", "rediss", "s3", "sqlite")
    assert caught.value.suggestion is None


def test_a_disabled_backend_is_not_used_although_registered(monkeypatch):
    """The environment's word counts more than the application's."""
    backends = Backends()
    backends.register(made())
    monkeypatch.setenv("DURABLY_DISABLE_BACKENDS", "good")
    with pytest.raises(BackendNotInstalled, match="disabled"):
        backends.find("good")


OURS = {"redis": "redis", "rediss": "redis", "s3": "s3", "sqlite": "sqlite"}


@pytest.mark.parametrize(("scheme", "extra"), list(OURS.items()))
def test_an_uninstalled_backend_of_ours_is_named_with_its_extra(monkeypatch, scheme, extra):
    """Where a distribution of ours is not installed, the message says how to install it."""
    monkeypatch.setattr("durably.plugins.offers", list)
    with pytest.raises(BackendNotInstalled) as caught:
        durably.plugins.Backends().find(scheme)
    assert str(caught.value) == (
        f'no backend for {scheme}:// is installed. Install it with: pip install "durably[{extra}]"'
    )


def test_a_missing_boto3_is_named(monkeypatch):
    """Where durably-s3 is there without boto3, the message says which one to install."""
    monkeypatch.delitem(sys.modules, "durably_s3._boto", raising=False)
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(
        BackendNotInstalled, match=r'Install it with: pip install "boto3>=1\.40,<2"'
    ):
        durably.open("s3://bucket/agents")


def test_every_scheme_of_ours_has_its_extra():
    """What installed distributions of ours offer is what the remedy knows, and its extra exists."""
    offered = {one.scheme: one for one in durably.plugins.offers()}
    named = {
        scheme: one.distribution.removeprefix("durably-")
        for scheme, one in offered.items()
        if one.distribution.startswith("durably-")
    }
    assert named == durably.plugins.FIRST_PARTY == OURS
    extras = metadata.metadata("durably").get_all("Provides-Extra")
    assert set(OURS.values()) <= set(extras)


def test_a_registered_plugin_wins_over_a_conflict(site):
    """Registering one of two that offer a scheme decides, unregistering brings the conflict."""
    site.plugin(scheme="dup", name="one-backend")
    site.plugin(scheme="dup", name="two-backend")
    code = """
import durably, one_backend_plugin
from durably.plugins import backends, register, unregister
def tried():
    try:
        return type(durably.open("dup://")).__name__
    except durably.DurablyError as error:
        return type(error).__name__
print(tried())
register(one_backend_plugin)
register(one_backend_plugin)
print(tried(), backends.find("dup").name)
unregister(one_backend_plugin)
print(tried())
"""
    assert site.run("-c", code) == "BackendConflict\nStorage dup\nBackendConflict\n"


def test_a_registered_plugin_wins_over_an_installed_one():
    """An application may put its own in the place of sqlite, and take it away again."""
    backends = Backends()
    before = backends.find("sqlite")
    mine = made(scheme="sqlite")
    backends.register(mine)
    assert backends.find("sqlite").open == "x_store:open_url"
    backends.unregister(mine)
    assert backends.find("sqlite") == before


def test_two_registered_plugins_with_one_scheme_are_a_conflict():
    """A second plugin does not take a scheme from the first; it does once that is forgotten."""
    backends = Backends()
    first, second = made(), made(hook("[spec(name='second', schemes=('new', 'good'))]"))
    backends.register(first)
    for _ in range(2):
        with pytest.raises(BackendConflict, match="good:// is offered by plugin 'good_plugin'"):
            backends.register(second)
    assert backends.find("good").name == "good"
    with pytest.raises(UnknownScheme):
        backends.find("new")
    backends.unregister(first)
    backends.register(second)
    assert backends.find("good").name == "second"


@pytest.mark.parametrize(
    ("source", "error", "text"),
    [
        ("", BackendBroken, "the registered plugin 'good_plugin' implements no hook"),
        (hook("42"), BackendBroken, "the registered plugin 'good_plugin' is described by a value"),
        (hook("1 / 0"), BackendBroken, "the registered plugin 'good_plugin' cannot be used: Zero"),
        (
            hook("[spec(contract=(1, 7))]"),
            ContractMismatch,
            "the registered plugin 'good_plugin' implements contract 1.7",
        ),
    ],
)
def test_a_plugin_that_is_refused_is_not_registered(source, error, text):
    """A refused plugin leaves nothing behind, is refused again alike, and can be mended."""
    backends = Backends()
    plugin = made(source)
    for _ in range(2):
        with pytest.raises(error) as caught:
            backends.register(plugin)
        assert str(caught.value).startswith(text)
    with pytest.raises(UnknownScheme):
        backends.find("good")
    with pytest.raises(ValueError, match="'good_plugin' is not registered"):
        backends.unregister(plugin)
    vars(plugin).update(vars(made()))
    backends.register(plugin)
    assert backends.find("good").name == "good"


def test_a_plugin_may_be_any_object():
    """An instance with a decorated method is a plugin as a module is."""
    backends = Backends()
    method = made(GOOD.replace("()", "(self)", 1)).durably_backends
    backends.register(type("Mine", (), {"durably_backends": method})())
    assert backends.find("good").name == "good"


def test_registering_opens_by_url():
    """durably.plugins.register is what durably.open asks."""
    plugin = made(hook("[spec(open='durably._memory_plugin:open_url')]"))
    durably.plugins.register(plugin)
    try:
        assert isinstance(durably.open("good://"), durably.Storage)
    finally:
        durably.plugins.unregister(plugin)
    with pytest.raises(UnknownScheme):
        durably.open("good://")


@pytest.mark.parametrize(("spoken", "accepted"), [((1, 3), True), ((1, 2), True), ((1, 1), False)])
def test_an_older_minor_of_the_contract_is_spoken(monkeypatch, spoken, accepted):
    """A backend made for contract 1.2 is taken by a durably of 1.2 and 1.3, refused by 1.1."""
    monkeypatch.setattr(_asking, "CONTRACT", spoken)
    backends = Backends()
    plugin = made(hook("[spec(contract=(1, 2))]"))
    if accepted:
        backends.register(plugin)
        assert backends.find("good").contract == (1, 2)
    else:
        with pytest.raises(ContractMismatch):
            backends.register(plugin)


def test_there_is_one_hook_and_its_name_stands_once():
    """The specification's name is the hook's only one; who asks takes it from there."""
    hooks = [name for name, value in vars(_hooks).items() if hasattr(value, "durably_spec")]
    assert hooks == [_asking.HOOK]
    assert inspect.getsource(_asking).count(_asking.HOOK) == 1


@pytest.mark.parametrize(
    ("read_options", "url", "found"),
    [
        ("", "good://x?a=1", {"a": "1"}),
        ("read_options=(('create', 'never'),)", "good://x?a=1", {"create": "never", "a": "1"}),
        ("read_options=(('create', 'never'),)", "good://x?create=yes", {"create": "yes"}),
    ],
)
def test_options_for_what_must_exist_are_added_where_asked(monkeypatch, read_options, url, found):
    """A backend's read_options are added to what the URL says, by tools that ask; none else."""
    seen = []
    module = ModuleType("x_seen")
    module.open_url = lambda given: seen.append(given.options) or durably.MemoryLogStore()
    monkeypatch.setitem(sys.modules, "x_seen", module)
    plugin = made(hook(f"[spec(open='x_seen:open_url', {read_options})]"))
    register(plugin)
    try:
        open_storage(url, must_exist=True)
        open_storage(url)
    finally:
        unregister(plugin)
    assert seen == [found, parse_url(url).options]
