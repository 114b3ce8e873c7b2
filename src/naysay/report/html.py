"""A report as one HTML file: no network, no script but its own, every value escaped."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from naysay.report.page import page_of
from naysay.report.version import installed_version
from naysay.verbs.result import Report

# A page larger than this is written again with half as many pairs, until it is small or has one pair a rule.
_LARGEST = 480_000
_N_PAIRS = 50


def write_page(report: Report, path: Path) -> None:
    path.write_text(to_html(report), encoding="utf-8")


def to_html(report: Report) -> str:
    """The report as the text of an HTML document."""
    n_pairs = _N_PAIRS
    while True:
        text = _render(report, n_pairs)
        if len(text.encode()) <= _LARGEST or n_pairs == 1:
            return text
        n_pairs //= 2


def _render(report: Report, n_pairs: int) -> str:
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return _environment().get_template("page.html.jinja").render(
        page=page_of(report, n_pairs),
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        version=installed_version(),
    )


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
