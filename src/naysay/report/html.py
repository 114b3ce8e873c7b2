"""A report as one HTML file: no network, no script but its own, every value escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from naysay.detect.result import Report, RuleResult, SamplePair
from naysay.plan.join import join_of
from naysay.plan.shape import Plan, plan_of
from naysay.report.version import installed_version
from naysay.report.view import (
    Line,
    Outcome,
    headline,
    involved_columns,
    lines,
    named,
    outcome,
    outcomes,
    rule_names,
    sentence,
    source_name,
    worst_first,
)
from naysay.report.words import (
    common_prefix,
    common_suffix,
    counted,
    duration,
    meaning,
    printable,
    rule_text,
    shortened,
    shown,
    title,
    windows,
)

_LONGEST_VALUE = 90
_LONG_VALUE = 28
_LONGEST_TITLE = 200
_MOST_LINKS = 4
_CHART_WIDTH, _CHART_HEIGHT = 600, 64


@dataclass(frozen=True, slots=True)
class Room:
    """How much has room on a page: so many pairs a rule, and labels on the bars of charts."""

    n_pairs: int
    labels: bool = True


@dataclass(frozen=True, slots=True)
class Cell:
    """A value as the text before, inside and after the part that differs from the other row's."""

    before: str
    differs: str = ""
    after: str = ""

    @property
    def is_long(self) -> bool:
        """Whether it may take several lines."""
        return len(self.before) + len(self.differs) + len(self.after) > _LONG_VALUE


@dataclass(frozen=True, slots=True)
class Heading:
    """A column of the pairs table: over one column of cells, or over two, the left row's and the right row's."""

    text: str
    sign: str
    span: int


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a chart, in the chart's own coordinates, and what it says when pointed at."""

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Card:
    """A rule and all that is shown of it."""

    anchor: str
    outcome: str
    title: str
    text: str
    meaning: str
    sentence: str
    example: str
    facts: tuple[tuple[str, str], ...]
    violations: str
    rows: str
    remove: str
    plan: Plan
    bars: tuple[Bar, ...]
    chart_caption: str
    headings: tuple[Heading, ...]
    pairs: tuple[tuple[Cell, ...], ...]
    pairs_caption: str


@dataclass(frozen=True, slots=True)
class BusyRow:
    """A row that is often in conflict, with links to the first of its rules."""

    name: str
    conflicts: str
    n_rules: int
    links: tuple[tuple[str, str], ...]
    n_more: int


@dataclass(frozen=True, slots=True)
class Page:
    """The whole page."""

    title: str
    headline: str
    outcome: str
    facts: tuple[str, ...]
    tiles: tuple[tuple[str, str, str], ...]
    cards: tuple[Card, ...]
    busiest: tuple[BusyRow, ...]
    columns: tuple[tuple[str, int, str, float], ...]
    table: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]


def page_of(report: Report, room: Room) -> Page:
    """Lay out a report in the room that there is."""
    names = rule_names(report)
    worst = min((outcome(result) for result in report.results), key=list(Outcome).index, default=Outcome.HOLDS)
    return Page(
        title=source_name(report),
        # The tiles below it tell of warnings and tolerances.
        headline=headline(report).split(";")[0].rstrip(".") + ".",
        outcome=worst.value,
        facts=(
            counted(report.n_rows, "row"),
            counted(len(report.columns), "column"),
            f"{report.engine} engine",
            duration(report.seconds),
        ),
        tiles=tuple(_tiles(report)),
        cards=tuple(_card(place, result, report, room) for place, result in worst_first(report)),
        busiest=tuple(
            BusyRow(
                name=shortened(named(row.identity), _LONGEST_VALUE),
                conflicts=f"{row.conflicts:,}",
                n_rules=len(row.rules),
                links=tuple((anchor(place), shortened(names[place], 40)) for place in row.rules[:_MOST_LINKS]),
                n_more=max(len(row.rules) - _MOST_LINKS, 0),
            )
            for row in report.busiest
        ),
        columns=tuple(_columns(report)),
        table=tuple(
            (printable(column.name), printable(column.type), "" if column.n_nulls is None else f"{column.n_nulls:,}")
            for column in report.schema
        ),
        notes=tuple(_notes(report)),
    )


def anchor(place: int) -> str:
    return f"rule-{place + 1}"


def _tiles(report: Report) -> Iterator[tuple[str, str, str]]:
    found = outcomes(report)
    yield f"{len(report):,}", "rules checked", ""
    yield f"{found[Outcome.BROKEN]:,}", "broken", "broken" if found[Outcome.BROKEN] else ""
    for which, words in ((Outcome.WARNED, "warnings"), (Outcome.TOLERATED, "within tolerance")):
        if found[which]:
            yield f"{found[which]:,}", words, which.value
    if report.rows_in_conflict is not None:
        yield f"{report.rows_in_conflict:,}", "rows in conflict", ""


def _columns(report: Report) -> Iterator[tuple[str, int, str, float]]:
    """Name, rules, violations, and the share of the most involved column, as a width of 100."""
    involved = involved_columns(report)[:20]
    most = max((n_rules for _, n_rules, _ in involved), default=1)
    for name, n_rules, n_violations in involved:
        yield name, n_rules, f"{n_violations:,}", round(100 * n_rules / most, 1)


def _notes(report: Report) -> Iterator[str]:
    yield f"Rows are known by: {printable(report.identity)}."
    if report.nulls.value == "sql":
        yield "A comparison with null is false, as in SQL."
    else:
        yield "Null equals null, differs from every value, and has no order."
    yield "A violation is an ordered pair of rows; a pair that breaks a rule both ways round counts twice."
    missing = _missing(report)
    if missing:
        yield f"The {report.engine} engine does not tell {missing}; --engine local does, where memory allows."


def _missing(report: Report) -> str:
    """What a page of broken rules would show and the engine did not find out; nothing after a quick check."""
    broken = [result for result in report.results if not result.holds]
    if not broken or any(result.violations is None for result in broken):
        return ""
    parts = [
        "" if any(any(result.where) for result in broken) else "where in the table the rows in conflict lie",
        "" if report.busiest else "which rows are in conflict most often",
        "" if report.rows_in_conflict is not None else "how many rows break any rule at all",
    ]
    told = [part for part in parts if part]
    return ", ".join(told[:-1]) + (" and " if len(told) > 1 else "") + told[-1] if told else ""


def _card(place: int, result: RuleResult, report: Report, room: Room) -> Card:
    rule = result.rule
    sample = result.sample[: room.n_pairs]
    pairs = tuple(_pair_cells(result, pair) for pair in sample)
    bars, caption = _chart(result, report.n_rows, room)
    return Card(
        anchor=anchor(place),
        outcome=outcome(result).value,
        title=shortened(title(rule), _LONGEST_TITLE),
        text=shortened(rule_text(rule), 2_000) if rule.name else "",
        meaning=shortened(meaning(rule), 2_000),
        sentence=sentence(result, report.n_rows),
        example=_example(sample[0]) if sample else "",
        facts=tuple(_facts(result)),
        violations="1 or more" if result.violations is None else f"{result.violations:,}",
        rows="" if result.rows_in_conflict is None else f"{result.rows_in_conflict:,}",
        remove="" if result.rows_to_remove is None else str(result.rows_to_remove),
        plan=plan_of(join_of(rule)),
        bars=bars,
        chart_caption=caption,
        headings=_headings(result, sample[0]) if sample else (),
        pairs=pairs,
        pairs_caption=_pairs_caption(result, len(pairs)),
    )


def _facts(result: RuleResult) -> Iterator[tuple[str, str]]:
    yield "severity", result.rule.severity.value
    if result.rule.max_violations is not None:
        yield "tolerated violations", f"{result.rule.max_violations:,}"
    if result.rule.max_fraction is not None:
        yield "tolerated share", f"{100 * result.rule.max_fraction:.12g}%"
    yield "time", duration(result.seconds)


def _example(pair: SamplePair) -> str:
    rows = named(pair.left) + (f" and {named(pair.right)}" if pair.right is not None else "")
    return f"For example {rows}: {printable(pair.reason)}."


def _pairs_caption(result: RuleResult, n_shown: int) -> str:
    noun = "row" if result.rule.is_one_row else "pair"
    if result.violations is None:
        return f"the first {noun} found"
    # A pair that breaks the rule both ways round is two violations and stands here once.
    symmetric = join_of(result.rule).symmetric
    n_all = result.violations // 2 if symmetric else result.violations
    count = f"all {counted(n_all, noun)}" if n_shown >= n_all > 1 else f"{n_shown:,} of {counted(n_all, noun)}"
    return f"{count}, each both ways" if symmetric and noun == "pair" else count


def _chart(result: RuleResult, n_rows: int, room: Room) -> tuple[tuple[Bar, ...], str]:
    """Bars of the rows in conflict over the table, first rows left, and a line of text."""
    counts = result.where
    if not counts or not any(counts):
        return (), ""
    tallest = max(counts)
    width = _CHART_WIDTH / len(counts)
    bars = []
    for place, count in enumerate(counts):
        if count:
            first, last = -(-place * n_rows // len(counts)), -(-(place + 1) * n_rows // len(counts)) - 1
            height = max(_CHART_HEIGHT * count / tallest, 1.5)
            label = f"rows {first:,} to {last:,}: {count:,} in conflict" if room.labels else ""
            x, y = round((place + 1 / 16) * width, 1), round(_CHART_HEIGHT - height, 1)
            bars.append(Bar(x, y, round(width * 7 / 8, 1), round(height, 1), label))
    caption = f"Where the rows in conflict lie, from the first row to the last; the tallest bar is {tallest:,} of "
    return tuple(bars), caption + f"{counted(-(-n_rows // len(counts)), 'row')}."


def _headings(result: RuleResult, pair: SamplePair) -> tuple[Heading, ...]:
    rows = Heading("rows" if pair.right is not None else "row", "", 2 if pair.right is not None else 1)
    return (rows, *(Heading(shortened(line.column, 60), line.sign, _span(line)) for line in lines(result.rule, pair)))


def _span(line: Line) -> int:
    """Values that are equal stand once."""
    return 1 if line.sign == "=" or line.left is None or line.right is None else 2


def _pair_cells(result: RuleResult, pair: SamplePair) -> tuple[Cell, ...]:
    cells = [Cell(_identity(pair.left))]
    if pair.right is not None:
        cells.append(Cell(_identity(pair.right)))
    for line in lines(result.rule, pair):
        if _span(line) == 2:
            cells += _differing(line.left or "", line.right or "")
        else:
            value = line.left if line.left is not None else line.right
            cells.append(Cell(shortened(value or "", _LONGEST_VALUE)))
    return tuple(cells)


def _identity(identity: Mapping[str, Any]) -> str:
    """A row number or a key of one column as it is, a key of several with its names."""
    values = list(identity.values())
    return shortened(shown(values[0]) if len(values) == 1 else named(identity), _LONGEST_VALUE)


def _differing(left: str, right: str) -> list[Cell]:
    left, right = windows(left, right, _LONGEST_VALUE)
    start = common_prefix(left, right)
    end = common_suffix(left, right, start)
    return [Cell(text[:start], text[start : len(text) - end], text[len(text) - end :]) for text in (left, right)]


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
