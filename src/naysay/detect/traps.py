"""Traps: answers that are right and still mislead, because of what is in the data. Each becomes a warning.

What to ask and what to say is the same for every engine; a `Source` answers the questions for one table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from naysay.arrays import BoolArray
from naysay.detect.hiding import Hiding
from naysay.detect.result import Caution
from naysay.detect.summary import row_identities
from naysay.plan.join import Join, Match, Order, join_of
from naysay.rule.model import Constant, Domain, Missing, Nulls, Op, Predicate, Row, Rule
from naysay.rule.render import render_predicate
from naysay.rule.scan import nearest_name
from naysay.table import Table
from naysay.table.column import Kind
from naysay.table.looks import Look, Seen, TextColumn, TextFacts, order_message, quoted, valid_rows

Item = TypeVar("Item")
# Questions about rows are answered by the first rows, up to this many, if these have an answer.
_PREFIX = 4_096


@dataclass(frozen=True, slots=True)
class RowQuestion:
    """How many rows satisfy all of the predicates (of t only) and have a value in all of the columns?"""

    predicates: tuple[Predicate, ...] = ()
    present: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answers:
    """How many rows there are for each question, and the facts of text columns.

    A number of 2 or more may be that of a part of the table: more is as good as 2.
    """

    rows: Mapping[RowQuestion, int]
    texts: Mapping[str, TextFacts]


class Source(Protocol):
    """Answers questions about one table."""

    nulls: Nulls

    @property
    def n_rows(self) -> int: ...
    def kind(self, name: str) -> Kind: ...
    def measure(self, questions: Collection[RowQuestion], texts: Collection[str]) -> Answers:
        """Answer questions about rows and text columns, all at once."""

    def first_unlike(self, looks: Mapping[str, Look]) -> Mapping[str, Seen]:
        """For each text column the first value that does not look so; if all do, the first value."""

    def nearest(self, constants: Collection[Predicate]) -> Mapping[Predicate, Seen]:
        """For each `t.column == text` the value nearest to the text, or else the first; nothing without values."""


@dataclass(frozen=True, slots=True)
class Cautions:
    """The warnings about the table itself, and those about each rule."""

    table: tuple[Caution, ...] = ()
    rules: tuple[tuple[Caution, ...], ...] = ()

    def of_rule(self, number: int) -> tuple[Caution, ...]:
        return self.rules[number] if self.rules else ()


NO_CAUTIONS = Cautions()


def find_traps(
    rules: Sequence[Rule],
    source: Source,
    broken: Collection[int] = (),
    hiding: Hiding = Hiding(()),  # noqa: B008
) -> Cautions:
    """Find the traps of rules that fit the table. What is `broken`, by place, was tested."""
    about_rows = [number for number, rule in enumerate(rules) if rule.measure is None]
    if len(about_rows) < len(rules):
        # A rule about the whole table has none.
        found = find_traps([rules[number] for number in about_rows], source, (), hiding)
        of_rows = dict(zip(about_rows, found.rules, strict=False))
        return Cautions(found.table, tuple(of_rows.get(number, ()) for number in range(len(rules))))
    asked = [_AboutRule.of(rule, source, number in broken) for number, rule in enumerate(rules)]
    questions = {question for about in asked for question in about.questions}
    answers = source.measure(questions, {name for about in asked for name in about.ordered_texts})
    if source.n_rows == 0:
        message = "the table has no rows, so every rule holds and none was tested. Was all of the data read?"
        return Cautions((Caution("empty-table", message),))
    misordered = {name: facts.look for name, facts in answers.texts.items() if facts.is_misordered}
    odd = {name: hiding.seen(name, seen) for name, seen in source.first_unlike(misordered).items()}
    unknown = [about.unknown_constants(answers) for about in asked]
    nearest = source.nearest({constant for constants in unknown for constant in constants})
    near = {constant: hiding.seen(constant.left.name, seen) for constant, seen in nearest.items()}
    of_constants = [
        tuple(caution for constant in constants for caution in _constants(about, constant, near))
        for about, constants in zip(asked, unknown, strict=True)
    ]
    # A constant that never occurs is reason enough for a rule that nothing could test.
    is_untested = [about.is_untested(answers) and not said for about, said in zip(asked, of_constants, strict=True)]
    blamed = {number: asked[number].blamed(answers) for number, untested in enumerate(is_untested) if untested}
    causes = source.measure({question for parts in blamed.values() for question in parts.questions}, ()).rows
    cautions = []
    for number, (about, said) in enumerate(zip(asked, of_constants, strict=True)):
        untested = [_untested(about, blamed[number], causes, source.n_rows)] if number in blamed else []
        cautions.append((*_orders(about, answers, odd), *said, *untested))
    return Cautions((), tuple(cautions))


@dataclass(frozen=True, slots=True)
class _Blamed:
    """The columns and conditions that leave a rule untested; whether no row meets all of them, or only one does."""

    columns: tuple[str, ...]
    conditions: tuple[Predicate, ...]
    is_empty: bool

    @property
    def questions(self) -> Iterator[RowQuestion]:
        yield from map(_having, self.columns)
        yield from map(_meeting, self.conditions)


def _having(name: str) -> RowQuestion:
    return RowQuestion((), (name,))


def _meeting(predicate: Predicate) -> RowQuestion:
    return RowQuestion((predicate,))


@dataclass(frozen=True, slots=True)
class _AboutRule:
    """What to ask about one rule.

    `sides` are the rows on the left, on the right, and on both, for a rule about pairs; `near` are the rows that
    satisfy all predicates but one, for each predicate of a rule about single rows. Empty if the rule is broken.
    """

    rule: Rule
    join: Join
    ordered_texts: tuple[str, ...]
    constants: tuple[Predicate, ...]
    sides: tuple[RowQuestion, ...] = ()
    near: tuple[RowQuestion, ...] = ()

    @classmethod
    def of(cls, rule: Rule, source: Source, is_broken: bool) -> _AboutRule:
        join = join_of(rule)
        is_text = {name: source.kind(name) is Kind.TEXT for name in rule.column_names}
        ordered = [
            column.name
            for predicate in rule.predicates
            if predicate.op.is_order
            for column in predicate.columns
            if is_text[column.name]
        ]
        constants = [
            _of_left(predicate)
            for predicate in rule.predicates
            if isinstance(predicate.right, Constant) and not predicate.op.is_order and is_text[predicate.left.name]
        ]
        sides = () if is_broken or join.one_row else _sides(join, source.nulls)
        near = _near(join.left_filter, source.nulls) if join.one_row and not is_broken else ()
        return cls(rule, join, tuple(dict.fromkeys(ordered)), tuple(dict.fromkeys(constants)), sides, near)

    @property
    def questions(self) -> Iterator[RowQuestion]:
        yield from self.sides
        yield from self.near
        yield from map(_occurrence, self.constants)

    def unknown_constants(self, answers: Answers) -> list[Predicate]:
        """The constants that no row has, as `==`; of the `!=` on one column only if no row has any of them."""
        absent = [constant for constant in self.constants if not answers.rows[_occurrence(constant)]]
        known_columns = {
            constant.left.name for constant in self.constants if constant.op is Op.NE and constant not in absent
        }
        return [
            Predicate(constant.left, Op.EQ, constant.right)
            for constant in absent
            if constant.op is Op.EQ or constant.left.name not in known_columns
        ]

    @property
    def forbids_a_value(self) -> bool:
        """Whether it says only that a column never has a certain value, as `not(t.city == 'unknown')`."""
        return len(self.rule.predicates) == 1 and self.rule.predicates[0].op is Op.EQ

    def is_untested(self, answers: Answers) -> bool:
        """Whether there is no pair of rows, or no row, that other values could make a violation."""
        if self.near:
            return not any(answers.rows[question] for question in self.near)
        if not self.sides:
            return False
        left, right, both = (answers.rows[question] for question in self.sides)
        return not left or not right or left == right == both == 1

    def blamed(self, answers: Answers) -> _Blamed:
        """What to look at to say why nothing could test the rule."""
        empty = [question for question in (*self.near, *self.sides[:2]) if not answers.rows[question]]
        questions = self.near or empty[:1] or self.sides[:1]
        return _Blamed(
            _unique(name for question in questions for name in question.present),
            _unique(predicate for question in questions for predicate in question.predicates),
            bool(empty),
        )


def _of_left(predicate: Predicate) -> Predicate:
    return predicate if predicate.left.row is Row.LEFT else predicate.swapped()


def _occurrence(constant: Predicate) -> RowQuestion:
    return _meeting(Predicate(constant.left, Op.EQ, constant.right))


def _sides(join: Join, nulls: Nulls) -> tuple[RowQuestion, ...]:
    parts: tuple[Match | Order, ...] = join.order
    if nulls is Nulls.SQL:
        parts += join.key + join.differs
    left_filter, right_filter = (
        (join.row_filter, join.row_filter)
        if join.is_mirror
        else (join.left_filter, tuple(map(_of_left, join.right_filter)))
    )
    left = RowQuestion(left_filter, _unique(part.left for part in parts))
    right = RowQuestion(right_filter, _unique(part.right for part in parts))
    if left == right:
        return left, right, left
    both = RowQuestion(_unique(left.predicates + right.predicates), _unique(left.present + right.present))
    return left, right, both


def _near(predicates: Sequence[Predicate], nulls: Nulls) -> tuple[RowQuestion, ...]:
    questions = []
    for predicate in predicates:
        others = tuple(other for other in predicates if other is not predicate)
        needs_value = _needs_value(predicate, nulls)
        questions.append(RowQuestion(others, _unique(column.name for column in predicate.columns if needs_value)))
    return _unique(questions)


def _needs_value(predicate: Predicate, nulls: Nulls) -> bool:
    """Whether no null can satisfy the predicate."""
    if isinstance(predicate.right, Domain):
        return not (isinstance(predicate.right, Missing) and predicate.op is Op.EQ)
    return predicate.op.is_order or nulls is Nulls.SQL


def _unique(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(items))


def _orders(about: _AboutRule, answers: Answers, odd: Mapping[str, Seen]) -> Iterator[Caution]:
    for name in about.ordered_texts:
        if name in odd:
            seen = odd[name]
            yield Caution("text-order", order_message(name, answers.texts[name], seen), name, seen.shown, seen.row)


def _constants(about: _AboutRule, constant: Predicate, near: Mapping[Predicate, Seen]) -> Iterator[Caution]:
    seen = near.get(constant)
    if seen is None:
        return
    text, name = constant_text(constant), constant.left.name
    if about.forbids_a_value and not _is_same(text, seen.value):
        return
    example = f"its first value is {seen}."
    if nearest_name(text, [seen.value]):
        example = f"the nearest value is {seen}. Text must match exactly, including case."
    message = f"no row has the value {quoted(text)} in column {name!r}; {example}"
    yield Caution("unknown-constant", message, name, seen.shown, seen.row)


def _is_same(left: str, right: str) -> bool:
    return left.strip().casefold() == right.strip().casefold()


def constant_text(constant: Predicate) -> str:
    assert isinstance(constant.right, Constant)
    return str(constant.right.value)


def _untested(about: _AboutRule, blamed: _Blamed, rows: Mapping[RowQuestion, int], n_rows: int) -> Caution:
    what = "row" if about.join.one_row else "pair of rows"
    cause, column, value = _cause(about, blamed, rows, n_rows)
    return Caution("untested", f"no {what} could test this rule, so it holds: {cause}", column, value)


def _cause(
    about: _AboutRule, blamed: _Blamed, rows: Mapping[RowQuestion, int], n_rows: int
) -> tuple[str, str | None, Any]:
    """Why nothing could test a rule, and the column and constant that are to blame."""
    if n_rows == 1 and not about.join.one_row:
        return "the table has only one row", None, None
    for name in blamed.columns:
        if not rows[_having(name)]:
            return f"column {name!r} has no values", name, None
    for predicate in blamed.conditions:
        if not rows[_meeting(predicate)]:
            value = predicate.right.value if isinstance(predicate.right, Constant) else None
            return f"no row satisfies {render_predicate(predicate)}", predicate.left.name, value
    if about.join.one_row:
        return "every row fails at least two of its conditions", None, None
    passes = [f"satisfies {' and '.join(map(render_predicate, blamed.conditions))}"] if blamed.conditions else []
    values = [f"has a value in {' and '.join(map(repr, blamed.columns))}"] if blamed.columns else []
    return f"{'no row' if blamed.is_empty else 'only one row'} {' and '.join(passes + values)}", None, None


@dataclass(slots=True)
class TableSource:
    """Answers for a table in memory. What a predicate says of each row is found out once."""

    table: Table
    nulls: Nulls
    key: tuple[str, ...] = ()
    _masks: dict[Predicate | str, BoolArray | None] = field(default_factory=dict)
    _texts: dict[str, TextColumn] = field(default_factory=dict)
    _first: TableSource | None = None

    @property
    def n_rows(self) -> int:
        return self.table.n_rows

    def kind(self, name: str) -> Kind:
        return self.table.kind(name)

    def measure(self, questions: Collection[RowQuestion], texts: Collection[str]) -> Answers:
        rows = {question: self._count_some(question) for question in questions}
        return Answers(rows, {name: self._text(name).facts() for name in texts})

    def _count_some(self, question: RowQuestion) -> int:
        """Count among the first rows, which is mostly enough, and else among all."""
        if self.n_rows > _PREFIX:
            if self._first is None:
                self._first = TableSource(self.table.prefix(_PREFIX), self.nulls)
            n_rows = self._first._count(question)
            if n_rows > 1:
                return n_rows
        return self._count(question)

    def first_unlike(self, looks: Mapping[str, Look]) -> Mapping[str, Seen]:
        return {name: self._seen(name, self._text(name).first_unlike(look)) for name, look in looks.items()}

    def nearest(self, constants: Collection[Predicate]) -> Mapping[Predicate, Seen]:
        found = {}
        for constant in constants:
            name = constant.left.name
            column = self._text(name)
            if column.n_values:
                found[constant] = self._seen(name, column.nearest(constant_text(constant)))
        return found

    def _text(self, name: str) -> TextColumn:
        if name not in self._texts:
            self._texts[name] = TextColumn(self.table.column(name))
        return self._texts[name]

    def _seen(self, name: str, row: int) -> Seen:
        rows = np.array([row])
        (value,) = self.table.select([name]).take(rows).column(0).to_pylist()
        return Seen(value, row_identities(self.table, self.key, rows)[0])

    def _count(self, question: RowQuestion) -> int:
        wanted: tuple[Predicate | str, ...] = (*question.predicates, *question.present)
        masks = map(self._mask, wanted)
        known = [mask for mask in masks if mask is not None]
        if not known:
            return self.n_rows
        return int(np.count_nonzero(known[0] if len(known) == 1 else np.logical_and.reduce(known)))

    def _mask(self, what: Predicate | str) -> BoolArray | None:
        """The rows that satisfy a predicate or have a value in a column; None for all rows."""
        if what not in self._masks:
            if isinstance(what, str):
                self._masks[what] = valid_rows(self.table.column(what))
            else:
                self._masks[what] = self.table.holds(what, self.nulls)
        return self._masks[what]
