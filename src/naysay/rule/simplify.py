"""The same rule with fewer predicates, and rules that nothing can break."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from naysay.rule.model import Constant, Nulls, Op, Predicate, Rule
from naysay.rule.network import Network, allowed, operands_key, universe
from naysay.rule.render import render_predicate


@dataclass(frozen=True, slots=True)
class Simplified:
    """A rule that the same pairs break, the predicates it no longer has, and whether nothing can ever break it.

    Of a rule that can `never` be broken, `reason` says why, and the rule is left as it was.
    """

    rule: Rule
    dropped: tuple[Predicate, ...] = ()
    never: bool = False
    reason: str = ""


def simplify(rule: Rule, nulls: Nulls = Nulls.SQL) -> Simplified:
    """Leave out the predicates that follow from the others, and join two that are one.

    `t.A < s.A` makes `t.A <= s.A` and `t.A != s.A` superfluous, `t.A <= s.A and t.A != s.A` is `t.A < s.A`, and
    `t.A > 5` makes `t.A > 3` superfluous. The result holds for the meaning of null that is given: with `nulls=EQUAL`,
    `t.A <= s.A and t.A >= s.A` is not `t.A == s.A`, which two nulls satisfy.

    >>> from naysay.rule import parse, render
    >>> render(simplify(parse("not(t.A == s.A and t.B <= s.B and t.B != s.B)")).rule)
    'not(t.A == s.A and t.B < s.B)'
    >>> simplify(parse("not(t.A < s.A and t.A >= s.A)")).reason
    't.A < s.A and t.A >= s.A exclude each other'
    """
    if _independent(rule.predicates):
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
        dropped = _repeated(rule.predicates)
    return Simplified(replace(rule, predicates=tuple(kept)), dropped)


def implies(rule: Rule, other: Rule, nulls: Nulls = Nulls.SQL) -> bool:
    """Wherever `rule` holds, `other` holds too: a pair or row that breaks `other` always breaks `rule`.

    Both directions of a pair count, since a rule holds only when neither breaks it. A rule that is not found to imply
    may still do so where the reason is not in the order of values alone.
    """
    if other.is_one_row and not rule.is_one_row:
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
        if left == right or left in seen or right in seen or isinstance(right, Constant):
            return False
        seen |= {left, right}
    return True


def _merged(predicates: Sequence[Predicate], nulls: Nulls) -> list[Predicate]:
    """Predicates on the same two operands as one comparison, where one says the same as all of them together."""
    groups: dict[object, list[Predicate]] = {}
    for predicate in predicates:
        groups.setdefault(_operands(predicate), []).append(predicate)
    merged = []
    for group in groups.values():
        merged += group if len(group) == 1 else _one_comparison(group, nulls)
    # A group stands where its first predicate stood, since a dict keeps the order of insertion.
    return merged


def _operands(predicate: Predicate) -> object:
    return frozenset(operands_key(predicate))


def _one_comparison(group: list[Predicate], nulls: Nulls) -> list[Predicate]:
    first = group[0]
    possible = universe(first)
    mask = possible
    for predicate in group:
        same_way = operands_key(predicate) == operands_key(first)
        op = predicate.op if same_way else predicate.op.flipped
        mask &= allowed(op, nulls)
    for op in (first.op, *Op):
        if allowed(op, nulls) & possible == mask:
            return [Predicate(first.left, op, first.right)]
    return group


def _without_implied(predicates: list[Predicate], nulls: Nulls) -> list[Predicate]:
    """Drop, from the last to the first, what the rest implies; a row that is mentioned stays mentioned."""
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
    """A smallest part of the predicates that nothing satisfies."""
    core = list(predicates)
    for predicate in predicates:
        rest = list(core)
        rest.remove(predicate)
        if Network(rest, nulls).contradiction:
            core = rest
    return core


def _repeated(predicates: Sequence[Predicate]) -> tuple[Predicate, ...]:
    seen: set[Predicate] = set()
    repeated = []
    for predicate in predicates:
        if predicate in seen:
            repeated.append(predicate)
        seen.add(predicate)
    return tuple(repeated)
