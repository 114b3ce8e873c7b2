"""What a set of predicates implies: relations between operands, closed under composition.

Two operands stand in exactly one of six relations: less, equal or greater (both are values), both null, only the first
null, only the second null. A predicate allows some of the six, so that a set of allowed relations is a mask of six
bits, and a set of predicates is a network of masks between its operands. Closing the network under composition (path
consistency, as for the point algebra of Vilain and Kautz) finds what follows: an empty mask means that the predicates
exclude each other, and a mask within a predicate's own means that the predicate follows.

All of it is sound: a value is compared with another of its type by a total order (NaN the greatest of its type, equal
to itself), and nothing is assumed of constants that are read differently beside columns of different types.
"""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Iterable
from decimal import Decimal
from functools import cache

from naysay.rule.model import Column, Constant, Nulls, Op, Predicate, Value
from naysay.rule.reading import is_plain, readings

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
# Beyond this many operands only what is said of two operands directly is compared: closing is cubic.
_MAX_OPERANDS = 24


def allowed(op: Op, nulls: Nulls) -> int:
    """The relations that satisfy a comparison."""
    return _MASKS[op] & (_VALUES if nulls is Nulls.SQL else _ALL)


class Network:
    """The operands of some predicates and the relations that all of these allow between them."""

    __slots__ = ("_index", "_masks", "_nulls", "contradiction")

    def __init__(self, predicates: Iterable[Predicate], nulls: Nulls, others: Iterable[Predicate] = ()) -> None:
        """Take `predicates` as true. The operands of `others` become known, and nothing is assumed of them."""
        predicates = list(predicates)
        self._nulls = nulls
        self._index: dict[Hashable, int] = {}
        constants: list[tuple[int, str, Value]] = []
        for predicate in [*predicates, *others]:
            for operand in (predicate.left, predicate.right):
                key = _node(operand, predicate.left.name)
                if key not in self._index:
                    self._index[key] = len(self._index)
                    if isinstance(operand, Constant):
                        constants.append((self._index[key], predicate.left.name, operand.value))
        self._masks = self._initial(constants)
        self.contradiction = not all(self._restrict(predicate) for predicate in predicates) or not self._close()

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
        mask = allowed(predicate.op, self._nulls)
        self._masks[one][two] &= mask
        self._masks[two][one] &= _turned(mask)
        return bool(self._masks[one][two])

    def _places(self, predicate: Predicate) -> tuple[int, int]:
        name = predicate.left.name
        return self._index[_node(predicate.left, name)], self._index[_node(predicate.right, name)]

    def _close(self) -> bool:
        """Compose until nothing changes; false where a mask becomes empty."""
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
        """The predicate is true wherever the network's own are. Its operands must be known."""
        if self.contradiction:
            return True
        one, two = self._places(predicate)
        return not self._masks[one][two] & ~allowed(predicate.op, self._nulls)

    def knows(self, predicate: Predicate) -> bool:
        name = predicate.left.name
        return _node(predicate.left, name) in self._index and _node(predicate.right, name) in self._index

    def possible(self, predicate: Predicate) -> int:
        """The relations that remain possible between the two operands of a predicate."""
        one, two = self._places(predicate)
        return self._masks[one][two]


def universe(predicate: Predicate) -> int:
    """The relations that are possible between the two operands of a predicate, whatever the predicate says."""
    if isinstance(predicate.right, Constant):
        value = predicate.right.value
        return (_VALUES | FIRST_NULL) & (_ALL if value == value else ~GREATER)
    return _SELF if predicate.left == predicate.right else _ALL


def operands_key(predicate: Predicate) -> tuple[Hashable, Hashable]:
    """Equal for two predicates whose operands are the same, in the same order."""
    name = predicate.left.name
    return _node(predicate.left, name), _node(predicate.right, name)


def _node(operand: Column | Constant, name: str) -> Hashable:
    """What makes two operands one: equal constants are one unless columns read them differently."""
    if isinstance(operand, Column):
        return operand
    value = operand.value
    kind = family(value)
    if kind == "number":
        return (kind, value) if value == value and is_plain(value) else (kind, type(value), str(value), name)
    return kind, value


def family(value: Value) -> str:
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
    if family(one) != family(two):
        return _VALUES
    if family(one) != "number":
        return _relation(one, two)
    if not (same_column or (is_plain(one) and is_plain(two))):
        return _VALUES
    mask = 0
    for left, right in zip(readings(one), readings(two), strict=True):
        mask |= _relation(left, right)
    return mask


def _relation(one: Value, two: Value) -> int:
    if one != one or two != two:
        return (EQUAL if two != two else GREATER) if one != one else LESS
    return EQUAL if one == two else (LESS if one < two else GREATER)  # type: ignore[operator]


def _turned(mask: int) -> int:
    """The mask of the same relations with the two operands exchanged."""
    turned = mask & (EQUAL | BOTH_NULL)
    for one, two in ((LESS, GREATER), (FIRST_NULL, SECOND_NULL)):
        turned |= (two if mask & one else 0) | (one if mask & two else 0)
    return turned


_COMPOSED = {
    (LESS, LESS): LESS,
    (LESS, EQUAL): LESS,
    (LESS, GREATER): _VALUES,
    (EQUAL, LESS): LESS,
    (EQUAL, EQUAL): EQUAL,
    (EQUAL, GREATER): GREATER,
    (GREATER, LESS): _VALUES,
    (GREATER, EQUAL): GREATER,
    (GREATER, GREATER): GREATER,
    (LESS, SECOND_NULL): SECOND_NULL,
    (EQUAL, SECOND_NULL): SECOND_NULL,
    (GREATER, SECOND_NULL): SECOND_NULL,
    (FIRST_NULL, LESS): FIRST_NULL,
    (FIRST_NULL, EQUAL): FIRST_NULL,
    (FIRST_NULL, GREATER): FIRST_NULL,
    (FIRST_NULL, SECOND_NULL): BOTH_NULL,
    (SECOND_NULL, FIRST_NULL): _VALUES,
    (SECOND_NULL, BOTH_NULL): SECOND_NULL,
    (BOTH_NULL, FIRST_NULL): FIRST_NULL,
    (BOTH_NULL, BOTH_NULL): BOTH_NULL,
}


@cache
def _compose(one: int, two: int) -> int:
    """The relations that may hold from a to c, where `one` holds from a to b and `two` from b to c."""
    mask = 0
    for (first, second), composed in _COMPOSED.items():
        if one & first and two & second:
            mask |= composed
    return mask
