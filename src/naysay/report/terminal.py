"""A report on a terminal: the answer first, then a line a rule, then the broken rules with pairs of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from naysay.detect.result import Report, RuleResult, SamplePair
from naysay.report.view import (
    Line,
    Outcome,
    headline,
    is_known_by_key,
    lines,
    named,
    outcome,
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
    title,
    windows,
)

STYLES = {
    Outcome.BROKEN: "bold red",
    Outcome.WARNED: "bold yellow",
    Outcome.TOLERATED: "yellow",
    Outcome.HOLDS: "green",
}
_MARKS = {Outcome.BROKEN: "✗", Outcome.WARNED: "!", Outcome.TOLERATED: "~", Outcome.HOLDS: "✓"}
_NUMBERS = ("violations", "rows", "to remove")
_PLAIN_MARKS = {**_MARKS, Outcome.BROKEN: "x", Outcome.HOLDS: "+"}


@dataclass(frozen=True, slots=True)
class Detail:
    """How much to print: so many pairs a rule (None: fewer the more rules are broken); in quiet no pairs at all."""

    n_pairs: int | None = None
    quiet: bool = False

    def pairs_for(self, report: Report) -> int:
        if self.n_pairs is not None:
            return self.n_pairs
        n_broken = sum(not result.holds for result in report.results)
        return 3 if n_broken <= 3 else 2 if n_broken <= 6 else 1


def print_report(report: Report, console: Console, detail: Detail | None = None) -> None:
    """Print a report. In quiet, the headline and a line for each rule that does not hold."""
    print_trimmed(console, lambda: _print(report, console, detail or Detail()))


def print_trimmed(console: Console, work: Callable[[], None]) -> None:
    """Print without the padding of tables and wrapped lines, which is noise in a file."""
    with console.capture() as capture:
        work()
    text = "".join(line.rstrip(" ") + "\n" for line in capture.get().splitlines())
    console.out(text, end="", highlight=False)


def _print(report: Report, console: Console, detail: Detail) -> None:
    console.print(_summary(report, console))
    _print_rules(report, console, detail)
    if detail.quiet:
        return
    for _, result in worst_first(report):
        if not result.holds:
            console.print()
            _print_broken(result, report, console, detail.pairs_for(report))
    if any(result.sample for result in report.results) and not is_known_by_key(report):
        console.print()
        console.print(Text(f"Rows are known by {printable(report.identity)}; --key COLUMN names them.", "dim"))


def mark(result_outcome: Outcome, console: Console) -> str:
    return (_MARKS if console.encoding.lower().startswith("utf") else _PLAIN_MARKS)[result_outcome]


def _summary(report: Report, console: Console) -> Text:
    worst = min((outcome(result) for result in report.results), key=list(Outcome).index, default=Outcome.HOLDS)
    text = Text.assemble((f"{mark(worst, console)} {headline(report)}", STYLES[worst]))
    facts = [
        source_name(report),
        counted(report.n_rows, "row"),
        counted(len(report.columns), "column"),
        f"{report.engine} engine",
        duration(report.seconds),
    ]
    text.append("\n  " + " · ".join(facts), "dim")
    return text


def _print_rules(report: Report, console: Console, detail: Detail) -> None:
    entries = [result for _, result in worst_first(report) if not (detail.quiet and result.holds)]
    if not entries:
        return
    has_names = any(result.rule.name for result in entries)
    rows = [_cells(result, has_names, console) for result in entries]
    headings = ["", *(["rule"] if has_names else []), "violations", "rows", "to remove", "" if has_names else "rule"]
    widths = [max(cell_len(heading), *(row[i].cell_len for row in rows)) for i, heading in enumerate(headings)]
    if has_names:
        widths[1] = min(widths[1], max(console.width // 3, 12))
    # The text of the rules takes what the other columns leave.
    widths[-1] = min(widths[-1], max(console.width - sum(widths[:-1]) - 2 * len(widths), 12))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", collapse_padding=True)
    for heading, width in zip(headings, widths, strict=True):
        number = heading in _NUMBERS
        table.add_column(heading, width=width, justify="right" if number else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)


def _cells(result: RuleResult, has_names: bool, console: Console) -> list[Text]:
    found = outcome(result)
    name = [Text(title(result.rule) if result.rule.name else "", STYLES[found])] if has_names else []
    numbers = [
        "0" if result.holds else ("1 or more" if result.violations is None else f"{result.violations:,}"),
        "" if result.rows_in_conflict is None or result.holds else f"{result.rows_in_conflict:,}",
        "" if result.rows_to_remove is None or result.holds else str(result.rows_to_remove),
    ]
    rest = Text(rule_text(result.rule), "dim" if has_names else STYLES[found])
    return [Text(mark(found, console), STYLES[found]), *name, *(Text(number) for number in numbers), rest]


def _print_broken(result: RuleResult, report: Report, console: Console, n_pairs: int) -> None:
    found = outcome(result)
    heading = Text.assemble((f"{mark(found, console)} {title(result.rule)}", STYLES[found]))
    if result.rule.name:
        heading.append(f"  {rule_text(result.rule)}")
    console.print(heading)
    console.print(Padding(Text(meaning(result.rule), "dim"), (0, 0, 0, 2)))
    console.print(Padding(Text(sentence(result, report.n_rows)), (0, 0, 0, 2)))
    for pair in result.sample[:n_pairs]:
        console.print()
        console.print(Padding(_pair_table(result, pair, console.width - 4), (0, 0, 0, 4)))
        console.print(Padding(Text(printable(pair.reason), "italic"), (0, 0, 0, 4)))


def _pair_table(result: RuleResult, pair: SamplePair, width: int) -> Table:
    """Both rows side by side: what they are known by, then each compared column, blame marked."""
    two = pair.right is not None
    found = lines(result.rule, pair)
    name_width = min(max(len(line.column) for line in found), max(width // 4, 8))
    each = max((width - name_width - (11 if two else 6)) // (2 if two else 1), 8)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column("", no_wrap=True, max_width=name_width, overflow="ellipsis")
    table.add_column(Text(shortened(named(pair.left), each)), no_wrap=True, max_width=each, overflow="ellipsis")
    if two:
        table.add_column("", no_wrap=True)
        table.add_column(Text(shortened(named(pair.right or {}), each)), no_wrap=True, max_width=each)
    table.add_column("", no_wrap=True)
    for line in found:
        left, right = _values(line, each)
        sign = [Text(line.sign, "bold" if line.marked else "dim"), right] if two else []
        table.add_row(Text(line.column, "dim"), left, *sign, Text("<-" if line.marked else "", "bold red"))
    return table


def _values(line: Line, width: int) -> tuple[Text, Text]:
    left, right = line.left or "", line.right or ""
    if line.sign != "≠":
        style = "bold" if line.marked else ""
        return Text(shortened(left, width), style), Text(shortened(right, width), style)
    left, right = windows(left, right, width)
    start = common_prefix(left, right)
    end = common_suffix(left, right, start)
    return _stressed(left, start, end), _stressed(right, start, end)


def _stressed(text: str, start: int, end: int) -> Text:
    """The text with the part that differs stressed: all but so many characters at its start and end."""
    shown = Text(text, "red")
    shown.stylize("bold underline", start, len(text) - end)
    return shown
