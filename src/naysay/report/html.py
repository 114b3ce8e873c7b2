"""A report as one HTML file: no network, no script but its own, every value escaped."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from naysay.detect.result import Report
from naysay.report.page import Room, page_of
from naysay.report.version import installed_version

# A page larger than this is written again with less on it, until it is small enough or has the least.
_LARGEST = 480_000
# With more rules than this the least page is tried first: one that does not fit takes seconds to write.
_MANY_RULES = 200
_ROOM = (Room(50), Room(25), Room(12), Room(12, labels=False), Room(5, labels=False), Room(1, labels=False))


def write_page(report: Report, path: Path) -> None:
    path.write_text(to_html(report), encoding="utf-8")


def to_html(report: Report) -> str:
    """The report as the text of an HTML document."""
    least = None
    if len(report.results) > _MANY_RULES:
        least = _render(report, _ROOM[-1])
        if len(least.encode()) > _LARGEST:
            return least
    for room in _ROOM[:-1]:
        text = _render(report, room)
        if len(text.encode()) <= _LARGEST:
            return text
    return least or _render(report, _ROOM[-1])


def standalone(template: str, **values: Any) -> str:
    """A document of another of our templates with our style, without a script."""
    style = _asset("page.css")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"
    return render_template(template, policy=policy, style=Markup(style), version=installed_version(), **values)


def _render(report: Report, room: Room) -> str:
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return render_template(
        "page.html.jinja",
        page=page_of(report, room),
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        version=installed_version(),
    )


def render_template(name: str, **values: Any) -> str:
    """Fill in one of our templates. Every value is escaped unless it is our own Markup."""
    return _environment().get_template(name).render(**values)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("naysay.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _asset(name: str) -> str:
    """A style sheet or a script of ours, as it stands in the page between its tags."""
    loader = _environment().loader
    assert loader is not None
    return loader.get_source(_environment(), name)[0]


def _hash(text: str) -> str:
    """The name by which a content policy allows exactly this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
