"""A rule in normal form: one join between a left and a right side, still in terms of column names."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from naysay.errors import RuleError
from naysay.rule.implication import Network
from naysay.rule.model import Column, Nulls, Op, Predicate, Row, Rule
from naysay.rule.render import render


@dataclass(frozen=True, slots=True)
class Match:
    """A column of the left row against a column of the right row, for equality or for difference."""

    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Order:
    """left < right, or left > right if `descending`; equality is allowed unless `strict`."""

    left: str
    right: str
    descending: bool
    strict: bool

    @property
    def op(self) -> Op:
        if self.descending:
            return Op.GT if self.strict else Op.GE
        return Op.LT if self.strict else Op.LE


@dataclass(frozen=True, slots=True)
class Join:
    """What a rule says of a pair: filters on each single row, then equalities, orders and differences between them.

    A pair of distinct rows breaks the rule if all parts hold. A one-row rule has filters only on the left.
    """

    key: tuple[Match, ...]
    order: tuple[Order, ...]
    differs: tuple[Match, ...]
    left_filter: tuple[Predicate, ...]
    right_filter: tuple[Predicate, ...]
    one_row: bool

    @property
    def irreflexive(self) -> bool:
        """No row can meet itself: some part compares a column with itself strictly."""
        return any(match.left == match.right for match in self.differs) or any(
            order.left == order.right and order.strict for order in self.order
        )

    @property
    def symmetric(self) -> bool:
        """(t, s) breaks it exactly if (s, t) does, as far as the form of the rule shows."""
        return (
            not self.one_row
            and _mirrored(self.key)
            and _mirrored(self.differs)
            and {_mirror_order(order) for order in self.order} == set(self.order)
            and self._has_equal_filters
        )

    @property
    def is_mirror(self) -> bool:
        """The rows on both sides are the same, and compared in the same columns.

        So rows fall into groups, and for keys, dependencies and up to two orders the fewest rows to remove is known
        exactly. The filters on the two rows need not be the same: it is enough that each row of a violation
        passes both, as in `t.s == s.s and t.s == 'x'`.
        """
        parts: tuple[Match | Order, ...] = self.key + self.differs + self.order
        return (
            not self.one_row
            and all(part.left == part.right for part in parts)
            and (self._has_equal_filters or self._has_implied_filters)
        )

    @property
    def row_filter(self) -> tuple[Predicate, ...]:
        """The filters on either row, as predicates of t. In a mirror both rows of a violation pass them."""
        turned = (predicate.swapped() for predicate in self.right_filter)
        return tuple(dict.fromkeys((*self.left_filter, *turned)))

    @property
    def twins(self) -> frozenset[Hashable]:
        """The same for all joins with as many violations: the order of parts and which row is left do not matter."""
        return frozenset((self._unordered(), self._exchanged()._unordered()))

    def _unordered(self) -> Hashable:
        parts = (self.key, self.order, self.differs, self.left_filter, self.right_filter)
        return (*map(frozenset, parts), self.one_row)

    def _exchanged(self) -> Join:
        """The same pairs with their rows exchanged."""
        if self.one_row:
            return self
        return Join(
            tuple(Match(match.right, match.left) for match in self.key),
            tuple(_mirror_order(order) for order in self.order),
            tuple(Match(match.right, match.left) for match in self.differs),
            tuple(predicate.swapped() for predicate in self.right_filter),
            tuple(predicate.swapped() for predicate in self.left_filter),
            self.one_row,
        )

    @property
    def _has_equal_filters(self) -> bool:
        return {predicate.swapped() for predicate in self.left_filter} == set(self.right_filter)

    @property
    def _has_implied_filters(self) -> bool:
        """Whether the parts of the join imply its filters with the rows exchanged, under every meaning of null."""
        filters = (*self.left_filter, *self.right_filter)
        asked = (*filters, *self._between_rows())
        turned = [predicate.swapped() for predicate in filters]
        networks = (Network(asked, nulls, turned) for nulls in Nulls)
        return all(network.implies(predicate) for network in networks for predicate in turned)

    def _between_rows(self) -> list[Predicate]:
        ops: list[tuple[Match | Order, Op]] = [(match, Op.EQ) for match in self.key]
        ops += [(match, Op.NE) for match in self.differs]
        ops += [(order, order.op) for order in self.order]
        return [Predicate(Column(Row.LEFT, part.left), op, Column(Row.RIGHT, part.right)) for part, op in ops]


def join_of(rule: Rule) -> Join:
    """Sort a rule's predicates into the parts of a join; RuleError for a rule about the whole table."""
    if rule.measure is not None:
        raise RuleError(f"{render(rule)} is about the whole table, not about its rows", hint="Use naysay check for it.")
    key: list[Match] = []
    order: list[Order] = []
    differs: list[Match] = []
    filters: dict[Row, list[Predicate]] = {Row.LEFT: [], Row.RIGHT: []}
    for predicate in rule.predicates:
        if len(predicate.rows) == 1:
            filters[predicate.left.row].append(predicate)
            continue
        if predicate.left.row is Row.RIGHT:
            predicate = predicate.flipped()
        left, right = predicate.left.name, _column(predicate.right).name
        if predicate.op is Op.EQ:
            key.append(Match(left, right))
        elif predicate.op is Op.NE:
            differs.append(Match(left, right))
        else:
            order.append(Order(left, right, predicate.op in (Op.GT, Op.GE), predicate.op.is_strict))
    return Join(
        key=tuple(dict.fromkeys(key)),
        order=tuple(dict.fromkeys(order)),
        differs=tuple(dict.fromkeys(differs)),
        left_filter=tuple(filters[Row.LEFT]),
        right_filter=tuple(filters[Row.RIGHT]),
        one_row=rule.is_one_row,
    )


def joins_of(rules: Sequence[Rule]) -> list[Join]:
    """The joins of the rules about rows."""
    return [join_of(rule) for rule in rules if rule.measure is None]


def filter_of(rule: Rule) -> Join:
    """The filter of a rule about the whole table, as a join of single rows."""
    return Join((), (), (), rule.predicates, (), one_row=True)


def _column(operand: object) -> Column:
    assert isinstance(operand, Column)
    return operand


def _mirrored(matches: tuple[Match, ...]) -> bool:
    return {Match(match.right, match.left) for match in matches} == set(matches)


def _mirror_order(order: Order) -> Order:
    return Order(order.right, order.left, not order.descending, order.strict)
