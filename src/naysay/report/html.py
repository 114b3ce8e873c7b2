"""Results as HTML: a self-contained page for a browser, and cells for a notebook. Every value is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import jinja2
import pyarrow as pa
from markupsafe import Markup

from naysay.detect.result import Listing, Report, RuleResult, SamplePair, Verdict
from naysay.plan.join import join_of
from naysay.plan.shape import Plan, plan_for
from naysay.report.view import (
    Line,
    Outcome,
    cause_line,
    group_line,
    headline,
    involved_columns,
    joint_sentence,
    lines,
    named,
    numbers,
    outcome,
    outcomes,
    pair_named,
    run_facts,
    sentence,
    source_name,
    suspects_line,
    tolerances,
    warnings_in_words,
    worst,
    worst_first,
)
from naysay.report.words import (
    counted,
    duration,
    listing_title,
    meaning,
    printable,
    rule_text,
    shortened,
    shown,
    split_difference,
    title,
)
from naysay.rule.model import Rule
from naysay.table.frame import plain_values
from naysay.version import __version__

if TYPE_CHECKING:
    from naysay.watch.change import Change

_LONGEST_VALUE = 90
_LONG_VALUE = 28
_LONGEST_TITLE = 200
_MOST_LINKS = 4
_MOST_SUSPECTS = 20
_CHART_WIDTH, _CHART_HEIGHT = 600, 64


@dataclass(frozen=True, slots=True)
class Room:
    """How much fits on a page: the number of pairs per rule, and labels on the bars of charts or none."""

    n_pairs: int
    labels: bool = True


@dataclass(frozen=True, slots=True)
class Cell:
    """A value split into the text before, inside and after the part that differs from the other row."""

    before: str
    differs: str = ""
    after: str = ""

    @property
    def is_long(self) -> bool:
        """Whether it may take several lines."""
        return len(self.before) + len(self.differs) + len(self.after) > _LONG_VALUE


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of the pairs table, over one column of cells or over two (the left and the right row)."""

    text: str
    sign: str
    span: int


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a chart, in the coordinates of the chart, with its tooltip."""

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class CauseBars:
    """A cause in words, and as two bars in percent: its share of the rows to fix, and of all rows."""

    text: str
    to_fix: float
    rows: float


@dataclass(frozen=True, slots=True)
class Card:
    """Everything that is shown about a rule."""

    anchor: str
    outcome: str
    title: str
    text: str
    meaning: str
    sentence: str
    example: str
    suspects: str
    groups: tuple[str, ...]
    causes: tuple[CauseBars, ...]
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
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BusyRow:
    """A row that is often in conflict, with links to some of the rules that it breaks."""

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
    warnings: tuple[tuple[str, str], ...]
    removal: str
    suspects: str


def page_of(report: Report, room: Room) -> Page:
    """Lay out a report in the given room."""
    names = [title(result.rule) for result in report.results]
    return Page(
        title=source_name(report),
        # The tiles below show warnings and tolerances.
        headline=headline(report).split(";")[0].rstrip(".") + ".",
        outcome=worst(report).value,
        facts=(
            counted(report.n_rows, "row"),
            counted(len(report.columns), "column"),
            f"{report.engine} engine",
            duration(report.seconds),
            *run_facts(report),
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
        warnings=tuple(warnings_in_words(report)),
        removal=joint_sentence(report),
        suspects=suspects_line(report, _MOST_SUSPECTS),
    )


def anchor(place: int) -> str:
    return f"rule-{place + 1}"


def _tiles(report: Report) -> Iterator[tuple[str, str, str]]:
    found = outcomes(report)
    yield f"{len(report):,}", "rules checked", ""
    yield f"{found[Outcome.BROKEN]:,}", "broken", "broken" if found[Outcome.BROKEN] else ""
    if found[Outcome.INCOMPLETE]:
        yield f"{found[Outcome.INCOMPLETE]:,}", "on too few rows", "broken"
    n_warnings = found[Outcome.WARNED] + len(report.warnings)
    if n_warnings:
        yield f"{n_warnings:,}", "warning" if n_warnings == 1 else "warnings", Outcome.WARNED.value
    if found[Outcome.TOLERATED]:
        yield f"{found[Outcome.TOLERATED]:,}", "within tolerance", Outcome.TOLERATED.value
    if report.rows_in_conflict is not None:
        yield f"{report.rows_in_conflict:,}", "rows in conflict", ""
    if report.rows_to_remove is not None:
        yield str(report.rows_to_remove), "rows to remove", ""


def _columns(report: Report) -> Iterator[tuple[str, int, str, float]]:
    """Name, rules, violations, and the number of rules relative to the most involved column, in percent."""
    involved = involved_columns(report)[:20]
    most = max((n_rules for _, n_rules, _ in involved), default=1)
    for name, n_rules, n_violations in involved:
        yield name, n_rules, f"{n_violations:,}", round(100 * n_rules / most, 1)


def _notes(report: Report) -> Iterator[str]:
    yield f"Rows are identified by: {printable(report.identity)}."
    if report.nulls.value == "sql":
        yield "A comparison with null is false, as in SQL."
    else:
        yield "Null equals null, differs from every value, and is neither less nor greater than anything."
    yield "A violation is an ordered pair of rows; a pair that breaks a rule in both orders counts twice."
    missing = _missing(report)
    if missing:
        yield f"The {report.engine} engine does not report {missing}; --engine local does, if the table fits in memory."


def _missing(report: Report) -> str:
    """What the page would show about broken rules but the engine did not compute; nothing after a quick check."""
    broken = [result for result in report.results if not result.holds and result.measured is None]
    if not broken or any(result.violations is None for result in broken):
        return ""
    parts = [
        "" if any(any(result.where) for result in broken) else "where in the table the rows in conflict are",
        "" if report.busiest else "which rows are in conflict most often",
        "" if report.rows_in_conflict is not None else "how many rows break any of the rules",
    ]
    named_parts = [part for part in parts if part]
    return " and ".join([", ".join(named_parts[:-1]), named_parts[-1]] if len(named_parts) > 1 else named_parts)


def _card(place: int, result: RuleResult, report: Report, room: Room) -> Card:
    rule = result.rule
    violations, rows, remove = numbers(result)
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
        example=f"For example {pair_named(sample[0])}: {printable(sample[0].reason)}." if sample else "",
        suspects=suspects_line(result, _MOST_SUSPECTS),
        groups=tuple(group_line(group) for group in result.first_groups[: room.n_pairs]),
        causes=tuple(_causes(result, report.n_rows)),
        facts=tuple(_facts(result)),
        violations=violations,
        rows=rows,
        remove=remove,
        plan=plan_for(rule),
        bars=bars,
        chart_caption=caption,
        headings=_headings(result, sample[0]) if sample else (),
        pairs=pairs,
        pairs_caption=_pairs_caption(result, len(pairs)),
        warnings=tuple(printable(caution.message) for caution in result.warnings) if room.n_pairs > 1 else (),
    )


def _causes(result: RuleResult, n_rows: int) -> Iterator[CauseBars]:
    for place, cause in enumerate(result.causes):
        text = cause_line(cause, n_rows, is_first=place == 0)
        shares = (cause.suspects / cause.of_suspects, cause.rows / cause.of_rows)
        yield CauseBars(text[:1].upper() + text[1:], *(round(100 * each, 1) for each in shares))


def _facts(result: RuleResult) -> Iterator[tuple[str, str]]:
    yield "severity", result.rule.severity.value
    yield from tolerances(result.rule)
    if result.rule.min_rows is not None:
        yield "rows needed", f"{result.rule.min_rows:,}"
    if result.rule.owner:
        yield "owner", printable(result.rule.owner)
    if result.rule.tags:
        yield "tags", ", ".join(map(printable, result.rule.tags))
    yield "time", duration(result.seconds)


def _pairs_caption(result: RuleResult, n_shown: int) -> str:
    noun = "row" if result.rule.is_one_row else "pair"
    if result.violations is None:
        return f"the first {noun} found"
    # A pair that breaks the rule in both orders is two violations but is listed once.
    symmetric = result.rule.measure is None and join_of(result.rule).symmetric
    n_all = result.violations // 2 if symmetric else result.violations
    count = f"all {counted(n_all, noun)}" if n_shown >= n_all > 1 else f"{n_shown:,} of {counted(n_all, noun)}"
    return f"{count}, each in both orders" if symmetric and noun == "pair" else count


def _chart(result: RuleResult, n_rows: int, room: Room) -> tuple[tuple[Bar, ...], str]:
    """Bars that show where in the table the rows in conflict are, and a caption."""
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
    caption = f"Where the rows in conflict are, from the first row to the last; the tallest bar is {tallest:,} of "
    return tuple(bars), caption + f"{counted(-(-n_rows // len(counts)), 'row')}."


def _headings(result: RuleResult, pair: SamplePair) -> tuple[Heading, ...]:
    rows = Heading("rows" if pair.right is not None else "row", "", 2 if pair.right is not None else 1)
    return (rows, *(Heading(shortened(line.column, 60), line.sign, _span(line)) for line in lines(result.rule, pair)))


def _span(line: Line) -> int:
    """Equal values are shown once."""
    return 1 if line.sign == "=" or line.left is None or line.right is None else 2


def _pair_cells(result: RuleResult, pair: SamplePair) -> tuple[Cell, ...]:
    cells = [Cell(_identity(pair.left))]
    if pair.right is not None:
        cells.append(Cell(_identity(pair.right)))
    for line in lines(result.rule, pair):
        if _span(line) == 2:
            cells += [Cell(*parts) for parts in split_difference(line.left or "", line.right or "", _LONGEST_VALUE)]
        else:
            value = line.left if line.left is not None else line.right
            cells.append(Cell(shortened(value or "", _LONGEST_VALUE)))
    return tuple(cells)


def _identity(identity: Mapping[str, Any]) -> str:
    """A row number or the value of a one-column key; a key of several columns includes their names."""
    values = list(identity.values())
    return shortened(shown(values[0]) if len(values) == 1 else named(identity), _LONGEST_VALUE)


# A page larger than this is rendered again with less room, until it is small enough or has the least room.
_LARGEST = 480_000
# With more rules than this the smallest page is tried first, because rendering a page that is too large takes seconds.
_MANY_RULES = 200
_ROOM = (Room(50), Room(25), Room(12), Room(12, labels=False), Room(5, labels=False), Room(1, labels=False))


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


def _render(report: Report, room: Room) -> str:
    return standalone("page.html.jinja", _asset("page.js"), page=page_of(report, room))


def standalone(template: str, script: str = "", **values: Any) -> str:
    """Fill in a template for a page whose content policy allows only our style and the given script."""
    style = _asset("page.css")
    scripts = f"script-src '{_hash(script)}'; " if script else ""
    policy = f"default-src 'none'; {scripts}style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"
    ours = {"style": Markup(style), "script": Markup(script), "version": __version__}
    return render_template(template, policy=policy, **ours, **values)


def render_template(name: str, **values: Any) -> str:
    """Fill in a template. Every value is escaped unless it is our own Markup."""
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
    """The text of our style sheet or script."""
    loader = _environment().loader
    assert loader is not None
    return loader.get_source(_environment(), name)[0]


def _hash(text: str) -> str:
    """The hash by which a content policy allows exactly this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


_PAIRS_IN_A_CELL = 5
_ROWS_IN_A_CELL = 20


def report_cell(report: Report) -> str:
    """The results as a table, with the pairs of broken rules collapsed below it."""
    page = page_of(report, Room(_PAIRS_IN_A_CELL, labels=False))
    return render_template("report_cell.html.jinja", page=page)


def table_cell(text: str, code: str = "", names: Sequence[str] = (), rows: Sequence[Sequence[str]] = ()) -> str:
    """A line of text, perhaps with code in it, and perhaps a table."""
    return render_template("table_cell.html.jinja", text=text, code=code, names=names, rows=rows)


def verdict_cell(verdict: Verdict) -> str:
    witness = verdict.witness
    reason = "" if witness is None else f" ({printable(witness.reason)})"
    return table_cell("Holds:" if verdict.holds else f"Broken{reason}:", rule_text(verdict.rule))


def rule_cell(rule: Rule) -> str:
    return table_cell(meaning(rule), rule_text(rule))


def listing_cell(listing: Listing) -> str:
    """The first rows as a table."""
    names, rows = _first_rows(listing.head(_ROWS_IN_A_CELL))
    cut = f", the first {len(rows):,}" if len(rows) < listing.total else ""
    text = f"{listing_title(listing.rule)}: {counted(listing.total, listing.noun)}{cut}"
    return table_cell(text, "", names, rows)


def change_cell(change: Change) -> str:
    """The first violations that a batch added or removed, as a table."""
    from naysay.report.json_ import change_table
    from naysay.report.terminal import change_text

    names, rows = _first_rows(change_table(change))
    n_hidden = change.n_added + change.n_removed - len(rows)
    text = change_text(change).splitlines()[0]
    return table_cell(text + (f"; the first {len(rows):,} changes" if n_hidden else ""), "", names, rows)


def _first_rows(table: pa.Table) -> tuple[list[str], list[list[str]]]:
    first = table.slice(0, _ROWS_IN_A_CELL)
    rows = [[shown(value) for value in row] for row in zip(*map(plain_values, first.columns), strict=True)]
    return [printable(name) for name in first.column_names], rows
