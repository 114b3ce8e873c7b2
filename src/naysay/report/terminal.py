"""Results on a terminal: the answer first, then a line per rule, then the broken rules with pairs of rows."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from naysay.detect.result import Listing, Report, RuleResult, SamplePair, Verdict
from naysay.report.view import (
    Line,
    Outcome,
    cause_line,
    group_line,
    has_key,
    headline,
    joint_sentence,
    lines,
    named,
    numbers,
    outcome,
    owner_line,
    pair_named,
    run_facts,
    sentence,
    source_name,
    suspects_line,
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
    split_difference,
    title,
)

if TYPE_CHECKING:
    from naysay.watch.change import Change

STYLES = {
    Outcome.BROKEN: "bold red",
    Outcome.INCOMPLETE: "bold red",
    Outcome.WARNED: "bold yellow",
    Outcome.TOLERATED: "yellow",
    Outcome.HOLDS: "green",
}
_MARKS = {Outcome.BROKEN: "✗", Outcome.INCOMPLETE: "✗", Outcome.WARNED: "!", Outcome.TOLERATED: "~", Outcome.HOLDS: "✓"}
_MOST_SUSPECTS = 5
_MOST_GROUPS = 3
# Arrow shows the first and the last of these.
_ROWS_OF_A_LISTING = 1_000
_NUMBERS = ("violations", "rows", "to remove")
WIDTH_IN_A_PIPE = 100
_PLAIN_MARKS = {**_MARKS, Outcome.BROKEN: "x", Outcome.INCOMPLETE: "x", Outcome.HOLDS: "+"}


@dataclass(frozen=True, slots=True)
class Detail:
    """How much to print: the number of pairs per rule (None: depends on the number of broken rules), or none."""

    n_pairs: int | None = None
    quiet: bool = False

    def pairs_for(self, report: Report) -> int:
        if self.n_pairs is not None:
            return self.n_pairs
        n_broken = sum(not result.holds for result in report.results)
        return 3 if n_broken <= 3 else 2 if n_broken <= 6 else 1


def print_report(report: Report, console: Console, detail: Detail | None = None) -> None:
    """Print a report; if quiet, only the headline and a line for each broken rule."""
    print_trimmed(console, lambda: _print(report, console, detail or Detail()))


def printed_text(print_into: Callable[[Console], None]) -> str:
    """What a function prints, as text without colour, in the width of the terminal."""
    width = shutil.get_terminal_size((WIDTH_IN_A_PIPE, 24)).columns
    console = Console(file=io.StringIO(), width=width, color_system=None, markup=False, highlight=False, emoji=False)
    with console.capture() as capture:
        print_into(console)
    return capture.get().rstrip("\n")


def report_text(report: Report) -> str:
    return printed_text(lambda console: print_report(report, console))


def verdict_text(verdict: Verdict) -> str:
    if verdict.holds:
        return f"The rule holds: {rule_text(verdict.rule)}"
    witness = verdict.witness
    example = "" if witness is None else f"\nFor example {pair_named(witness)}: {printable(witness.reason)}."
    return f"The rule is broken: {rule_text(verdict.rule)}{example}"


def listing_text(listing: Listing) -> str:
    shown = listing.head(_ROWS_OF_A_LISTING)
    cut = "" if shown.num_rows == listing.total else f", the first {shown.num_rows:,}"
    return f"{listing_title(listing.rule)}: {counted(listing.total, listing.noun)}{cut}\n{shown.to_string()}"


def change_text(change: Change) -> str:
    """What a batch did to the violations, in a line for the table and a line per rule."""
    if change.repeated:
        return f"{counted(change.n_rows, 'row')}; batch {change.batch_id!r} was already applied, nothing changed"
    total = counted(sum(change.counts.values()), "violation")
    head = f"{counted(change.n_rows, 'row')}, {total}; {change.n_added:,} added, {change.n_removed:,} removed"
    return "\n".join([head, *(f"  {printable(name)}: {number:,}" for name, number in change.counts.items())])


def print_trimmed(console: Console, work: Callable[[], None]) -> None:
    """Print without the trailing blanks of tables and wrapped lines."""
    with console.capture() as capture:
        work()
    text = "".join(line.rstrip(" ") + "\n" for line in capture.get().splitlines())
    console.out(text, end="", highlight=False)


def _print(report: Report, console: Console, detail: Detail) -> None:
    console.print(_summary(report, console))
    _print_warnings(report, console)
    _print_rules(report, console, detail)
    _print_joint_removal(report, console, detail)
    if detail.quiet:
        return
    for _, result in worst_first(report):
        if not (result.holds and result.passes):
            console.print()
            _print_broken(result, report, console, detail.pairs_for(report))
    if any(result.sample for result in report.results) and not has_key(report):
        console.print()
        hint = f"Rows are identified by {printable(report.identity)}; name a key (--key, key=) to see your own IDs."
        console.print(Text(hint, "dim"))


def mark(result_outcome: Outcome, console: Console) -> str:
    return (_MARKS if console.encoding.lower().startswith("utf") else _PLAIN_MARKS)[result_outcome]


def _summary(report: Report, console: Console) -> Text:
    text = Text(f"{mark(worst(report), console)} {headline(report)}", STYLES[worst(report)])
    facts = [
        source_name(report),
        counted(report.n_rows, "row"),
        counted(len(report.columns), "column"),
        f"{report.engine} engine",
        duration(report.seconds),
    ]
    text.append("\n  " + " · ".join(facts), "dim")
    if report.source or report.rules_source:
        text.append("\n  " + " · ".join(run_facts(report)), "dim")
    return text


def _print_warnings(report: Report, console: Console) -> None:
    for message, rules in warnings_in_words(report):
        text = Text.assemble(("warning: ", STYLES[Outcome.WARNED]), message)
        if rules:
            text.append(f"\n{rules}", "dim")
        console.print()
        console.print(indented(text))


def _print_rules(report: Report, console: Console, detail: Detail) -> None:
    entries = [result for _, result in worst_first(report) if not (detail.quiet and result.holds and result.passes)]
    if not entries:
        return
    has_names = any(result.rule.name for result in entries)
    rows = [_cells(result, has_names, console) for result in entries]
    headings = ["", *(["rule"] if has_names else []), "violations", "rows", "to remove", "" if has_names else "rule"]
    widths = [max(cell_len(heading), *(row[i].cell_len for row in rows)) for i, heading in enumerate(headings)]
    if has_names:
        widths[1] = min(widths[1], max(console.width // 3, 12))
    # The text of the rules gets the remaining width.
    widths[-1] = min(widths[-1], max(console.width - sum(widths[:-1]) - 2 * len(widths), 12))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", collapse_padding=True)
    for heading, width in zip(headings, widths, strict=True):
        number = heading in _NUMBERS
        table.add_column(heading, width=width, justify="right" if number else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)


def _print_joint_removal(report: Report, console: Console, detail: Detail) -> None:
    said = joint_sentence(report)
    if not said:
        return
    console.print()
    console.print(indented(Text(said, "bold")))
    suspects = suspects_line(report, _MOST_SUSPECTS)
    if suspects and not detail.quiet:
        console.print(indented(Text(f"Suspects: {suspects}.")))


def _cells(result: RuleResult, has_names: bool, console: Console) -> list[Text]:
    found = outcome(result)
    name = [Text(title(result.rule) if result.rule.name else "", STYLES[found])] if has_names else []
    figures = ("0", "", "") if result.holds else numbers(result)
    rest = Text(rule_text(result.rule), "dim" if has_names else STYLES[found])
    return [Text(mark(found, console), STYLES[found]), *name, *map(Text, figures), rest]


def _print_broken(result: RuleResult, report: Report, console: Console, n_pairs: int) -> None:
    found = outcome(result)
    heading = Text.assemble((f"{mark(found, console)} {title(result.rule)}", STYLES[found]))
    if result.rule.name:
        heading.append(f"  {rule_text(result.rule)}")
    console.print(heading)
    console.print(indented(Text(meaning(result.rule), "dim")))
    console.print(indented(Text(sentence(result, report.n_rows))))
    if owner_line(result.rule):
        console.print(indented(Text(owner_line(result.rule), "dim")))
    suspects = suspects_line(result, _MOST_SUSPECTS)
    if suspects:
        console.print(indented(Text(f"Suspects: {suspects}.")))
    for place, cause in enumerate(result.causes):
        words = cause_line(cause, report.n_rows, is_first=place == 0)
        console.print(indented(Text(f"{'Also' if place else 'Likely cause'}: {words}.")))
    for group in result.first_groups[:_MOST_GROUPS]:
        console.print(indented(Text(group_line(group, console.width - 8)), 4))
    for pair in result.sample[:n_pairs]:
        console.print()
        console.print(indented(_pair_table(result, pair, console.width - 4), 4))
        console.print(indented(Text(printable(pair.reason), "italic"), 4))


def indented(content: Text | Table, width: int = 2) -> Padding:
    return Padding(content, (0, 0, 0, width))


def _pair_table(result: RuleResult, pair: SamplePair, width: int) -> Table:
    """Both rows side by side: their identities, then each compared column, with those to blame marked."""
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
    styles = ("red", "red bold underline", "red")
    shown = [Text.assemble(*zip(parts, styles, strict=True)) for parts in split_difference(left, right, width)]
    return shown[0], shown[1]
