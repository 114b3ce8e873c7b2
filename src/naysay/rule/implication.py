"""What a set of predicates implies: relations between operands, closed under composition.

Two operands have exactly one of six relations: less, equal or greater (both are values), both null, only the first
null, only the second null. A predicate allows some of the six, so that a set of allowed relations is a mask of six
bits, and a set of predicates is a network of masks between its operands. Closing the network under composition (path
consistency, as for the point algebra of Vilain and Kautz) finds what follows: an empty mask means that the predicates
exclude each other, and a mask within a predicate's own means that the predicate follows.

All of it is sound: values of one type have a total order (NaN is the greatest, and equal to itself), and nothing is
assumed of constants that are read differently next to columns of different types. Of domains, such as a list of values,
it is known only that a predicate follows from itself and excludes its opposite.
"""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from itertools import product

from naysay.rule.model import Column, Constant, Domain, Nulls, Op, Predicate, Rule, Value
from naysay.rule.render import render_predicate
from naysay.rule.scan import is_plain, readings

LESS, EQUAL, GREATER, BOTH_NULL, FIRST_NULL, SECOND_NULL = 1, 2, 4, 8, 16, 32
_VALUES = LESS | EQUAL | GREATER
_ALL = 63
_SELF = EQUAL | BOTH_NULL
_MASKS = {
    Op.EQ: EQUAL | BOTH_NULL,
    Op.NE: LESS | GREATER | FIRST_NULL | SECOND_NULL,
    Op.LT: LESS,
    Op.LE: LESS | EQUAL,
    Op.GT: GREATER,
    Op.GE: GREATER | EQUAL,
}
# Beyond this many operands only predicates on the same two operands are compared: closing is cubic.
_MAX_OPERANDS = 24


def _allowed(op: Op, nulls: Nulls) -> int:
    """The relations that satisfy a comparison."""
    return _MASKS[op] & (_VALUES if nulls is Nulls.SQL else _ALL)


class Network:
    """The operands of some predicates and the relations that all of these allow between them."""

    __slots__ = ("_index", "_masks", "_nulls", "_of_domains", "contradiction")

    def __init__(self, predicates: Iterable[Predicate], nulls: Nulls, others: Iterable[Predicate] = ()) -> None:
        """Take `predicates` as true. `others` only add their operands, so that `implies` may be asked about them."""
        given = list(predicates)
        self._of_domains = {predicate for predicate in given if isinstance(predicate.right, Domain)}
        predicates = [predicate for predicate in given if predicate not in self._of_domains]
        self._nulls = nulls
        self._index: dict[Hashable, int] = {}
        constants: list[tuple[int, str, Value]] = []
        for predicate in [*predicates, *others]:
            for operand in (predicate.left, predicate.right):
                if isinstance(operand, Domain):
                    continue
                key = _node(operand, predicate.left.name)
                if key not in self._index:
                    self._index[key] = len(self._index)
                    if isinstance(operand, Constant):
                        constants.append((self._index[key], predicate.left.name, operand.value))
        self._masks = self._initial(constants)
        opposites = {Predicate(each.left, each.op.negated, each.right) for each in self._of_domains}
        self.contradiction = (
            bool(opposites & self._of_domains)
            or not all(self._restrict(predicate) for predicate in predicates)
            or not self._close()
        )

    def _initial(self, constants: list[tuple[int, str, Value]]) -> list[list[int]]:
        size = len(self._index)
        masks = [[_ALL] * size for _ in range(size)]
        for one in range(size):
            masks[one][one] = _SELF
        for one, name, value in constants:
            for two in range(size):
                masks[one][two] &= _VALUES | SECOND_NULL
                masks[two][one] &= _VALUES | FIRST_NULL
                if value != value:
                    masks[one][two] &= ~LESS
                    masks[two][one] &= ~GREATER
            masks[one][one] = EQUAL
            for two, other_name, other in constants:
                if one != two:
                    masks[one][two] &= _between(value, other, name == other_name)
        return masks

    def _restrict(self, predicate: Predicate) -> bool:
        one, two = self._places(predicate)
        mask = _allowed(predicate.op, self._nulls)
        self._masks[one][two] &= mask
        self._masks[two][one] &= _exchanged(mask)
        return bool(self._masks[one][two])

    def _places(self, predicate: Predicate) -> tuple[int, int]:
        return self._index[_operands_key(predicate)[0]], self._index[_operands_key(predicate)[1]]

    def _close(self) -> bool:
        """Compose until nothing changes; false if a mask becomes empty."""
        masks, size = self._masks, len(self._index)
        changed = size <= _MAX_OPERANDS
        while changed:
            changed = False
            for middle in range(size):
                from_middle = masks[middle]
                for one in range(size):
                    to_middle, row = masks[one][middle], masks[one]
                    for two in range(size):
                        mask = row[two] & _compose(to_middle, from_middle[two])
                        if mask != row[two]:
                            if not mask:
                                return False
                            row[two] = mask
                            changed = True
        return True

    def implies(self, predicate: Predicate) -> bool:
        """Whether the predicate is true whenever the network's own are. Its operands must be in the network."""
        if self.contradiction or predicate in self._of_domains:
            return True
        if isinstance(predicate.right, Domain):
            return False
        one, two = self._places(predicate)
        return not self._masks[one][two] & ~_allowed(predicate.op, self._nulls)


def _universe(predicate: Predicate) -> int:
    """The relations that are possible between the operands of a predicate, regardless of its comparison."""
    if isinstance(predicate.right, Constant):
        value = predicate.right.value
        return (_VALUES | FIRST_NULL) & (_ALL if value == value else ~GREATER)
    return _SELF if predicate.left == predicate.right else _ALL


def _operands_key(predicate: Predicate) -> tuple[Hashable, Hashable]:
    """Equal for two predicates whose operands are the same, in the same order."""
    name, right = predicate.left.name, predicate.right
    return _node(predicate.left, name), right if isinstance(right, Domain) else _node(right, name)


def _node(operand: Column | Constant, name: str) -> Hashable:
    """What makes two operands one: equal constants are one unless columns read them differently."""
    if isinstance(operand, Column):
        return operand
    value = operand.value
    kind = _family(value)
    if kind == "number":
        return (kind, value) if value == value and is_plain(value) else (kind, type(value), str(value), name)
    return kind, value


def _family(value: Value) -> str:
    """The values that a value may be compared with have the same family."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float, Decimal)):
        return "number"
    if isinstance(value, datetime.datetime):
        return "timestamp" if value.tzinfo is None else "instant"
    return type(value).__name__


def _between(one: Value, two: Value, same_column: bool) -> int:
    """The relations that two constants may have."""
    if _family(one) != _family(two):
        return _VALUES
    if _family(one) != "number":
        return _relation(one, two)
    if not (same_column or (is_plain(one) and is_plain(two))):
        return _VALUES
    mask = 0
    for left, right in zip(readings(one), readings(two), strict=True):
        mask |= _relation(left, right)
    return mask


def _relation(one: Value | None, two: Value | None) -> int:
    if one is None or two is None:
        return SECOND_NULL if one is not None else (FIRST_NULL if two is not None else BOTH_NULL)
    if one != one or two != two:
        return (EQUAL if two != two else GREATER) if one != one else LESS
    return EQUAL if one == two else (LESS if one < two else GREATER)  # type: ignore[operator]


def _exchanged(mask: int) -> int:
    """The mask of the same relations with the two operands exchanged."""
    exchanged = mask & (EQUAL | BOTH_NULL)
    for one, two in ((LESS, GREATER), (FIRST_NULL, SECOND_NULL)):
        exchanged |= (two if mask & one else 0) | (one if mask & two else 0)
    return exchanged


def _compose_relations() -> dict[tuple[int, int], int]:
    """The relations that two values may have, given the relation of each to a third; three values and null show all."""
    composed: dict[tuple[int, int], int] = defaultdict(int)
    for one, middle, two in product((None, 0, 1, 2), repeat=3):
        composed[_relation(one, middle), _relation(middle, two)] |= _relation(one, two)
    return composed


_COMPOSED = _compose_relations()


@cache
def _compose(one: int, two: int) -> int:
    """The relations that a may have to c, if a has one of `one` to b and b one of `two` to c."""
    mask = 0
    for (first, second), composed in _COMPOSED.items():
        if one & first and two & second:
            mask |= composed
    return mask


@dataclass(frozen=True, slots=True)
class Simplified:
    """A rule that the same pairs break, the predicates that were dropped, and whether nothing can ever break it.

    If it can `never` be broken, `reason` says why, and the rule is left as it was.
    """

    rule: Rule
    dropped: tuple[Predicate, ...] = ()
    never: bool = False
    reason: str = ""


def simplify(rule: Rule, nulls: Nulls = Nulls.SQL) -> Simplified:
    """Drop predicates that follow from the others, and merge predicates that are one comparison.

    `t.A < s.A` makes `t.A <= s.A` and `t.A != s.A` superfluous, `t.A <= s.A and t.A != s.A` is `t.A < s.A`, and
    `t.A > 5` makes `t.A > 3` superfluous. The result is for the given meaning of nulls: with `nulls=EQUAL`,
    `t.A <= s.A and t.A >= s.A` is not `t.A == s.A`, which two nulls satisfy.

    >>> from naysay.rule import parse, render
    >>> render(simplify(parse("not(t.A == s.A and t.B <= s.B and t.B != s.B)")).rule)
    'not(t.A == s.A and t.B < s.B)'
    >>> simplify(parse("not(t.A < s.A and t.A >= s.A)")).reason
    't.A < s.A and t.A >= s.A exclude each other'
    """
    if rule.measure is not None or _independent(rule.predicates):
        return Simplified(rule)
    if Network(rule.predicates, nulls).contradiction:
        core = _contradiction(rule.predicates, nulls)
        joined = " and ".join(render_predicate(predicate) for predicate in core)
        reason = f"{joined} exclude each other" if len(core) > 1 else f"{joined} is never true"
        return Simplified(rule, never=True, reason=reason)
    kept = _without_implied(_merged(rule.predicates, nulls), nulls)
    dropped = tuple(predicate for predicate in rule.predicates if predicate not in kept)
    if len(kept) == len(rule.predicates):
        return Simplified(rule)
    if not dropped:
        dropped = tuple((Counter(rule.predicates) - Counter(kept)).elements())
    return Simplified(replace(rule, predicates=tuple(kept)), dropped)


def implies(rule: Rule, other: Rule, nulls: Nulls = Nulls.SQL) -> bool:
    """Whether `other` holds whenever `rule` does: a pair or row that breaks `other` always breaks `rule`.

    Both directions of a pair count, since a rule holds only if neither breaks it. False may also mean that the reason
    lies in more than the order of values.
    """
    if (other.is_one_row and not rule.is_one_row) or rule.measure is not None or other.measure is not None:
        return False
    network = Network(other.predicates, nulls, (*rule.predicates, *_swapped(rule)))
    return any(
        all(network.implies(predicate) for predicate in predicates) for predicates in (rule.predicates, _swapped(rule))
    )


def _swapped(rule: Rule) -> tuple[Predicate, ...]:
    """The predicates with the rows exchanged, of a one-row rule too."""
    return tuple(predicate.swapped() for predicate in rule.predicates)


def _independent(predicates: Sequence[Predicate]) -> bool:
    """Each predicate has operands of its own, so that it neither follows from the others nor excludes them."""
    seen: set[object] = set()
    for predicate in predicates:
        left, right = predicate.left, predicate.right
        if left == right or left in seen or right in seen or isinstance(right, Constant | Domain):
            return False
        seen |= {left, right}
    return True


def _merged(predicates: Sequence[Predicate], nulls: Nulls) -> list[Predicate]:
    """Replace predicates on the same two operands by one comparison, if one says the same as all of them."""
    groups: dict[object, list[Predicate]] = {}
    for predicate in predicates:
        groups.setdefault(frozenset(_operands_key(predicate)), []).append(predicate)
    merged = []
    for group in groups.values():
        merged += group if len(group) == 1 or isinstance(group[0].right, Domain) else _one_comparison(group, nulls)
    # A group takes the place of its first predicate, since a dict keeps the order of insertion.
    return merged


def _one_comparison(group: list[Predicate], nulls: Nulls) -> list[Predicate]:
    first = group[0]
    possible = _universe(first)
    mask = possible
    for predicate in group:
        same_way = _operands_key(predicate) == _operands_key(first)
        mask &= _allowed(predicate.op if same_way else predicate.op.flipped, nulls)
    for op in (first.op, *Op):
        if _allowed(op, nulls) & possible == mask:
            return [Predicate(first.left, op, first.right)]
    return group


def _without_implied(predicates: list[Predicate], nulls: Nulls) -> list[Predicate]:
    """Drop, from last to first, what the rest implies; a row that is mentioned stays mentioned."""
    kept = list(predicates)
    rows = {row for predicate in predicates for row in predicate.rows}
    for place in range(len(kept) - 1, -1, -1):
        rest = kept[:place] + kept[place + 1 :]
        if {row for predicate in rest for row in predicate.rows} != rows:
            continue
        if Network(rest, nulls, [kept[place]]).implies(kept[place]):
            kept = rest
    return kept


def _contradiction(predicates: Sequence[Predicate], nulls: Nulls) -> list[Predicate]:
    """A smallest subset of the predicates that nothing satisfies."""
    core = list(predicates)
    for predicate in predicates:
        rest = list(core)
        rest.remove(predicate)
        if Network(rest, nulls).contradiction:
            core = rest
    return core
