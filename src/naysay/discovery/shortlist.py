"""The short list: the rules that a person should decide about, without those that follow from others in it.

Two rows are less, equal or greater in each comparison (or incomparable, if one is null), so what is possible of them
is a set of outcomes. A rule forbids a box: an outcome of a certain set in each of its comparisons. Applying a rule
that all comparisons but one are within leaves to that one what lies outside: with `Zip -> City`, two rows of equal
Zip have equal City. If nothing is left of the pairs that break a rule, it follows from the rules that were applied.
That is Armstrong's closure for keys and dependencies, and does the same with orders. It is sound, and looks at two
rows only: what takes a third row to see is not found.

The list has keys and dependencies first (a canonical cover of those that pass the test), then orders of quantities and
comparisons of two columns of one row.
An order that says more of the columns of a dependency is shown with it. Codes (numbers that name something: zip codes,
phone numbers, identifiers) have no order that means anything. Rules of other forms (State and City never both differ)
say little that a person could decide about, and are listed only if there is nothing else.

What follows from rules that a person accepted is not listed, nor is a rule that was rejected, or from which a rejected
one would follow: it cannot be true if that one is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice, product
from operator import and_

import numpy as np

from naysay.arrays import BoolArray, Float64Array, Int64Array, UInt64Array
from naysay.discovery.outcomes import FieldKind
from naysay.discovery.support import Fact, closure
from naysay.discovery.vertices import VertexGroup, Vertices, to_int
from naysay.rule import RuleKind, kind
from naysay.rule.model import Op, Predicate, Rule

# An outcome of two rows in a comparison. If nulls equal each other, two nulls are equal and have no order, and a null
# and a value differ and have no order; else a null is incomparable.
_LESS, _EQUAL, _GREATER, _BOTH_NULL, _ONE_NULL = 1, 2, 4, 8, 16
_BITS = 5
_VALUES = _LESS | _EQUAL | _GREATER
_ALL = _VALUES | _BOTH_NULL | _ONE_NULL
_OUTCOMES = {
    Op.EQ: _EQUAL,
    Op.NE: _LESS | _GREATER,
    Op.LT: _LESS,
    Op.LE: _LESS | _EQUAL,
    Op.GT: _GREATER,
    Op.GE: _GREATER | _EQUAL,
}
_WITH_NULLS = _OUTCOMES | {Op.EQ: _EQUAL | _BOTH_NULL, Op.NE: _LESS | _GREATER | _ONE_NULL}
# A rule with more ways to break it than this is not split into them.
_MOST_CASES = 16

# A person can hardly judge a longer rule: these are listed only if no other is.
_MOST_PREDICATES = 4
# Orders, comparisons within a row, and other rules, in the list; more are left to `Discovery.all`.
_MOST_ORDERS, _MOST_ONE_ROW, _MOST_OTHERS = 4, 6, 6
# Keys and dependencies, and orders, of which some may turn out to follow from later ones.
_FACTS_AT_FIRST, _ORDERS_AT_FIRST = 60, 12
# Rules of each form that are compared with the list, and those that only restate something that they are compared with.
_MOST_COMPARED, _MOST_RESTATED = 120, 60
# A number that determines a text with at least so many values names something.
_MANY_NAMES = 30
# Words of which one makes a column of numbers a code, and words that do so at the end of its name.
_CODE_WORDS = {
    *("zip", "zipcode", "postal", "postcode", "plz", "phone", "telephone", "tel", "mobile", "fax", "ssn", "npi"),
    *("isbn", "issn", "ean", "upc", "sku", "iban", "bic", "uuid", "guid", "fips", "pin", "vin", "identifier"),
}
_LAST_CODE_WORDS = {"id", "ids", "code", "number", "no", "nr", "num", "key", "index", "ident"}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True, slots=True)
class Box:
    """The pairs that break a rule: `inside` has the outcomes that it asks for, `outside` those of the same comparisons
    that keep the rule, `parts` the bits of each of these comparisons."""

    inside: int
    outside: int
    parts: tuple[int, ...]


class Implication:
    """Says which rules of a space follow from others.

    `nullable` are the numbers of the comparisons that may be incomparable: what follows through them only follows
    where they are not null, and is not said to follow.
    """

    def __init__(self, vertices: Vertices, nullable: Iterable[int] = ()) -> None:
        self._vertices = vertices
        nullable = set(nullable)
        self._everything = 0
        for number, group in enumerate(vertices.groups):
            null = _ONE_NULL if number in nullable else 0
            possible = _ALL if group.kind is FieldKind.ORDER_OR_NULL else _VALUES | null
            self._everything |= possible << (_BITS * number)
        self._masks = [group.mask for group in vertices.groups]
        places = {group.comparison: number for number, group in enumerate(vertices.groups)}
        self._mirror = [places.get(group.comparison.mirrored()) for group in vertices.groups]

    def boxes(self, cover: UInt64Array) -> tuple[Box, ...]:
        """The pairs that break a rule, and the same with the rows exchanged."""
        asked = self._asked(cover)
        mirrored = {}
        for number, outcomes in asked.items():
            place = self._mirror[number]
            if place is None:
                return (_box(asked),)
            mirrored[place] = _exchanged(outcomes)
        return (_box(asked),) if mirrored == asked else (_box(asked), _box(mirrored))

    def groups_in(self, cover: UInt64Array) -> list[tuple[int, VertexGroup, tuple[Op, ...]]]:
        """The comparisons of a rule, by number, and what it asks of each."""
        whole = to_int(cover)
        inside = [number for number, mask in enumerate(self._masks) if whole & mask]
        return [(number, group, group.ops(whole)) for number in inside for group in (self._vertices.groups[number],)]

    def _asked(self, cover: UInt64Array) -> dict[int, int]:
        """The outcomes that a rule asks for, by the number of the comparison."""
        return {
            number: reduce(
                and_, ((_WITH_NULLS if group.kind is FieldKind.ORDER_OR_NULL else _OUTCOMES)[op] for op in ops)
            )
            for number, group, ops in self.groups_in(cover)
        }

    def follows(self, cover: UInt64Array, given: Sequence[Box]) -> bool:
        """Whether a rule holds whenever no pair of rows is in one of the given boxes."""
        return all(self._excluded(case, given) for case in self._cases(cover))

    def _cases(self, cover: UInt64Array) -> Iterable[int]:
        """The ways to break a rule: `<=` is less or equal. `!=` of values without order is one way."""
        choices = []
        n_cases = 1
        for number, outcomes in self._asked(cover).items():
            ordered = self._vertices.groups[number].comparison.ordered
            each = [1 << bit for bit in range(_BITS) if outcomes >> bit & 1] if ordered else [outcomes]
            if n_cases * len(each) > _MOST_CASES:
                each = [outcomes]
            n_cases *= len(each)
            choices.append([(number, one) for one in each])
        for case in product(*choices):
            possible = self._everything
            for number, outcomes in case:
                possible &= ~((_ALL & ~outcomes) << (_BITS * number))
            yield possible

    def _excluded(self, possible: int, given: Sequence[Box]) -> bool:
        """Whether a pair with these outcomes would break one of the rules."""
        waiting = list(given)
        changed = True
        while changed:
            changed = False
            left: list[Box] = []
            for box in waiting:
                kept = possible & box.outside
                if not kept:
                    # Whatever the pair is, it is within the box.
                    return True
                open_parts = [part for part in box.parts if kept & part]
                if len(open_parts) > 1:
                    left.append(box)
                elif possible & open_parts[0] & box.inside:
                    possible &= ~(open_parts[0] & box.inside)
                    changed = True
            waiting = left
        return False

    def reasons(self, cover: UInt64Array, given: Sequence[Sequence[Box]]) -> list[int] | None:
        """The numbers of a smallest set of rules, by their boxes, from which a rule follows; None if it does not."""
        kept = list(range(len(given)))
        if not self.follows(cover, [box for boxes in given for box in boxes]):
            return None
        for number in reversed(range(len(given))):
            rest = [other for other in kept if other != number]
            if self.follows(cover, [box for other in rest for box in given[other]]):
                kept = rest
        return kept


def _box(asked: dict[int, int]) -> Box:
    inside = sum(outcomes << (_BITS * number) for number, outcomes in asked.items())
    parts = tuple(_ALL << (_BITS * number) for number in asked)
    return Box(inside, sum(parts) & ~inside, parts)


def _exchanged(outcomes: int) -> int:
    """The same outcomes with the two rows exchanged."""
    return outcomes & ~(_LESS | _GREATER) | (outcomes & _LESS) << 2 | (outcomes & _GREATER) >> 2


@dataclass(frozen=True, slots=True)
class Decisions:
    """What a person decided: the pairs that break accepted rules, and rejected rules as covers."""

    accepted: tuple[Box, ...] = ()
    rejected: tuple[UInt64Array, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidates:
    """Tested rules, each by its place: arrays as in `ranking.Results`.

    `facts` are those that are keys, dependencies or constants; `behind` has the columns of the thing that a dependency
    only restates something about. `same_as` names, for columns that equal another one in
    every row, the first such column. `n_values`: how many values a column has, by the number of its comparison.
    """

    covers: UInt64Array
    vertices: Vertices
    n_predicates: Int64Array
    surprise: Float64Array
    by_accident: BoolArray
    often_broken: BoolArray
    is_vacuous: BoolArray
    removed: Float64Array
    facts: Mapping[int, Fact]
    behind: Mapping[int, tuple[int, ...]]
    implication: Implication
    same_as: Mapping[str, str]
    n_values: Mapping[int, int]
    decisions: Decisions = Decisions()

    def name(self, number: int) -> str:
        return self.vertices.groups[number].comparison.left.name

    def order(self) -> list[int]:
        """The places of all rules that were tested at all: doubtful ones last, then short ones, then those with few
        exceptions, then surprising ones. A key says as much with fewer predicates as a dependency."""
        is_key = np.zeros(len(self.covers), np.int64)
        for place, fact in self.facts.items():
            is_key[place] = fact.right is None
        doubtful = self.by_accident | self.often_broken
        keys = (-self.surprise, np.floor(100 * self.removed), self.n_predicates - is_key, doubtful)
        return [place for place in np.lexsort(keys).tolist() if not self.is_vacuous[place]]

    def equal_columns(self, place: int) -> list[int]:
        """The numbers of the columns that a rule asks to be equal."""
        groups = self.implication.groups_in(self.covers[place])
        return [number for number, group, ops in groups if Op.EQ in ops and not group.comparison.across]

    def is_comparison(self, place: int) -> bool:
        """Whether a rule orders or equates two columns of a row; that they are never equal says little."""
        asked = self.implication.groups_in(self.covers[place])
        return len(asked) == 1 and asked[0][2] != (Op.EQ,)

    def is_rejected(self, place: int) -> bool:
        """Whether a rejected rule would follow from a rule, together with the accepted ones."""
        if not self.decisions.rejected:
            return False
        given = [*self.decisions.accepted, *self.implication.boxes(self.covers[place])]
        return any(self.implication.follows(cover, given) for cover in self.decisions.rejected)

    def mentions_double(self, place: int) -> bool:
        """Whether a rule mentions a column that equals another one in every row."""
        if not self.same_as:
            return False
        pairs = [group.comparison for _, group, _ in self.implication.groups_in(self.covers[place])]
        return any(name in self.same_as for pair in pairs for name in (pair.left.name, pair.right.name))


@dataclass(frozen=True, slots=True)
class Entry:
    """A rule of the short list, by its place, and rules that say more of the same columns."""

    place: int
    also: tuple[int, ...] = ()


def short_list(candidates: Candidates, n_wanted: int, *, fill: bool = False) -> list[Entry]:
    """The rules to look at first, best first: those that pass the test, else the best of the others.

    `fill` adds others, as many as wanted. Once a person has accepted rules, there may be nothing left to decide.
    """
    order = candidates.order()
    sure = [place for place in order if not (candidates.by_accident[place] or candidates.often_broken[place])]
    found = _ShortList(candidates).of(sure)
    if not found and not candidates.decisions.accepted:
        found = _ShortList(candidates).of(order, everything=True)
    found = found[:n_wanted]
    if fill:
        listed = {place for entry in found for place in (entry.place, *entry.also)}
        others = (Entry(place) for place in order if place not in listed and not candidates.is_rejected(place))
        found += islice(others, n_wanted - len(found))
    return found


class _ShortList:
    """Rules that do not follow from each other, with the pairs that break them."""

    def __init__(self, candidates: Candidates) -> None:
        self.candidates = candidates
        self.boxes: dict[int, tuple[Box, ...]] = {}
        self._restated = [
            (place, candidates.implication.boxes(candidates.covers[place]))
            for place in list(candidates.behind)[:_MOST_RESTATED]
        ]
        self._sure = [fact for place, fact in candidates.facts.items() if not candidates.by_accident[place]]

    def of(self, places: Sequence[int], *, everything: bool = False) -> list[Entry]:
        candidates = self.candidates
        places = [place for place in places if not candidates.mentions_double(place)]
        short = [place for place in places if candidates.n_predicates[place] <= _MOST_PREDICATES]
        facts = self._cover([place for place in short if place in candidates.facts], _FACTS_AT_FIRST)
        constants = [place for place in facts if not candidates.facts[place].left]
        codes = _codes(candidates, facts)
        orders: list[int] = []
        one_row: list[int] = []
        others: list[int] = []
        for place in [place for place in short if place not in candidates.facts]:
            form = _form(candidates, place, codes)
            if form is RuleKind.ONE_ROW and candidates.is_comparison(place):
                one_row.append(place)
            elif form is not None:
                (orders if form is RuleKind.ORDER else others).append(place)
            if len(orders) + len(others) == 2 * _MOST_COMPARED:
                break
        orders = self._cover(orders, _ORDERS_AT_FIRST)
        also = {fact: [order for order in orders if self._says_more(order, fact)] for fact in facts}
        attached = {order for added in also.values() for order in added}
        found = [Entry(place, tuple(also[place])) for place in facts if place not in constants]
        found += [Entry(place) for place in orders if place not in attached][:_MOST_ORDERS]
        found += [Entry(place) for place in self._cover(one_row, _MOST_ONE_ROW)]
        found += [Entry(place) for place in constants]
        if everything or not (found or candidates.decisions.accepted):
            found += [Entry(place) for place in self._add(others, _MOST_OTHERS)]
        if not found and not candidates.decisions.accepted:
            found = [Entry(place) for place in self._add(places, _FACTS_AT_FIRST)]
        return found

    @property
    def _known(self) -> list[Box]:
        """The pairs that break a rule of the list or an accepted one."""
        return [*self.candidates.decisions.accepted, *(box for boxes in self.boxes.values() for box in boxes)]

    def _cover(self, places: Sequence[int], most: int) -> list[int]:
        """A canonical cover: rules of which none follows from the others, but all that were left out do."""
        kept = self._add(places, most)
        for place in reversed(kept.copy()):
            boxes = self.boxes.pop(place)
            if not self._follows(place, self._known):
                self.boxes[place] = boxes
            else:
                kept.remove(place)
        return kept

    def _add(self, places: Sequence[int], most: int) -> list[int]:
        """The first rules that do not follow from the ones before, or from those that are in the list already."""
        kept: list[int] = []
        for place in places[:_MOST_COMPARED]:
            if len(kept) == most:
                break
            known = self._known
            if self._follows(place, known) or self._follows(place, known + self._more_general(place)):
                continue
            if self.candidates.is_rejected(place):
                continue
            self.boxes[place] = self.candidates.implication.boxes(self.candidates.covers[place])
            kept.append(place)
        return kept

    def _more_general(self, place: int) -> list[Box]:
        """The pairs that break rules that only restate something, and are no longer than a rule.

        What follows from them was tested no better than they were, unless it is about what they restate.
        """
        candidates = self.candidates
        own = closure(candidates.equal_columns(place), self._sure)
        return [
            box
            for other, boxes in self._restated
            if candidates.n_predicates[other] <= candidates.n_predicates[place]
            and not own.issuperset(candidates.behind[other])
            for box in boxes
        ]

    def _follows(self, place: int, given: Sequence[Box]) -> bool:
        return self.candidates.implication.follows(self.candidates.covers[place], given)

    def _says_more(self, order: int, fact: int) -> bool:
        return self._follows(fact, self.boxes[order])


def _form(candidates: Candidates, place: int, codes: set[str]) -> RuleKind | None:
    """Whether a rule is an order of quantities or something else; None if it orders codes."""
    groups = candidates.implication.groups_in(candidates.covers[place])
    for _, group, ops in groups:
        names = {group.comparison.left.name, group.comparison.right.name}
        if any(op.is_order for op in ops) and names & codes and not group.comparison.within_row:
            return None
    pairs = [(group.comparison, op) for _, group, ops in groups for op in ops]
    return kind(Rule(tuple(Predicate(pair.left, op, pair.right) for pair, op in pairs)))


def _codes(candidates: Candidates, facts: Sequence[int]) -> set[str]:
    """The columns of numbers that name something, by their names or because they identify a row or determine a text."""
    codes = set()
    groups = candidates.vertices.groups
    for group in groups:
        for name in (group.comparison.left.name, group.comparison.right.name):
            if group.comparison.ordered and is_code(name):
                codes.add(name)
    for fact in (candidates.facts[place] for place in facts):
        if len(fact.left) != 1:
            continue
        right = fact.right
        names_text = right is not None and not groups[right].comparison.ordered
        if right is None or (names_text and candidates.n_values.get(right, 0) >= _MANY_NAMES):
            codes.add(candidates.name(fact.left[0]))
    return codes


def is_code(name: str) -> bool:
    """Whether the name of a column says that its numbers name something.

    >>> is_code("ZipCode"), is_code("phone_2"), is_code("number of rooms"), is_code("Salary")
    (True, True, False, False)
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    words = [word for word in words if not word.isdigit()] or words
    return bool(words) and (words[-1] in _LAST_CODE_WORDS or not _CODE_WORDS.isdisjoint(words))
