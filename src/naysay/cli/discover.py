"""`naysay discover`: find the rules of a table, show the best, write them for `naysay check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from naysay import api
from naysay.cli import options
from naysay.cli.engine import Choice
from naysay.cli.failure import Exit, say
from naysay.cli.options import FileFormat, Place, RuleSource, decide_for_table, open_table
from naysay.cli.screen import Waiting, console, library_warnings
from naysay.discovery.request import ErrorMeasure
from naysay.discovery.result import Advice, Discovery, Finding
from naysay.discovery.space import Scope
from naysay.errors import UsageError
from naysay.report.words import counted, rule_text, statuses
from naysay.rule import Format, Status, parse, read_rules, read_rules_file
from naysay.rule.scan import columns_hint

if TYPE_CHECKING:
    from naysay.budget import Progress
    from naysay.rule.model import Rule


_OF_SCOPE = ("share", "within_row", "order_text", "conditions")


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The options of `naysay discover` that decide which rules it searches for, and how."""

    error: float | str | None
    measure: str | None
    columns: str | None
    cross: bool
    space: str
    share: float | None
    within_row: str | None
    order_text: bool
    conditions: int | None
    nulls: str
    max_predicates: int | None
    max_rules: int | None
    max_seconds: float | None
    method: str
    device: str

    @property
    def arguments(self) -> dict[str, Any]:
        """As the arguments of `naysay.discover`."""
        columns = None if self.columns is None else [name.strip() for name in self.columns.split(",")]
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in _OF_SCOPE}
        return plain | {"columns": columns, "space": self._space}

    @property
    def _space(self) -> str | Scope:
        """The predicate space by name, or as a scope if an option changes it."""
        options = {name: getattr(self, name) for name in _OF_SCOPE}
        given = {name: value for name, value in options.items() if value is not None and value is not False}
        if not given:
            return self.space
        if self.space != "naysay":
            option = "--" + next(iter(given)).replace("_", "-")
            raise UsageError(f"{option} changes naysay's own predicates; leave out --space {self.space}")
        if not self.cross and self.within_row in ("all", "named"):
            raise UsageError("--no-cross compares no different columns; leave out --within-row, or --no-cross")
        if self.within_row in ("all", "none"):
            given["within_row"] = self.within_row == "all"
        return Scope(**given)


@dataclass(frozen=True, slots=True)
class ShownRules:
    """The options of `naysay discover` that decide which rules it shows and writes."""

    about: tuple[str, ...]
    like: str | None
    top: int
    because: str | None
    near_misses: int | None
    everything: bool
    out: Path | None
    review: bool
    report: Path | None

    def require_columns(self, columns: Sequence[str]) -> None:
        """Refuse a misspelled column before the search, which may take long."""
        for name in self.about:
            if name not in columns:
                raise UsageError(f"--about: there is no column {name!r}; {columns_hint(name, columns)}")
        for option, rule in (("--like", self.like), ("--because", self.because)):
            if rule is not None:
                parse(rule, source=option, columns=columns)


@click.command()
@click.argument("input", metavar="INPUT")
@options.packed(
    "search",
    SearchOptions,
    click.option(
        "--error",
        type=options.ErrorOrAuto(),
        metavar="E|auto",
        help="Also find rules with exceptions, up to this fraction of what --measure counts; 0 finds only rules that "
        "hold for all rows, auto chooses a fraction of rows by looking at the table.  [default: auto if the table "
        "looks dirty, else 0]",
    ),
    click.option(
        "--measure",
        type=click.Choice([measure.value for measure in ErrorMeasure]),
        help="What --error is a fraction of: pairs that break the rule, of all pairs; rows to remove so that it holds, "
        "of all rows; rows in conflicts, of all rows; pairs that break it, of those that tested it.  "
        "[default: pairs; rows for auto]",
    ),
    click.option("--columns", metavar="A,B,...", help="Columns that rules may mention.  [default: all]"),
    click.option(
        "--cross/--no-cross",
        default=True,
        help="Whether rules may compare different columns of the same kind.  [default: cross]",
    ),
    options.choice(
        "--space", ("naysay", "incdc", "hydra"), "Predicates that rules may use: naysay's own, or those of a paper."
    ),
    click.option(
        "--share",
        type=click.FloatRange(0, 1),
        metavar="F",
        help="Compare different columns that have at least this share of their values in common.  [default: 0.3]",
    ),
    click.option(
        "--within-row",
        type=click.Choice(["named", "all", "none"]),
        help="Which columns of one row to compare with each other: named, those whose names say which comes first "
        "(start and end); all that share values; none.  [default: named]",
    ),
    click.option("--order-text", is_flag=True, help="Also compare text and booleans by order (<, <=, >, >=)."),
    options.number(
        "--conditions",
        2,
        "Also find dependencies that hold only among the rows with one value of a column, if at least N rows have it.",
    ),
    options.nulls,
    options.number("--max-predicates", 1, "Maximum number of predicates per rule."),
    options.number("--max-rules", 1, "Stop after N rules, the shortest first."),
    options.max_seconds("Stop after SECONDS and return partial results."),
    options.choice(
        "--method",
        ("auto", "all-pairs", "selective", "hydra", "incdc"),
        "How to search; auto chooses by estimated cost, incdc needs --state.",
    ),
    options.device,
)
@options.packed(
    "shown",
    ShownRules,
    click.option("--about", multiple=True, metavar="COLUMN", help="Show only rules that mention COLUMN. Repeatable."),
    click.option("--like", metavar="RULE", help="Show only rules that imply RULE or follow from it."),
    options.number("--top", 1, "Number of rules to show.", 20),
    click.option("--because", metavar="RULE", help="Show the rules of the short list from which RULE follows."),
    options.number(
        "--near-misses",
        0,
        "Number of pairs of rows to show per rule that break it or nearly do.  [default: 2 with --rules, else 0]",
    ),
    click.option("--all", "everything", is_flag=True, help="Show and write all minimal rules, shortest first."),
    click.option(
        "--out",
        "--save",
        "out",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write the rules to FILE, for `naysay check --rules`; without --all, those that may hold by chance as "
        "comments. With --rules: to FILE.yaml, new rules with the status pending.",
    ),
    click.option(
        "--review",
        is_flag=True,
        help="Write the rules to --out FILE.yaml with the status pending: they are checked once you accept them.",
    ),
    options.page,
)
@click.option(
    "--rules",
    "rules_files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="Rules that are accepted, rejected or pending: what follows from accepted rules is not shown, nor are "
    "rejected rules; pending ones are shown first. Repeatable.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Save the state so that `naysay evolve` can update it.",
)
@options.key("Needs --state.  [default: row number]")
@options.packed(
    "place", Place, options.engine, options.master, options.memory, options.threads, options.packages, options.conf
)
@options.files
@options.output_format("text", "json")
@options.color
@options.quiet("progress and details of the rules")
@options.debug
def discover(
    input: str,
    search: SearchOptions,
    shown: ShownRules,
    rules_files: tuple[Path, ...],
    state: Path | None,
    key: tuple[str, ...],
    place: Place,
    files: FileFormat,
    format: str,
    color: str,
    quiet: bool,
) -> int:
    """Find the rules that the table INPUT obeys: exactly, or except for a few pairs of rows.

    Shows a short list of rules to decide about, what they mean, and how many pairs of rows tested each. Rules that
    follow from others are left out, and so are rules that may hold by chance, if there are better ones. Ctrl-C and
    --max-seconds stop the search and show the rules found so far, marked as partial.

    \b
    naysay discover people.csv --out people.rules
    naysay check people.csv --rules people.rules
    naysay discover people.csv --error auto
    naysay discover people.csv --error 0.01 --measure rows --about ZipCode

    \b
    naysay discover people.csv --review --out people.yaml
    naysay discover people.csv --rules people.yaml --out people.yaml
    """
    _refuse_contradictions(search, state, key, place, rules_files)
    given = RuleSource(rules_files, ())
    files = given.declare(files)
    review = _review_of(shown, rules_files)
    forced = None
    if state is not None and not place.asks_for_spark:
        forced = Choice("local", "--state keeps the table in this process")
    with Waiting(watched=not quiet) as waiting, library_warnings():
        waiting.stage(f"reading {input}")
        place = decide_for_table(input, files, place, forced=forced, quiet=quiet)
        if shown.near_misses and (state is not None or place.engine == "spark"):
            raise UsageError("--near-misses applies to tables in memory; leave it out on Spark and with --state")
        if search.conditions is not None and place.engine == "spark":
            raise UsageError("--conditions applies to tables in memory; leave it out on Spark, or use --engine local")
        with open_table(input, files, place, waiting) as frame:
            shown.require_columns(api.engine_for(frame).columns)
            waiting.stage("discovering")
            if state is None:
                rules = given.load_all(api.engine_for(frame).columns) if rules_files else []
                found = _discover(frame, search, place, waiting, rules)
            else:
                found = _discover_with_state(frame, search, place, key, state)
        waiting.stage("ranking")
        best = found.top(shown.top, about=shown.about, like=shown.like)
        everything = _all_rules(shown, found) if shown.everything else None
        written: Sequence[Rule | Finding] = best if everything is None else everything
        if shown.out is not None:
            _save(found, shown.out, written, review, files.declared)
        if shown.report is not None:
            from naysay.report.discoveries import to_html

            shown.report.write_text(to_html(found, best, input, shown.near_misses), encoding="utf-8")
    if format == "json":
        from naysay.report.discoveries import dumps

        click.echo(dumps(found, best, input, everything or (), shown.near_misses))
    elif shown.because is not None:
        _print_because(found, shown.because)
    elif everything is not None or quiet:
        click.echo(found.text(written), nl=False)
    else:
        from naysay.report.discoveries import print_discovery

        print_discovery(found, best, console(color), source=input, n_near=shown.near_misses)
    if not best and len(found.rules) and not everything:
        if shown.about or shown.like:
            say("no rule matches --about and --like; leave them out to see all rules")
        elif rules_files:
            say("no rule is left to decide about; --all shows every rule")
        else:
            say("no pair of rows tested any rule: they all hold because values are null; --all shows them")
    if shown.out is not None and not quiet and format == "text":
        say(_what_was_written(found, written, shown.out, review))
    if shown.report is not None and not quiet:
        say(f"report written to {shown.report}")
    return Exit.INTERRUPTED if found.partial and found.reason == "interrupted" else Exit.HOLDS


def _review_of(shown: ShownRules, rules_files: tuple[Path, ...]) -> str | None:
    """The text that pending rules are added to, perhaps none; None if the rules are not written for a review."""
    out = shown.out
    is_yaml = out is not None and out.suffix.lower() in (".yaml", ".yml")
    if shown.review and not is_yaml:
        raise UsageError("--review needs --out FILE.yaml, where each rule has a status")
    if out is None:
        return None
    if any(_is_same(out, path) for path in rules_files):
        if not is_yaml:
            raise UsageError(f"{out} would lose what you decided: rules have a status in YAML; use --out FILE.yaml")
        return out.read_text(encoding="utf-8")
    if is_yaml and out.exists() and _has_decisions(out, shown.review):
        raise UsageError(
            f"{out} has rules that you decided about; add --rules {out} to keep them, or name another file"
        )
    return "" if is_yaml and (shown.review or rules_files) else None


def _has_decisions(path: Path, review: bool) -> bool:
    """Whether a person decided about rules of a file. Without a review, accepted rules may be those written before."""
    undecided = {Status.PENDING} if review else {Status.ACCEPTED}
    return any(rule.status not in undecided for rule in read_rules_file(path).rules)


def _is_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _save(
    found: Discovery, out: Path, written: Sequence[Rule | Finding], review: str | None, types: Mapping[str, str]
) -> None:
    if review is None:
        found.save(out, written)
        return
    text = found.review(written, types=types, after=review)
    if review:
        before, after = (read_rules(each, format=Format.YAML) for each in (review, text))
        if after.errors or after.rules[: len(before.rules)] != before.rules:
            raise UsageError(f"cannot add rules to {out}: its rules are not a plain list; name another file with --out")
    out.write_text(text, encoding="utf-8")


def _what_was_written(found: Discovery, written: Sequence[Rule | Finding], out: Path, review: str | None) -> str:
    if review is None:
        n_unsure = sum(
            isinstance(each, Finding) and (each.advice is Advice.REJECT or each.is_unfounded) for each in written
        )
        unsure = f"; {n_unsure:,} more are commented out because they are doubtful" if n_unsure else ""
        return f"{counted(len(written) - n_unsure, 'rule')} written to {out}{unsure}"
    counts = Counter(rule.status.value for rule in read_rules_file(out).rules)
    shown = statuses({status.value: counts[status.value] for status in Status if counts[status.value]})
    return f"{out} has {shown or 'no rules'}; set each status to accepted or rejected, then use --rules {out}"


def _print_because(found: Discovery, rule: str) -> None:
    reasons = found.because(rule)
    for reason in reasons:
        click.echo(rule_text(reason))
    if not reasons:
        say(f"{rule} does not follow from the rules of the short list")


def _refuse_contradictions(
    search: SearchOptions, state: Path | None, key: tuple[str, ...], place: Place, rules_files: tuple[Path, ...]
) -> None:
    if state is None:
        if search.method == "incdc":
            raise UsageError("the method incdc keeps indexes for later changes, so it needs --state DIR")
        if key:
            raise UsageError("--key identifies rows for naysay evolve, so it needs --state DIR")
        return
    if rules_files:
        raise UsageError("--rules does not apply to --state, which keeps all rules; leave out one of them")
    if search.conditions is not None:
        raise UsageError("--state cannot keep rules under conditions up to date; leave out --conditions")
    if place.asks_for_spark and not key:
        raise UsageError("--state on Spark needs --key COLUMN: rows have no numbers there")
    if search.max_rules is not None:
        raise UsageError("--state needs the complete result; leave out --max-rules")
    if search.max_seconds is not None and place.asks_for_spark:
        raise UsageError("--max-seconds does not apply to --state on Spark; leave out one of them")
    if search.error == "auto" or search.measure not in (None, ErrorMeasure.PAIRS.value):
        raise UsageError("--state keeps rules by pairs; leave out --measure, and give a number for --error")
    if search.method == "hydra":
        raise UsageError("the method hydra cannot keep a state; leave out --state or choose another method")


def _discover(frame: Any, search: SearchOptions, place: Place, waiting: Waiting, rules: Sequence[Rule]) -> Discovery:
    # On Spark, memory and threads are those of the session.
    limits: dict[str, Any] = {}
    if place.engine == "local":
        limits = {"memory": place.memory, "threads": place.threads}
    return api.discover(frame, **search.arguments, **limits, progress=_show_progress(waiting), rules=rules)


# What discovery is doing in each phase, in the words of the screen; other phases are shown by their names.
_DOING = {
    "space": "choosing what to compare",
    "sweep": "choosing how many exceptions to allow",
    "encode": "encoding columns",
    "sample": "comparing a sample of rows",
    "evidence": "comparing pairs of rows",
    "agreeing pairs": "comparing rows that agree",
    "covers": "searching for rules",
    "conditions": "searching for rules under conditions",
    "planning": "planning proofs",
    "verify": "proving rules",
    "ranking": "ranking rules",
}


def _show_progress(waiting: Waiting) -> Callable[[Progress], None]:
    def show(progress: Progress) -> None:
        found = f", {counted(progress.n_rules, 'rule')} so far" if progress.n_rules else ""
        doing = _DOING.get(progress.phase, progress.phase)
        waiting.update(f"{doing}{found} (Ctrl-C to stop and show the rules found so far)", progress.done)

    return show


def _discover_with_state(
    frame: Any, search: SearchOptions, place: Place, key: tuple[str, ...], state: Path
) -> Discovery:
    """Discover with an Evolver, whose state `naysay evolve` can update."""
    from naysay.evolve.evolver import Evolver

    # These were refused, or say nothing new.
    refused = ("max_rules", "measure")
    arguments = {name: value for name, value in search.arguments.items() if name not in refused}
    arguments["error"] = search.error or 0.0
    # On Spark, memory and threads are those of the session.
    on_spark = place.engine == "spark"
    limits: dict[str, Any] = {} if on_spark else {"memory": place.memory, "threads": place.threads}
    with Evolver(frame if on_spark else frame.arrow, key, state=state, **limits, **arguments) as evolver:
        return evolver.discovery


def _all_rules(shown: ShownRules, found: Discovery) -> list[Rule]:
    rules = found.rules.about(*shown.about)
    rules = rules if shown.like is None else rules.like(shown.like)
    return [*rules, *(finding.rule for finding in found.conditional_about(shown.about, shown.like))]
