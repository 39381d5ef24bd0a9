"""Keeping the secrets of a URL out of everything that is printed or written."""

import re
from urllib.parse import quote

from msgspec import structs

from durably import DurablyError
from durably.commands.harmless import masked
from durably.urls import StorageUrl, is_secret, parse_url
from durably_conformance.report import BackendInfo, Report, Result

__all__ = ["Mask"]

SHORTEST = 4
"""Characters; a shorter secret is hidden where a URL shows it, and not wherever it occurs."""


class Mask:
    """Hides the secrets of what is judged, a URL or anything else, in text that others wrote.

    Passwords and secret options are hidden in every URL; those of this URL also where a driver
    repeats them by themselves.
    """

    def __init__(self, target: str = "") -> None:
        found = sorted(_secrets(target), key=len, reverse=True)
        words = "|".join(re.escape(one) for one in found)
        self._secret = re.compile(rf"(?<!\w)(?:{words})(?!\w)") if words else None

    def __call__(self, text: str) -> str:
        """Return a text without secrets."""
        hidden = masked(text)
        return hidden if self._secret is None else self._secret.sub("***", hidden)

    def result(self, result: Result) -> Result:
        """Return a result without secrets in its reason."""
        if result.reason is None:
            return result
        return structs.replace(result, reason=self(result.reason))

    def report(self, report: Report) -> Report:
        """Return a report without secrets in what others wrote."""
        backend = {name: self(text) for name, text in structs.asdict(report.backend).items()}
        return structs.replace(
            report,
            backend=BackendInfo(**backend),
            capabilities={name: self(text) for name, text in report.capabilities.items()},
            why=tuple(self(line) for line in report.why),
            checks=tuple(self.result(one) for one in report.checks),
        )


def _secrets(target: str) -> set[str]:
    """Return what must not be seen, as it is and percent-encoded.

    What a URL says in public, too, as a database called like its password, is no secret.
    """
    try:
        url = parse_url(target)
    except DurablyError:
        return set()
    options = [value for name, value in url.options.items() if is_secret(name)]
    found = {one for one in (url.password, *options) if one and len(one) >= SHORTEST}
    return {form for one in found - _public(url) for form in (one, quote(one, safe=""))}


def _public(url: StorageUrl) -> set[str]:
    told = [value for name, value in url.options.items() if not is_secret(name)]
    return {url.scheme, url.username or "", url.host, *url.path.split("/"), *told}
