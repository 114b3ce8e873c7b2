"""The result of a discovery: all rules, and the ones to look at first."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context, Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, overload

from naysay.arrays import UNLIMITED, Int64Array, UInt64Array
from naysay.discovery.request import ErrorMeasure
from naysay.discovery.space import Space
from naysay.discovery.vertices import Vertices, missing_some, n_missed, to_int
from naysay.errors import UsageError
from naysay.present import Document
from naysay.rule import RuleKind, canonical, describe, kind, parse, render
from naysay.rule.formats.rule_files import render_file
from naysay.rule.model import Column, Nulls, Op, Predicate, Row, Rule, Status
from naysay.rule.scan import nearest_name

if TYPE_CHECKING:
    from naysay.discovery.problem import MeasureTable
    from naysay.discovery.ranking import Ranker


N_BEST = 20
# Rules under a condition in the short list.
_MOST_CONDITIONAL = 6
_UPWARDS = Context(prec=2, rounding=ROUND_CEILING)


class Rules(Sequence[Rule]):
    """Every minimal rule, each built when it is asked for: there may be very many.

    `error` is the fraction of all pairs that each of them tolerates. `edges` is the evidence of all pairs, if it is
    known: a rule that hits all of it holds for all of them, and tolerates none that break it. With `counts` each rule
    tolerates the fraction that breaks it, rounded up.
    """

    def __init__(
        self,
        covers: UInt64Array,
        vertices: Vertices,
        error: float = 0.0,
        edges: UInt64Array | None = None,
        counts: Int64Array | None = None,
    ) -> None:
        self.covers = covers
        self.vertices = vertices
        self.error = error
        self.edges = edges
        self.counts = counts

    def some(self, covers: UInt64Array) -> Rules:
        """Some of the rules, by their covers."""
        return Rules(covers, self.vertices, self.error, self.edges, self.counts)

    def __len__(self) -> int:
        return len(self.covers)

    @overload
    def __getitem__(self, place: int) -> Rule: ...
    @overload
    def __getitem__(self, place: slice) -> Rules: ...
    def __getitem__(self, place: int | slice) -> Rule | Rules:
        if isinstance(place, slice):
            return self.some(self.covers[place])
        return self._rule(self.covers[place])

    def __iter__(self) -> Iterator[Rule]:
        return map(self._rule, self.covers)

    def __repr__(self) -> str:
        return f"<{len(self):,} rules>"

    def about(self, *names: str) -> Rules:
        """The rules that mention all of the named columns."""
        covers = self.covers
        for name in names:
            groups = [
                group
                for group in self.vertices.groups
                if name in (group.comparison.left.name, group.comparison.right.name)
            ]
            if not groups:
                raise UsageError(_unknown(name, self.vertices))
            words = self.vertices.words([sum(group.mask for group in groups)])[0]
            covers = covers[(covers & words).any(axis=1)]
        return self.some(covers)

    def like(self, rule: str | Rule) -> Rules:
        """The rules that say more or less the same: those from which `rule` follows, and those that follow from it.

        The first ask fewer or weaker predicates of a pair and forbid more, the second the other way round.
        """
        rule = parse(rule) if isinstance(rule, str) else rule
        cover = self.vertices.words([self.vertices.cover(rule)])
        twins, exist = self.vertices.mirrored(cover)
        kept = [_nested(self.covers, cover[0])]
        if exist[0]:
            kept.append(_nested(self.covers, twins[0]))
        return self.some(self.covers[sum(kept) > 0])

    def _rule(self, cover: UInt64Array) -> Rule:
        rule = self.vertices.rule(to_int(cover))
        return replace(rule, description=describe(rule), max_fraction=self._tolerance(cover))

    def _tolerance(self, cover: UInt64Array) -> float | None:
        if not self.error or self.edges is None:
            return self.error or None
        if self.counts is None:
            return self.error if missing_some(cover[None, :], self.edges)[0] else None
        n_pairs, n_broken = int(self.counts.sum()), n_missed(cover, self.edges, self.counts)
        return float(_UPWARDS.divide(Decimal(n_broken), Decimal(n_pairs))) if n_broken else None


def _nested(covers: UInt64Array, cover: UInt64Array) -> UInt64Array:
    """1 for each cover that is within the given one, or the given one within it."""
    both = covers & cover
    nested: UInt64Array = ((both == covers).all(axis=1) | (both == cover).all(axis=1)).astype(covers.dtype)
    return nested


def _unknown(name: str, vertices: Vertices) -> str:
    names = list(dict.fromkeys(group.comparison.left.name for group in vertices.groups))
    meant = nearest_name(name, names)
    return f"no rule can be about {name!r}, which is not compared" + (f"; did you mean {meant!r}?" if meant else "")


@dataclass(frozen=True, slots=True)
class Tested:
    """How the data tested one rule.

    `near` counts, for each of its comparisons, the ordered pairs that satisfy all its other predicates and not this
    one: the pairs that came within one predicate of breaking it. `violations` break it. `surprise` is the negative
    logarithm of the chance that it holds by accident, less that of the number of such rules; `by_accident` says that
    this chance is not small, `exact` that counts were not extrapolated from a sample of rows. Of a rule about single
    rows, rows are counted.
    """

    near: tuple[int, ...]
    violations: int
    surprise: float
    by_accident: bool
    exact: bool = True

    @property
    def support(self) -> int:
        """The pairs that tested the rule, for the predicate that was tested least."""
        return min(self.near, default=0)


class Advice(Enum):
    """What a person would do with a rule, as far as the data can tell.

    KEEP: it was well tested, and no pair breaks it. LOOK: it was well tested, but some rows break it: are they wrong,
    or is the rule? REJECT: it may hold by chance, or too many rows break it; reject it unless you know it to be true.
    """

    KEEP = "keep"
    LOOK = "look"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Finding:
    """A discovered rule and what is known about it.

    Attributes:
        rule: The rule.
        tested: How well the data tested it.
        rows_in_conflict: The number of rows that break it; None if that is expensive to compute.
        rows_to_remove: At least and at most how many rows to remove so that it holds; None if that is expensive.
        also: Rules that say more about the same columns, such as the order behind a dependency.
        often_broken: Whether too many rows would have to be removed for it to hold.
        applies_to: For a rule under a condition, the number of rows that meet the condition.
    """

    rule: Rule
    tested: Tested
    rows_in_conflict: int | None = None
    rows_to_remove: tuple[int, int] | None = None
    also: tuple[Rule, ...] = ()
    often_broken: bool = False
    applies_to: int | None = None

    @property
    def kind(self) -> RuleKind:
        return kind(self.rule)

    @property
    def words(self) -> str:
        return describe(self.rule)

    @property
    def unit(self) -> str:
        """What is counted: pairs of rows, or rows if the rule is about single rows."""
        return "row" if self.rule.is_one_row else "pair"

    @property
    def is_unfounded(self) -> bool:
        """Whether it is only here because a person asked about it: it is broken."""
        return self.rule.status is Status.PENDING and self.tested.violations > 0

    @property
    def advice(self) -> Advice:
        if self.tested.by_accident or self.often_broken:
            return Advice.REJECT
        return Advice.LOOK if self.tested.violations else Advice.KEEP


@dataclass(frozen=True, slots=True)
class NearMiss:
    """Two rows (or one, for a rule about single rows), by their numbers from 0, that break a rule or nearly do."""

    rows: tuple[int, ...]
    reason: str
    breaks: bool


@dataclass(frozen=True, slots=True, repr=False)
class Discovery(Document):
    """The rules that a table obeys.

    Attributes:
        findings: The short list: the rules to decide about, best first, with how well the data tested each. None of
            them follows from the others.
        rules: All minimal rules, short ones first.
        partial: Whether the search was stopped, so that more rules may hold; those found hold and are minimal.
        reason: What stopped the search.
        n_rows: The number of rows of the table.
        error: The exceptions that a rule may have, as a fraction of what `measure` counts; 0 if all rules hold exactly.
        space: The predicates that rules could use.
        nulls: What a comparison with null meant.
        method: How the rules were found.
        seconds: The seconds that each phase took.
        notes: Remarks, for example about columns that were left out.
        device: Where pairs were compared: `"cpu"` or `"cuda"`.
        engine: `"local"` or `"spark"`.
        complete_up_to: If the search was stopped: no rule of up to this many predicates is missing. None if none is.
        measure: What the error is a fraction of: `"pairs"`, `"rows"`, `"conflicts"` or `"tested"`.
        conditional: All dependencies that hold only among the rows with one value of a column, if `Scope.conditions`
            asked for them, best first; they are not in `rules`. The best of them are among the findings.
        given: The rules that a person decided about, or still has to, as they were passed to `discover`.

    >>> import pyarrow as pa
    >>> from naysay import discover
    >>> found = discover(pa.table({"zip": [1, 1, 2], "city": ["Ulm", "Ulm", "Bonn"]}))
    >>> [render(rule, short=True) for rule in found.best]
    ['city -> zip', 'zip -> city']
    """

    findings: tuple[Finding, ...]
    rules: Rules
    partial: bool
    reason: str
    n_rows: int
    error: float
    space: Space
    nulls: Nulls
    method: str
    seconds: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    device: str = "cpu"
    engine: str = "local"
    ranker: Ranker | None = None
    complete_up_to: int | None = None
    measure: str = "pairs"
    conditional: tuple[Finding, ...] = ()
    given: tuple[Rule, ...] = ()
    table: MeasureTable | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        part = f", partial ({self.reason})" if self.partial else ""
        up_to = f" up to an error of {self.error:g}" if self.error else ""
        s = "" if len(self.rules) == 1 else "s"
        return f"<Discovery: {len(self.rules):,} rule{s}{up_to} of {self.n_rows:,} rows{part}>"

    @property
    def allowance(self) -> str:
        """How badly each rule may be broken, in words after "rules hold, each"; empty if all hold exactly."""
        return ErrorMeasure(self.measure).words(self.error)[1] if self.error else ""

    @property
    def all(self) -> Rules:
        """Every minimal rule: another name for `rules`, next to `best`."""
        return self.rules

    @property
    def best(self) -> list[Rule]:
        """The rules to decide about: those of the findings, best first."""
        return [finding.rule for finding in self.findings]

    @property
    def missing(self) -> str:
        """Which rules may be missing, in words; empty if the search was complete."""
        if self.complete_up_to is None:
            return ""
        if not self.complete_up_to:
            return "more may hold"
        s = "" if self.complete_up_to == 1 else "s"
        return f"complete up to {self.complete_up_to} predicate{s}, longer rules may be missing"

    @property
    def n_pairs(self) -> int:
        """The number of all ordered pairs of rows, the denominator of every fraction."""
        return self.n_rows * (self.n_rows - 1)

    def share_broken(self, finding: Finding) -> float:
        """The share of all ordered pairs that break a rule; of all rows, for a rule about single rows."""
        return finding.tested.violations / max(1, self.n_rows if finding.rule.is_one_row else self.n_pairs)

    @property
    def n_found(self) -> int:
        """The number of rules found, those under a condition included."""
        return len(self.rules) + len(self.conditional)

    def top(self, n: int = N_BEST, *, about: str | Sequence[str] = (), like: str | Rule | None = None) -> list[Finding]:
        """Return the `n` best rules, perhaps only some of them.

        If more are asked for than the short list may hold, or only some, rules that follow from others and rules that
        may hold by chance come after it.

        Args:
            n: The number of rules.
            about: Columns that the rules must all mention.
            like: A rule that they must imply or follow from.

        Returns:
            The findings, best first.
        """
        if not about and like is None and (n <= max(N_BEST, len(self.findings)) or self.ranker is None):
            return list(self.findings[:n])
        rules = self.rules.about(*((about,) if isinstance(about, str) else about))
        rules = rules if like is None else rules.like(like)
        best = [] if self.ranker is None else list(self.ranker.best(rules, n))
        found = best + self.conditional_about(about, like)
        return sorted(found, key=lambda finding: finding.advice is Advice.REJECT)[:n]

    def conditional_about(self, about: str | Sequence[str] = (), like: str | Rule | None = None) -> list[Finding]:
        """Return the rules under a condition that mention all of some columns; none of them is like a rule without."""
        names = {about} if isinstance(about, str) else set(about)
        return [each for each in self.conditional if like is None and names <= set(each.rule.column_names)]

    def because(self, rule: str | Rule) -> list[Rule]:
        """Return rules from which a rule follows, as few as possible; none if it does not follow.

        These are accepted rules that were given, and rules of the short list.

        A rule follows if no two rows could break it without breaking one of these, whatever other values they have.

        >>> import pyarrow as pa
        >>> from naysay import discover
        >>> zips = [k % 50 for k in range(1000)]
        >>> columns = {"zip": zips, "city": [zip // 3 for zip in zips], "state": [zip // 12 for zip in zips]}
        >>> found = discover(pa.table(columns), cross=False)
        >>> [render(each, short=True) for each in found.because("zip -> state")]
        ['zip -> city', 'city -> state']
        """
        if self.ranker is None:
            return []
        asked = parse(rule) if isinstance(rule, str) else rule
        listed = [rule for rule in self.given if rule.status is Status.ACCEPTED]
        listed += [
            each for finding in self.findings if not finding.is_unfounded for each in (finding.rule, *finding.also)
        ]
        return [listed[place] for place in self.ranker.reasons(asked, listed)]

    def near_misses(self, finding: Finding, limit: int = 3) -> list[NearMiss]:
        """Return a few pairs of rows that decide about a rule; none on Spark and from an `Evolver`.

        If the rule is broken, they break it. Otherwise they satisfy all its predicates but one: of a dependency they
        agree on the right side, too, and of other rules it is the predicate that was tested least.
        """
        rule, violations = finding.rule, finding.tested.violations
        if self.table is None or (not violations and len(rule.predicates) == 1):
            return []
        asked = rule if violations else _with_one_negated(finding)
        return [NearMiss(rows, reason, violations > 0) for rows, reason in self.table.examples(asked, limit)]

    def with_conditional(self, found: Sequence[Finding], notes: tuple[str, ...] = ()) -> Discovery:
        """With rules under a condition; those that say something new and are no accident end the short list."""
        found = sorted(found, key=lambda finding: -finding.tested.surprise)
        decided = {canonical(rule): rule for rule in self.given}
        # Few rules are decided about: only those of the same columns need a closer look.
        columns = {frozenset(rule.column_names) for rule in decided}
        known = [each for each in found if frozenset(each.rule.column_names) in columns]
        asked = [each for each in known if _status(each.rule, decided) is Status.PENDING]
        best: list[Finding] = []
        covered: set[object] = {each.rule.column_names for each in known if _status(each.rule, decided) is not None}
        for finding in found:
            if finding.tested.by_accident or len(best) == _MOST_CONDITIONAL:
                break
            # One value of a column for each dependency, and one condition for the same rows.
            names = finding.rule.column_names
            about = {names, (names[:2], finding.tested.near, finding.applies_to)}
            if not about & covered and not self.because(_without_value(finding.rule)):
                best.append(finding)
                covered |= about
        findings = (*asked, *self.findings, *best)
        tested = {untested_note(decided[canonical(each.rule)]) for each in asked}
        notes = (*(note for note in self.notes if note not in tested), *notes)
        return replace(self, findings=findings, conditional=tuple(found), notes=notes)

    def groups(self) -> dict[RuleKind, list[Finding]]:
        """Return the findings by kind (keys, dependencies, orders, others), each best first."""
        return by_kind(self.findings)

    def text(self, rules: Sequence[Rule | Finding] | None = None) -> str:
        """Return rules as the text of a file that `naysay check --rules` reads.

        Args:
            rules: Rules or findings; None for the findings. A finding to reject is commented out, with
                the reason. A rule is written as it is.

        Returns:
            One rule per line; YAML with tolerances if an error was allowed.
        """
        return rules_text(self, self.findings if rules is None else rules)

    def save(
        self, path: str | os.PathLike[str], rules: Sequence[Rule | Finding] | None = None, *, review: bool = False
    ) -> None:
        """Write rules or findings to a file that `naysay check --rules` and `load_rules` read.

        Args:
            path: The file.
            rules: Rules or findings; None for the findings. See `text`.
            review: Write YAML with a status for each rule, for a person to decide: see `review`.
        """
        Path(path).write_text(self.review(rules) if review else self.text(rules), encoding="utf-8")

    def review(
        self, rules: Sequence[Rule | Finding] | None = None, *, types: Mapping[str, str] | None = None, after: str = ""
    ) -> str:
        """Return rules as YAML with a status for each: those that were given as they are, then new ones as pending.

        Args:
            rules: Rules or findings; None for the findings.
            types: Types of columns, to be written, too.
            after: The text of a file that has the given rules; new ones are added to it.

        Returns:
            Rules with `status: pending`, `accepted` or `rejected`, for a person to edit and `discover(rules=...)` and
            `naysay discover --rules` to read; `check` and `load_rules` only use those that are accepted.
        """
        from naysay.rule.formats.yaml_files import write_yaml

        known = {canonical(rule) for rule in self.given}
        entries: list[str] = []
        n_known = len(known)
        for each in self.findings if rules is None else rules:
            new = [rule for rule in _rules_of(each) if canonical(rule) not in known]
            known |= {canonical(rule) for rule in new}
            if new and isinstance(each, Finding):
                entries.append(_comments([f"{each.advice.value}: {_reason(each)}"]))
            entries += [write_yaml([replace(rule, status=Status.PENDING)], short=True) for rule in new]
        if after:
            return after.rstrip("\n") + "\n" + "".join(entries)
        head = _comments([*_heading(self, len(known) - n_known), "set each status to accepted or rejected"])
        if types:
            head += write_yaml([], short=True, types=types).replace("rules: []", "rules:")
        given = write_yaml(self.given, short=True, has_status=True) if self.given else ""
        return head + given + "".join(entries)


def _with_one_negated(finding: Finding) -> Rule:
    """What a pair satisfies that came within one predicate of breaking a rule."""
    predicates, near = list(finding.rule.predicates), finding.tested.near
    differing = [place for place, each in enumerate(predicates) if each.op is Op.NE]
    place = differing[-1] if differing else len(predicates) - 1
    if not differing and len(near) == len(predicates):
        place = min(range(len(near)), key=lambda each: near[each] or UNLIMITED)
    chosen = predicates[place]
    predicates[place] = Predicate(chosen.left, chosen.op.negated, chosen.right)
    return Rule(tuple(predicates))


def _status(rule: Rule, decided: Mapping[Rule, Rule]) -> Status | None:
    """What a person said about a rule; None if nothing."""
    known = decided.get(canonical(rule))
    return None if known is None else known.status


def untested_note(rule: Rule) -> str:
    return f"pending: {render(rule, short=True)} is not tested: discovery does not compare this; use naysay check"


def _without_value(rule: Rule) -> Rule:
    """What would make a condition unnecessary: the same for any value that two rows agree on."""
    names = rule.column_names
    *left, right = names if rule.is_one_row else (names[0], names[2], names[1])
    both = [(Column(Row.LEFT, name), Column(Row.RIGHT, name)) for name in (*left, right)]
    same = tuple(Predicate(one, Op.EQ, other) for one, other in both[:-1])
    return Rule((*same, Predicate(both[-1][0], Op.NE, both[-1][1])))


def by_kind(findings: Sequence[Finding]) -> dict[RuleKind, list[Finding]]:
    members = {each: [finding for finding in findings if finding.kind is each] for each in RuleKind}
    return {each: found for each, found in members.items() if found}


def rules_text(discovery: Discovery, rules: Sequence[Rule | Finding]) -> str:
    """One rule per line with its meaning as a comment; as YAML with tolerances if an error was allowed.

    Findings to reject come last, commented out.
    """
    sure = [rule for each in rules if not _is_doubtful(each) for rule in _rules_of(each)]
    unsure = [each for each in rules if isinstance(each, Finding) and _is_doubtful(each)]
    head = _comments(_heading(discovery, len(sure)))
    return head + _written(discovery, sure) + "".join(_commented_out(discovery, unsure))


def _rules_of(each: Rule | Finding) -> tuple[Rule, ...]:
    return (each.rule, *each.also) if isinstance(each, Finding) else (each,)


def _is_doubtful(each: Rule | Finding) -> bool:
    return isinstance(each, Finding) and (each.advice is Advice.REJECT or each.is_unfounded)


def _written(discovery: Discovery, rules: Sequence[Rule]) -> str:
    rules = [replace(rule, status=Status.ACCEPTED) for rule in rules]
    if discovery.error and rules:
        return render_file(list(rules), short=True)
    return "".join(f"{render(rule, short=True)}  # {_one_line(describe(rule))}\n" for rule in rules)


def _commented_out(discovery: Discovery, findings: Sequence[Finding]) -> Iterator[str]:
    if findings:
        remedy = "remove the # from those that you know to be true"
        yield _comments(["", f"{len(findings):,} more are doubtful; {remedy}"])
    for finding in findings:
        yield _comments([f"{_reason(finding)}:", *_written(discovery, [finding.rule]).splitlines()])


def _reason(finding: Finding) -> str:
    tested = finding.tested
    if finding.advice is Advice.REJECT and not tested.by_accident and finding.rows_to_remove is not None:
        return f"{finding.rows_to_remove[0]:,} rows or more would have to be removed"
    if finding.advice is not Advice.REJECT:
        number = f"{'' if tested.exact else 'about '}{tested.support:,}"
        broken = f", broken by {tested.violations:,}" if tested.violations else ""
        return f"tested by {number} {finding.unit}s{broken}"
    if not tested.support:
        return "no pair of rows tested it"
    number = f"{'' if tested.exact else 'about '}{tested.support:,} {finding.unit}{'' if tested.support == 1 else 's'}"
    return f"{number}{' of rows' if finding.unit == 'pair' else ''} tested it, too few to rule out chance"


def _comments(lines: Sequence[str]) -> str:
    return "".join(f"# {_one_line(line)}".rstrip() + "\n" for line in lines)


def _heading(discovery: Discovery, n_rules: int) -> list[str]:
    lines = [f"{n_rules:,} of {len(discovery.rules):,} rules that naysay discovered in {discovery.n_rows:,} rows"]
    if discovery.error:
        lines.append(f"each {ErrorMeasure(discovery.measure).words(discovery.error)[0]};")
        lines.append("those without max_fraction are broken by none")
    if discovery.partial:
        lines.append(f"the search was not finished ({discovery.reason}): {discovery.missing}")
    if discovery.nulls is Nulls.EQUAL:
        lines.append("null equals null here: check with --nulls equal")
    return lines


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
