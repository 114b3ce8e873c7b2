"""Where the rows to fix come from: few segments of other columns, of files or of the rows, that hold most of them.

A segment is claimed if it holds so many of the rows to fix that chance does not explain it, even if its rows were
broken `_RATIO` times as often as the others anyway. `docs/decisions/causes.md` says why, and what is counted as chance.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import exp, log
from operator import add
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from naysay.arrays import BoolArray, Float64Array, Int64Array
from naysay.detect.result import Cause, Condition
from naysay.detect.summary import Conflicts
from naysay.kernels.sort import dense_groups, sorted_places
from naysay.plan.bind import BoundJoin, Memo, Side, bind
from naysay.plan.join import Join, Match, Order
from naysay.rule.model import Constant, Nulls, Op, Predicate
from naysay.table import Table
from naysay.table.column import Floats, Integers, Kind, kind_of, read_column, valid_of
from naysay.table.frame import decoded, plain_values, without_views

# A cause has at least this many rows to fix, this share of them, and so many that are not copies of one mistake.
_FEWEST, _LEAST_SHARE, _FEWEST_MISTAKES = 5, 0.2, 3
# Its rows are broken this many times as often as all rows, and as the others; `_RATIO` times is left to chance.
_LEAST_LIFT, _LEAST_RATIO, _RATIO = 1.5, 2.0, 1.2
# How often chance may explain what is claimed, corrected for all segments tried.
_MOST_CHANCE = 0.05
_MOST_CAUSES = 3
# A second condition must leave this share of the rows to fix, in at most half of the rows.
_KEPT_SHARE = 0.8
# Of two segments that explain about as much, people prefer a value to a range of times, to another range, to rows.
_ABOUT_AS_MUCH = 0.9
# Ranges begin and end at so many of the values that rows to fix have.
_MOST_EDGES = 40
# Values and ranges to try come from at most so many rows to fix; all are counted.
MOST_BLAMED = 8_000
MOST_COLUMNS = 100
# Longer texts are no segments that anybody would name.
LONGEST_TEXT = 200
# In larger tables what has no chance among this many rows is not counted in all.
_SAMPLE, SMALL = 4_096, 20_000
# By how many standard deviations the sample may err.
_SLACK = 3.0
_PIECE = 1 << 17
# If at most one of so many rows counts, only these are looked at.
_FEW = 4
_TIMES = (Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.INSTANT)


@dataclass(frozen=True, slots=True)
class Blame:
    """Rows that may be to blame, ascending, with how much each is; those that are `suspects`.

    If any of several rows could be removed, all of them share the blame, so that it does not depend on which one is.
    Rows with the same wrong value under one key share the blame of one row: that may be one mistake. If the fewest rows
    to remove are not known exactly, innocent rows are among the suspects: instead the rows with the most conflicts
    count, as many as must go at least.
    """

    rows: Int64Array
    weights: Float64Array
    is_suspect: BoolArray


def blame_of(join: Join, bound: BoundJoin | None, found: Conflicts) -> Blame:
    """The blame for a broken rule; `bound` is its join unless it is about single rows."""
    suspects = found.suspects
    if not found.removal.is_exact:
        return _most_conflicts(found)
    parts = 0 if bound is None else len(bound.left.differs) + len(bound.left.order)
    if bound is None or not join.is_mirror or parts > 1:
        return Blame(suspects, np.ones(suspects.size), np.ones(suspects.size, np.bool_))
    side = bound.left
    if found.rows.size < side.n_rows:
        side = side.take(side.places_of(found.rows))
    values = side.rows
    if parts and not (join.order and not join.order[0].strict):
        values = (side.differs or side.order)[0]
    places = side.places_of(suspects)
    is_suspect = np.zeros(side.n_rows, np.bool_)
    is_suspect[places] = True
    weights = _shared_blame(_dense(side.key, bound.n_keys), values, places)
    blamed = np.flatnonzero(weights)
    return Blame(side.rows[blamed], weights[blamed], is_suspect[blamed])


def _most_conflicts(found: Conflicts) -> Blame:
    """Blame for the rows with the most conflicts, as many as must go at least; the last of these share it."""
    n_blamed = max(found.removal.least, 1)
    least = np.sort(found.counts)[-n_blamed]
    blamed = np.flatnonzero(found.counts >= least)
    is_last = found.counts[blamed] == least
    n_last = np.count_nonzero(is_last)
    weights = np.where(is_last, (n_blamed - (blamed.size - n_last)) / n_last, 1.0)
    return Blame(found.rows[blamed], weights, weights >= 0.5)


def _shared_blame(keys: Int64Array, values: Int64Array, places: Int64Array) -> Float64Array:
    """The blame of rows in conflict, given the places of the suspects: those without the commonest value of their key.

    One for each value, shared by its rows. Values as common as the one that stays share their blame with it.
    """
    order = places[sorted_places(keys[places], values[places])]
    key = keys[order]
    is_new = np.append(True, (key[1:] != key[:-1]) | (values[order][1:] != values[order][:-1]))
    value = np.cumsum(is_new) - 1
    n_same = np.bincount(value)[value]
    n_staying = (np.bincount(keys) - np.bincount(key, minlength=int(keys.max()) + 1)).astype(np.float64)
    is_tied = n_same == n_staying[key]
    # The values of a key that are as common as the one that stays, and that one.
    n_tied = 1 + np.bincount(key[is_new], weights=is_tied[is_new], minlength=n_staying.size)
    shared = (n_tied - 1) / n_tied
    weights = np.zeros(keys.size)
    has_tie = n_tied > 1
    if has_tie.any():
        staying = np.flatnonzero(has_tie[keys])
        weights[staying] = (shared / np.maximum(n_staying, 1))[keys[staying]]
    weights[order] = np.where(is_tied, shared[key], 1.0) / n_same
    return weights


def population_of(table: Table, join: Join, bound: BoundJoin | None, nulls: Nulls, found: Conflicts) -> BoolArray:
    """The rows that a rule could find broken: those it applies to, but not the few that are alone with their key.

    If most are alone, any row could have been a duplicate, and is counted.
    """
    mask = np.zeros(table.n_rows, np.bool_)
    if bound is None:
        mask[:] = True
        for predicate in scope_of(join):
            mask &= table.holds(predicate, nulls)
    elif join.is_mirror:
        rows = _not_alone(join, bound.left, bound.n_keys, found)
        mask[rows if are_rarely_alone(rows.size, bound.left.n_rows) else bound.left.rows] = True
    else:
        mask[bound.left.rows] = True
        mask[bound.right.rows] = True
    return mask


def _not_alone(join: Join, side: Side, n_keys: int, found: Conflicts) -> Int64Array:
    """The rows that share their key with another row."""
    if not join.order and not join.differs:
        return found.rows
    keys = _dense(side.key, n_keys)
    return side.rows[np.bincount(keys)[keys] > 1]


def scope_of(join: Join) -> list[Predicate]:
    """The conditions of a one-row rule that say to which rows it applies: those that a column has a certain value."""
    scope = [each for each in join.left_filter if each.op is Op.EQ and isinstance(each.right, Constant)]
    return scope if len(scope) < len(join.left_filter) else []


def are_rarely_alone(n_repeated: float, n_rows: float) -> bool:
    """Whether most rows share their key with another."""
    return 2 * n_repeated > n_rows


def _dense(keys: Int64Array, n_keys: int) -> Int64Array:
    """Keys in a range that is not much larger than their number."""
    return dense_groups(keys, keys[:0])[0] if n_keys > 4 * keys.size + (1 << 16) else keys


def columns_to_try(join: Join, schema: pa.Schema) -> list[str]:
    """The columns whose segments say something: those that the rule does not use, and the groups of an order.

    That a row to fix has one of the values that are compared is no news, and `groups` shows the keys of a dependency.
    """
    predicates = (*join.left_filter, *join.right_filter)
    used = {column.name for predicate in predicates for column in predicate.columns}
    parts: tuple[Match | Order, ...] = join.order + join.differs
    used |= {name for part in parts for name in (part.left, part.right)}
    keys = {name for match in join.key for name in (match.left, match.right)}
    if not join.is_mirror or not join.order:
        used |= keys
    names = [field.name for field in schema if kind_of(field.type) not in (Kind.OTHER, Kind.NULL)]
    tried = [name for name in names if name not in used and names.count(name) == 1]
    return tried[:MOST_COLUMNS]


@dataclass(frozen=True, slots=True)
class Family:
    """Segments that are tried together: values of a column or of the files, or ranges between edges.

    `kind` is that of the conditions. `values` are the values, or the edges, ascending; without a column they are row
    numbers. `tried` is by how much chance is corrected: the segments of the family times the families. Of two families
    that explain about as much, that of the lower `rank` is preferred.
    """

    kind: str
    column: str | None
    values: pa.Array
    tried: int
    rank: int

    @property
    def is_range(self) -> bool:
        return self.kind in ("range", "rows")

    @property
    def n_cells(self) -> int:
        return 2 * len(self.values) + 1 if self.is_range else len(self.values)


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows, blame and suspects in all, and for each family in each of its cells.

    The cells of values are these. Those of ranges are, in turn, what lies before an edge and what lies on it.
    """

    totals: Float64Array
    cells: tuple[Float64Array, ...]

    def __add__(self, other: Counts) -> Counts:
        return Counts.of(self.flat + other.flat, [each.shape[1] for each in self.cells])

    @property
    def flat(self) -> Float64Array:
        """All numbers, one after the other."""
        return np.concatenate((self.totals, *(each.ravel() for each in self.cells)))

    @classmethod
    def of(cls, flat: Float64Array, n_cells: Sequence[int]) -> Counts:
        """The counts whose `flat` this is, of families with so many cells."""
        totals, *cells = np.split(flat, 3 + 3 * np.cumsum([0, *n_cells])[:-1])
        return cls(totals, tuple(each.reshape(3, -1) for each in cells))


@dataclass(frozen=True, slots=True)
class _Found:
    """The best segment of a family: rows, blame and suspects in it; the score is the logarithm of 1 / chance."""

    condition: Condition
    rank: int
    tried: int
    inside: Float64Array
    score: float


class RowSource(Protocol):
    """Rows of which some are to blame."""

    def families(self, within: Sequence[Condition], without: Sequence[Sequence[Condition]]) -> list[Family]:
        """What to try among the rows that satisfy all conditions `within` and none of the lists `without`."""


Source = TypeVar("Source", bound=RowSource)


@dataclass(frozen=True, slots=True)
class Question:
    """How many rows, and how much blame, these families have among the rows `within` and `without` some segments."""

    families: Sequence[Family]
    within: Sequence[Condition]
    without: Sequence[Sequence[Condition]]


def find_causes(
    sources: Sequence[Source], count: Callable[[Sequence[tuple[Source, Question]]], Sequence[Counts]]
) -> list[tuple[Cause, ...]]:
    """For each source the segments that hold most of the rows to fix, each among those that no earlier one holds.

    `count` answers the questions about all sources that are open at a time.
    """
    searches = [_search(source) for source in sources]
    found: list[tuple[Cause, ...]] = [() for _ in sources]
    answers: dict[int, Counts | None] = dict.fromkeys(range(len(sources)))
    while answers:
        asked: dict[int, Question] = {}
        for place, answer in answers.items():
            try:
                # The first time nothing has been asked yet.
                asked[place] = next(searches[place]) if answer is None else searches[place].send(answer)
            except StopIteration as end:
                found[place] = end.value
        counts = count([(sources[place], question) for place, question in asked.items()]) if asked else ()
        answers = dict(zip(asked, counts, strict=True))
    return found


def _search(source: RowSource) -> Generator[Question, Counts, tuple[Cause, ...]]:
    found: list[Cause] = []
    while len(found) < _MOST_CAUSES:
        cause = yield from _find_one(source, [cause.conditions for cause in found])
        if cause is None:
            break
        found.append(cause)
        if not _is_enough(cause.of_suspects - cause.suspects, found[0].of_suspects):
            break
    return tuple(found)


def _find_one(source: RowSource, without: Sequence[Sequence[Condition]]) -> Generator[Question, Counts, Cause | None]:
    families = source.families((), without)
    if not families:
        return None
    counts = yield Question(families, (), without)
    best = _best(families, counts)
    if best is None:
        return None
    conditions: tuple[Condition, ...] = (best.condition,)
    inside, tried = best.inside, best.tried
    second = yield from _second(source, best, without)
    if second is not None:
        conditions, inside, tried = (*conditions, second.condition), second.inside, tried * second.tried
    n_rows, _, n_suspects = counts.totals
    chance = min(1.0, tried * exp(-_surprise(inside[1], counts.totals[1], inside[0], n_rows)))
    return Cause(conditions, round(inside[2]), round(n_suspects), round(inside[0]), round(n_rows), float(chance))


def _second(
    source: RowSource, first: _Found, without: Sequence[Sequence[Condition]]
) -> Generator[Question, Counts, _Found | None]:
    """A condition that halves the segment at least, and leaves most of the rows to fix in it."""
    within = (first.condition,)
    # Rows of a segment of rows would only be its dirtier part.
    families = [each for each in source.families(within, without) if each.column not in (first.condition.column, None)]
    if not families:
        return None
    counts = yield Question(families, within, without)
    found = _best(families, counts)
    if found is None or found.inside[2] < _KEPT_SHARE * counts.totals[2] or 2 * found.inside[0] > counts.totals[0]:
        return None
    return found


def _best(families: Sequence[Family], counts: Counts) -> _Found | None:
    found = [
        each
        for family, cells in zip(families, counts.cells, strict=True)
        for each in _claims(family, cells, counts.totals)
    ]
    if not found:
        return None
    most = max(each.score for each in found)
    about_as_much = [each for each in found if each.score >= _ABOUT_AS_MUCH * most]
    return min(about_as_much, key=lambda each: (each.rank, -each.score))


def has_enough(n_suspects: Any) -> bool:
    """Whether there are enough suspects to claim anything."""
    return bool(n_suspects >= _FEWEST)


def _is_enough(part: Any, whole: float) -> Any:
    return part >= max(_FEWEST, _LEAST_SHARE * whole)


def _claims(
    family: Family, cells: Float64Array, totals: Float64Array, slack: float = 0.0, uncounted: float = 0.0
) -> Iterator[_Found]:
    """The segments of a family that chance does not explain; of ranges the best.

    `slack` and `uncounted` are for samples: by how many standard deviations these may err, and how many of their rows
    do not count although nobody knows which.
    """
    inside, bounds = cells, np.arange(cells.shape[1])
    lows, highs = bounds, bounds
    if family.is_range:
        before = np.concatenate((np.zeros((3, 1)), np.cumsum(cells, axis=1)), axis=1)
        lows, highs = np.triu_indices(len(family.values))
        # From the first edge, inclusive, up to the last, inclusive.
        inside = before[:, 2 * highs + 2] - before[:, 2 * lows + 1]
    # The fewest rows that a sample leaves possible.
    rows = np.maximum(inside[0] - slack * (np.sqrt(inside[0]) + 1) - uncounted, slack / 30)
    n_rows = max(totals[0] - uncounted, 0.0)
    scores = _surprise(inside[1], totals[1], rows, n_rows) - log(family.tried)
    is_dirtier = (n_rows - rows) * inside[1] >= _LEAST_RATIO * rows * (totals[1] - inside[1])
    is_dirtier &= inside[1] * n_rows >= _LEAST_LIFT * rows * totals[1]
    is_large = _is_enough(inside[2], totals[2]) & (inside[1] >= _FEWEST_MISTAKES)
    scores[~(is_large & is_dirtier)] = 0.0
    places = np.flatnonzero(scores > -log(_MOST_CHANCE))
    if family.is_range:
        places = places[np.argsort(-scores[places], kind="stable")[:1]]
    for place in places:
        low, high = (family.values[int(each[place])] for each in (lows, highs))
        kind = "value" if family.kind == "range" and lows[place] == highs[place] else family.kind
        condition = Condition(kind, family.column, low, high)
        yield _Found(condition, family.rank, family.tried, inside[:, place], float(scores[place]))


def _surprise(blame: Any, all_blame: float, rows: Any, all_rows: float) -> Any:
    """The logarithm of 1 / chance, at least, that a segment of so many rows holds so much of all the blame.

    A bound of the binomial tail whose probability is that of a segment with rows broken `_RATIO` times as often as
    others. Chernoff's bound holds for shared blame and for draws without replacement, too (Hoeffding 1963); it is
    sharpened by Stirling's bound of the first term of the tail and the sum of a geometric series for the others.
    """
    if all_blame <= 0 or all_rows <= 0:
        return np.zeros_like(np.asarray(blame, float))
    share = np.clip(np.asarray(blame, float) / all_blame, 0.0, 1.0)
    size = np.clip(np.asarray(rows, float) / all_rows, 1e-300, 1.0)
    expected = _RATIO * size / (1 + (_RATIO - 1) * size)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(share > 0, share * np.log(share / expected), 0.0)
        outside = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - expected)), 0.0)
        ratio = (1 - share) * expected / ((share + 1 / all_blame) * (1 - expected))
        sharper = np.log(2 * np.pi * all_blame * share * (1 - share)) / 2 + np.log1p(-ratio)
    sharper = np.where(np.isfinite(sharper), np.maximum(sharper, 0.0), 0.0)
    return np.where(share > expected, all_blame * (inside + outside) + sharper, 0.0)


def propose(blamed: pa.Table, weights: Float64Array, rows: Int64Array | None = None) -> list[Family]:
    """What to try, from some of the rows to blame: their columns, their blame, and their row numbers if known."""
    families = []
    for name, column in zip(blamed.column_names, blamed.columns, strict=True):
        column = without_views(decoded(column))
        families += [*_values(name, column, weights), *_ranges(name, column, weights)]
    if rows is not None and rows.size > 1:
        edges = _edges(rows, weights)
        families.append(Family("rows", None, pa.array(rows[edges]), edges.size * (edges.size + 1) // 2, 3))
    return [replace(family, tried=family.tried * len(families)) for family in families]


FILE = "__naysay_file"


def _values(name: str, column: pa.ChunkedArray, weights: Float64Array) -> Iterator[Family]:
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    codes = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
    sums = np.bincount(codes, weights=weights, minlength=1)
    places = np.flatnonzero(sums >= _LEAST_SHARE * weights.sum())
    values = encoded.dictionary.take(pa.array(places))
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.fill_null(pc.is_nan(values), False)))
    elif kind_of(values.type) is Kind.TEXT:
        values = values.filter(pc.fill_null(pc.less_equal(pc.binary_length(values), LONGEST_TEXT), True))
    if len(values):
        yield Family("file" if name == FILE else "value", name, values, sums.size, 0)


def _ranges(name: str, column: pa.ChunkedArray, weights: Float64Array) -> Iterator[Family]:
    kind = kind_of(column.type)
    if not kind.has_order:
        return
    numbers, present = _numbers(column)
    has_value = np.ones(numbers.size, np.bool_) if present is None else present.copy()
    if numbers.dtype.kind == "f":
        has_value &= ~np.isnan(numbers)
    rows = np.flatnonzero(has_value)
    if rows.size < 2:
        return
    edges = rows[_edges(numbers[rows], weights[rows])]
    if edges.size > 1:
        values = column.combine_chunks().take(pa.array(edges))
        yield Family("range", name, values, edges.size * (edges.size + 1) // 2, 1 if kind in _TIMES else 2)


def _edges(values: Any, weights: Float64Array) -> Int64Array:
    """Places of distinct values, ascending, all of them or such that about the same blame lies between them."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    last = np.append(ordered[1:] != ordered[:-1], True)
    places: Int64Array = order[last]
    if places.size <= _MOST_EDGES:
        return places
    total = np.cumsum(weights[order])[last]
    wanted = np.searchsorted(total, np.linspace(0, total[-1], _MOST_EDGES) * (1 - 1e-12))
    some: Int64Array = places[np.unique(np.clip(wanted, 0, places.size - 1))]
    return some


def _numbers(column: pa.ChunkedArray) -> tuple[Any, BoolArray | None]:
    """A column that has an order as numbers of one type, and where it has a value; None for everywhere."""
    column = decoded(column)
    if pa.types.is_uint64(column.type):
        return pc.fill_null(column, 0).to_numpy(), valid_of(column)
    if pa.types.is_decimal(column.type):
        column = pc.cast(column, pa.float64(), safe=False)
    plain = read_column(column).plain
    assert isinstance(plain, Integers | Floats)
    return plain.values, plain.valid


def satisfies(table: pa.Table, condition: Condition, rows: Int64Array | None = None) -> BoolArray:
    """Which rows, of these numbers, satisfy a condition, whose bounds are Arrow scalars."""
    low, high = condition.low, condition.high
    if condition.column is None:
        assert rows is not None
        between: BoolArray = (rows >= low.as_py()) & (rows <= high.as_py())
        return between
    column = without_views(decoded(table.column(condition.column)))
    if low.type != column.type:
        # Instants in another zone.
        low, high = low.cast(column.type), high.cast(column.type)
    if not low.is_valid:
        mask = pc.is_null(column)
    elif condition.kind == "range":
        mask = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
    else:
        mask = pc.equal(column, low)
    return np.asarray(pc.fill_null(mask, False).to_numpy(), np.bool_)


def in_segment(table: pa.Table, conditions: Iterable[Condition], rows: Int64Array | None = None) -> BoolArray:
    mask = np.ones(table.num_rows, np.bool_)
    for condition in conditions:
        mask &= satisfies(table, condition, rows)
    return mask


def count_families(
    table: pa.Table, families: Sequence[Family], numbers: Float64Array, rows: Int64Array | None = None
) -> Counts:
    """Count rows, of each of which `numbers` has how often it counts, its blame, and whether it is a suspect."""
    return Counts(numbers.sum(axis=1), tuple(_cells(table, family, numbers, rows) for family in families))


def _cells(table: pa.Table, family: Family, numbers: Float64Array, rows: Int64Array | None) -> Float64Array:
    if not family.is_range:
        conditions = [Condition(family.kind, family.column, value, value) for value in family.values]
        return np.stack([numbers @ satisfies(table, each) for each in conditions], axis=1)
    n_cells = family.n_cells
    edges, _ = _numbers(pa.chunked_array([family.values]))
    values: Any = rows
    present = None
    if family.column is not None:
        values, present = _numbers(table.column(family.column))
    at = np.searchsorted(edges, values)
    cells = 2 * at + (edges[np.minimum(at, edges.size - 1)] == values)
    # A null lies in no range; the last cell, beyond the last edge, is in none either.
    if present is not None:
        cells[~present] = n_cells - 1
    return np.stack([np.bincount(cells, weights=each, minlength=n_cells) for each in numbers])


@dataclass(frozen=True)
class Others:
    """The columns of a table in which the causes of its rules are sought; `numbered`: and among ranges of rows, too."""

    table: pa.Table
    numbered: bool = True

    @cached_property
    def sample_rows(self) -> Int64Array:
        return np.sort(np.random.default_rng(0).integers(0, self.table.num_rows, _SAMPLE))

    @cached_property
    def sample(self) -> pa.Table:
        return Table(self.table).take(self.sample_rows)


class LocalRows:
    """The rows of a table in memory, `population` of which the rule could find broken."""

    def __init__(self, others: Others, columns: list[str], blame: Blame, population: BoolArray) -> None:
        self._others = others
        self._table = others.table.select(columns)
        self._blame = blame
        self._population = population
        self._last: tuple[Any, BoolArray] | None = None

    def families(self, within: Sequence[Condition], without: Sequence[Sequence[Condition]]) -> list[Family]:
        active = self._active_rows(within, without)
        blamed = np.flatnonzero(active[self._blame.rows])
        if not has_enough(np.count_nonzero(self._blame.is_suspect[blamed])):
            return []
        if blamed.size > MOST_BLAMED:
            blamed = np.sort(np.random.default_rng(0).choice(blamed, MOST_BLAMED, replace=False))
        rows, weights = self._blame.rows[blamed], self._blame.weights[blamed]
        table = Table(self._table).take(rows)
        families = propose(table, weights, rows if self._others.numbered else None)
        if np.count_nonzero(active) <= SMALL:
            return families
        of_blame = count_families(table, families, self._numbers(blamed), rows)
        some, sample = self._sample(active)
        return promising(families, of_blame, count_families(sample, families, rows_only(some.size), some))

    def _sample(self, active: BoolArray) -> tuple[Int64Array, pa.Table]:
        """Some active rows, and their columns: those of the sample that all rules share, if enough of them are."""
        rows = self._others.sample_rows
        kept = active[rows]
        if np.count_nonzero(kept) >= _SAMPLE // 4:
            sample = self._others.sample.select(self._table.column_names)
            return rows[kept], Table(sample).take(np.flatnonzero(kept))
        rows = np.random.default_rng(0).choice(np.flatnonzero(active), _SAMPLE)
        return rows, Table(self._table).take(rows)

    def count(self, question: Question) -> Counts:
        families, active = question.families, self._active_rows(question.within, question.without)
        table = self._table.select(list(dict.fromkeys(each.column for each in families if each.column is not None)))
        n_rows = int(np.count_nonzero(active))
        if _FEW * n_rows < active.size:
            rows = np.flatnonzero(active)
            return self._count(Table(table).take(rows), families, active, rows)
        pieces = [
            self._count(
                table.slice(start, _PIECE), families, active, np.arange(start, min(start + _PIECE, active.size))
            )
            for start in range(0, active.size, _PIECE)
        ]
        return reduce(add, pieces)

    def _count(self, part: pa.Table, families: Sequence[Family], active: BoolArray, rows: Int64Array) -> Counts:
        """Count some rows, ascending, of which `part` has the columns."""
        numbers = np.zeros((3, rows.size))
        numbers[0] = active[rows]
        first, end = np.searchsorted(self._blame.rows, (rows[0], rows[-1] + 1))
        blamed = np.flatnonzero(active[self._blame.rows[first:end]]) + first
        numbers[1:, np.searchsorted(rows, self._blame.rows[blamed])] = self._numbers(blamed)[1:]
        return count_families(part, families, numbers, rows)

    def _numbers(self, places: Int64Array) -> Float64Array:
        weights = self._blame.weights[places]
        return np.stack((np.zeros_like(weights), weights, self._blame.is_suspect[places]))

    def _active_rows(self, within: Sequence[Condition], without: Sequence[Sequence[Condition]]) -> BoolArray:
        key = (tuple(within), tuple(map(tuple, without)))
        if self._last is None or self._last[0] != key:
            active = self._population.copy()
            rows = np.arange(active.size)
            for condition in within:
                active &= satisfies(self._table, condition, rows)
            for conditions in without:
                active &= ~in_segment(self._table, conditions, rows)
            self._last = key, active
        return self._last[1]


def rows_only(n_rows: int) -> Float64Array:
    """What `count_families` is to add up for rows that count as rows, without blame."""
    numbers = np.zeros((3, n_rows))
    numbers[0] = 1
    return numbers


def promising(families: Sequence[Family], of_blame: Counts, of_rows: Counts, uncounted: float = 0.0) -> list[Family]:
    """The families that may have a cause as far as some of the rows show; see `_claims` for those `uncounted`."""
    counts = of_blame + of_rows
    return [
        family
        for family, cells in zip(families, counts.cells, strict=True)
        if any(_claims(family, cells, counts.totals, _SLACK, uncounted))
    ]


def local_causes(
    table: Table, join: Join, nulls: Nulls, found: Conflicts, others: Others, memo: Memo | None = None
) -> tuple[Cause, ...]:
    """The causes of a broken rule in a table in memory. Bounds are Arrow scalars: see `shown_causes`."""
    if not has_enough(found.suspects.size):
        return ()
    bound = None if join.one_row else bind(table, join, nulls, memo)
    blame, population = blame_of(join, bound, found), population_of(table, join, bound, nulls, found)
    rows = LocalRows(others, columns_to_try(join, others.table.schema), blame, population)
    (causes,) = find_causes([rows], lambda asked: [source.count(question) for source, question in asked])
    return causes


def shown_causes(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Causes with plain values as bounds."""
    return tuple(
        replace(cause, conditions=tuple(_shown(condition) for condition in cause.conditions)) for cause in causes
    )


def _shown(condition: Condition) -> Condition:
    low, high = (plain_values(pa.repeat(bound, 1))[0] for bound in (condition.low, condition.high))
    column = None if condition.kind == "file" else condition.column
    return replace(condition, column=column, low=low, high=high)
