"""Discovery by trying every possible rule: the oracle of tests/discovery. It shares no code with what it judges.

A comparison is (left row, left column, right row, right column, ordered), rows "t" and "s". A rule is a frozenset
of (left row, left column, operator, right row, right column). A table is a list of dicts, None for null.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Comparison = tuple[str, str, str, str, bool]
Predicate = tuple[str, str, str, str, str]
NaiveRule = frozenset[Predicate]

ORDER_OPS = ("<=", ">=", "==", "!=", "<", ">")
FLIPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def minimal_rules(
    rows: Sequence[dict[str, Any]], comparisons: Sequence[Comparison], *, nulls_equal: bool = False, most: int = 0
) -> set[NaiveRule]:
    """All rules broken by at most `most` ordered pairs such that every weaker rule is broken by more.

    Rules that no table could break are left out.
    """
    return minimal_rules_each(rows, comparisons, [most], nulls_equal=nulls_equal)[0]


def minimal_rules_each(
    rows: Sequence[dict[str, Any]], comparisons: Sequence[Comparison], mosts: Sequence[int], *, nulls_equal: bool
) -> list[set[NaiveRule]]:
    """`minimal_rules` for each of several numbers of pairs that may break a rule; every rule is tried once."""
    pairs = [(t, s) for i, t in enumerate(rows) for j, s in enumerate(rows) if i != j]
    menus = [_menu(comparison, rows, pairs, nulls_equal) for comparison in comparisons]
    masks: dict[tuple[int, ...], int] = {(): (1 << len(pairs)) - 1}
    for menu in menus:
        masks = {(*choice, item): mask & menu[item][2] for choice, mask in masks.items() for item in range(len(menu))}
    n_broken = {choice: mask.bit_count() for choice, mask in masks.items()}
    found: list[set[NaiveRule]] = []
    possible: dict[NaiveRule, bool] = {}
    for most in mosts:
        rules = set()
        for choice, n_pairs in n_broken.items():
            if n_pairs > most or any(n_broken[wider] <= most for wider in _wider(choice, menus)):
                continue
            rule = frozenset(
                (*comparison[:2], op, *comparison[2:4])
                for comparison, menu, item in zip(comparisons, menus, choice, strict=True)
                for op in menu[item][0]
            )
            if rule not in possible:
                possible[rule] = _is_possible(rule, nulls_equal)
            if possible[rule]:
                rules.add(rule)
        found.append(rules)
    return found


# Whether a rule is accepted, given the ordered pairs of row numbers that break it, and for each of its comparisons
# those that satisfy all others, and whether it is about single rows.
Accepts = Callable[[list[tuple[int, int]], list[list[tuple[int, int]]], bool], bool]


def minimal_rules_by(
    rows: Sequence[dict[str, Any]], comparisons: Sequence[Comparison], accepts: Accepts, *, nulls_equal: bool
) -> set[NaiveRule]:
    """All rules that are accepted such that no weaker rule is, however much weaker; accepting need not be monotone."""
    numbers = [(i, j) for i in range(len(rows)) for j in range(len(rows)) if i != j]
    menus = [
        _menu(comparison, rows, [(rows[i], rows[j]) for i, j in numbers], nulls_equal) for comparison in comparisons
    ]
    everything = (1 << len(numbers)) - 1
    # Pairs with an outcome: if a value is null there may be none, and such a pair tests nothing.
    compared = [functools.reduce(operator.or_, (pairs for ops, _, pairs in menu if ops), 0) for menu in menus]
    known: dict[tuple[int, ...], bool] = {}

    def pairs_of(choice: Sequence[int], without: int | None = None) -> list[tuple[int, int]]:
        mask = everything
        for place, item in enumerate(choice):
            mask &= menus[place][item][2] if place != without else compared[place]
        return [pair for number, pair in enumerate(numbers) if mask >> number & 1]

    def is_accepted(choice: tuple[int, ...]) -> bool:
        if choice not in known:
            used = [place for place, item in enumerate(choice) if item]
            rows_named = {comparisons[place][side] for place in used for side in (0, 2)}
            others = [pairs_of(choice, place) for place in used]
            known[choice] = accepts(pairs_of(choice), others, len(rows_named) == 1)
        return known[choice]

    def weaker(choice: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
        options = [
            [item for item, (_, meaning, _) in enumerate(menu) if menu[chosen][1] <= meaning]
            for menu, chosen in zip(menus, choice, strict=True)
        ]
        return (other for other in itertools.product(*options) if other != choice)

    found = set()
    for choice in itertools.product(*(range(len(menu)) for menu in menus)):
        if is_accepted(choice) and not any(map(is_accepted, weaker(choice))):
            rule = frozenset(
                (*comparison[:2], op, *comparison[2:4])
                for comparison, menu, item in zip(comparisons, menus, choice, strict=True)
                for op in menu[item][0]
            )
            if _is_possible(rule, nulls_equal):
                found.add(rule)
    return found


# What one comparison can contribute: operators, the outcomes that satisfy them, the pairs that do.
Item = tuple[tuple[str, ...], frozenset[str], int]


def _menu(comparison: Comparison, rows: Any, pairs: Any, nulls_equal: bool) -> list[Item]:
    """Every satisfiable conjunction of operators, equivalent ones only once, "nothing" first."""
    left_row, left, right_row, right, ordered = comparison
    outcomes = ["<", "=", ">"]
    if any(row[left] is None or row[right] is None for row in rows):
        outcomes += ["both null", "one null"]
    ops = ORDER_OPS if ordered else ("==", "!=")
    items: dict[frozenset[str], Item] = {}
    for size in range(3 if nulls_equal else 2):
        for chosen in itertools.combinations(ops, size):
            meaning = frozenset(o for o in outcomes if all(_allows(op, o, nulls_equal) for op in chosen))
            if not meaning or meaning in items:
                continue
            mask = 0
            for number, (t, s) in enumerate(pairs):
                one = (t if left_row == "t" else s)[left]
                two = (t if right_row == "t" else s)[right]
                mask |= (_outcome(one, two) in meaning) << number
            items[meaning] = (chosen, meaning, mask)
    return list(items.values())


def _outcome(one: Any, two: Any) -> str:
    if one is None or two is None:
        return "both null" if one is two else "one null"
    if _is_nan(one) or _is_nan(two):
        return "=" if _is_nan(one) and _is_nan(two) else (">" if _is_nan(one) else "<")
    if isinstance(one, str):
        one, two = one.encode(), two.encode()
    return "<" if one < two else (">" if one > two else "=")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _allows(op: str, outcome: str, nulls_equal: bool) -> bool:
    if outcome == "both null":
        return nulls_equal and op == "=="
    if outcome == "one null":
        return nulls_equal and op == "!="
    if op == "!=":
        return outcome != "="
    return outcome in op or (outcome == "=" and op == "==")


def _wider(choice: tuple[int, ...], menus: list[list[Item]]) -> Iterable[tuple[int, ...]]:
    """The rules that are weaker in one comparison and the same elsewhere."""
    for place, menu in enumerate(menus):
        meaning = menu[choice[place]][1]
        for item, (_, other, _) in enumerate(menu):
            if meaning < other:
                yield (*choice[:place], item, *choice[place + 1 :])


def _is_possible(rule: NaiveRule, nulls_equal: bool) -> bool:
    """Whether some two rows of some table could break the rule: tried with as many values as there are positions.

    If each column is compared only with itself, nothing can contradict.
    """
    if all(left == right for _, left, _, _, right in rule):
        return True
    places = sorted(
        {place for left_row, left, _, right_row, right in rule for place in ((left_row, left), (right_row, right))}
    )
    values = [*range(len(places)), *([None] if nulls_equal else [])]
    for assignment in itertools.product(values, repeat=len(places)):
        row = dict(zip(places, assignment, strict=True))
        if all(
            _allows(op, _outcome(row[left_row, left], row[right_row, right]), nulls_equal)
            for left_row, left, op, right_row, right in rule
        ):
            return True
    return False


def swapped(rule: NaiveRule) -> NaiveRule:
    other = {"t": "s", "s": "t"}
    return frozenset((other[a], left, op, other[b], right) for a, left, op, b, right in rule)


def either_way(rules: Iterable[NaiveRule]) -> set[frozenset[NaiveRule]]:
    """Each rule together with its symmetric twin, every predicate written in one direction."""
    return {frozenset((_turned(rule), _turned(swapped(rule)))) for rule in rules}


def _turned(rule: NaiveRule) -> NaiveRule:
    return frozenset(
        (a, left, op, b, right) if (a == "s", left) <= (b == "s", right) else (b, right, FLIPPED[op], a, left)
        for a, left, op, b, right in rule
    )
