"""Indexes for inequality and equality comparisons (sections 5 and 6) and their selection (section 7).

A row is an integer; values are integers in the order of the column. What the paper writes A^op is a ColumnOp: a column
and an operator, A^op(t, s) meaning t.A op s.A. One structure serves all comparisons: an equality or a single inequality
is a range of an index over its column twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.vertices import Vertices
from naysay.rule.model import Column, Op, Predicate

# The operators of `kernels.trees.chains`.
_NUMBERS = {Op.GE: 0, Op.GT: 1, Op.LE: 2, Op.LT: 3}


@dataclass(frozen=True, slots=True)
class ColumnOp:
    """A column with one of < <= > >=."""

    name: str
    op: Op

    @property
    def sign(self) -> int:
        """1 if the column ascends along a chain (> and >=), -1 if it descends (< and <=)."""
        return 1 if self.op in (Op.GT, Op.GE) else -1

    def number(self, op: Op) -> int:
        """An operator on values of the column as one on keys of the index."""
        return _NUMBERS[op if self.sign == 1 else op.flipped]


IndexOps = tuple[ColumnOp, ColumnOp]
Columns = Mapping[str, Int64Array]


class ChainIndex:
    """Index(A^op1, B^op2) of section 5.2: chains in which a later row satisfies both operators with an earlier one.

    Rows equal in both columns share one entry. `rank` is the number of chains.
    """

    def __init__(self, ops: IndexOps, columns: Columns, rows: Int64Array | None = None) -> None:
        """As few chains as possible (OptIndex, 6.1), or those of an index before, by its rows."""
        from naysay.kernels.trees.chains import load_chains

        self.ops = ops
        self._strict = np.array([each.op.is_strict for each in ops], np.int64)
        keys = self._keys(columns)
        self.n_rows = keys[0].size if rows is None else rows.size
        if rows is None:
            rows = self._opt_index(*keys)
        else:
            assert _are_chains(rows, *keys), f"the rows of the index {ops} are not in its order"
        self._chains, self._used = load_chains(rows, *keys, max(64, self.n_rows + self.n_rows // 4))

    def _keys(self, columns: Columns) -> tuple[Int64Array, Int64Array]:
        one, two = (each.sign * columns[each.name].astype(np.int64) for each in self.ops)
        return one, two

    def _order(self, one: Int64Array, two: Int64Array) -> Int64Array:
        """Rows as OptIndex takes them (line 1): if A must differ along a chain, those with the same A in descending B,
        so that no two of them join one chain."""
        order: Int64Array = np.lexsort((-two if self._strict[0] else two, one))
        return order

    def _opt_index(self, one: Int64Array, two: Int64Array) -> Int64Array:
        from naysay.kernels.trees.chains import assign_chains

        order = self._order(one, two)
        chains = assign_chains(order, one, two, bool(self._strict[1]))
        by_chain = np.argsort(chains, kind="stable")
        rows, chains = order[by_chain], chains[by_chain]
        is_first = np.diff(chains, prepend=-1) != 0
        rows[is_first] = ~rows[is_first]
        return rows

    @property
    def rank(self) -> int:
        return int(self._used[1])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._chains)

    def rows(self) -> Int64Array:
        """All rows, chain by chain; the first of each chain as ~row."""
        from naysay.kernels.trees.chains import unload_chains

        rows: Int64Array = unload_chains(self._chains, self._used, self.n_rows)
        return rows

    def fetch(self, one: int, two: int, wanted: tuple[Op, Op]) -> Int64Array:
        """Algorithm Fetch: the rows t with t.A op one and t.B op two; the operators may be stricter or reversed (6.2).

        With values of other columns it is Fetch+ (5.3).
        """
        from naysay.kernels.trees.chains import fetch_rows

        (a, b), (first, second) = self.ops, wanted
        numbers = np.array([a.number(first), b.number(second)], np.int64)
        rows: Int64Array = fetch_rows(self._chains, self._used, numbers, a.sign * one, b.sign * two)
        return rows

    def add(
        self, columns: Columns, first: int, wanted: Sequence[Wanted] = (), marks: UInt64Array | None = None
    ) -> None:
        """Look new rows up, from number `first` on, and insert them, in the order of OptIndex (6.3).

        `marks` has a line for each new row: the bits of earlier rows that something wanted fetches with it. If columns
        of this index are compared with others, the other row of a pair is looked up in another index: then both take
        new rows in the order of the table, so that one of two new rows finds the other.
        """
        from naysay.kernels.trees.chains import visit_chains

        keys = self._keys(columns)
        own = {each.name for each in self.ops}
        has_others = any(set(each.probe) != own for each in wanted)
        order = np.arange(keys[0].size) if has_others else self._order(*keys)
        self._make_room(first + order.size)
        names = list(dict.fromkeys(each.probe for each in wanted))
        probes = np.zeros((order.size, len(names), 2), np.int64)
        for place, probe in enumerate(names):
            for side, name in enumerate(probe):
                probes[:, place, side] = self.ops[side].sign * columns[name][order]
        numbers = [
            (names.index(each.probe), *(mine.number(op) for mine, op in zip(self.ops, each.ops, strict=True)))
            for each in wanted
        ]
        self._chains = visit_chains(
            self._chains,
            self._used,
            self._strict,
            first + order,
            np.stack([key[order] for key in keys], axis=1),
            probes,
            np.array(numbers, np.int64).reshape(-1, 3),
            first,
            np.zeros((0, 1), np.uint64) if marks is None else marks,
        )
        self.n_rows = first + order.size

    def _make_room(self, n_rows: int) -> None:
        following = self._chains[4]
        if n_rows > following.size:
            more = np.full(n_rows + n_rows // 4, -1, np.int64)
            more[: following.size] = following
            self._chains = (*self._chains[:4], more)


def _are_chains(rows: Int64Array, one: Int64Array, two: Int64Array) -> bool:
    """Whether both keys ascend along each chain, and each row is there once."""
    at = np.where(rows < 0, ~rows, rows)
    if not np.array_equal(np.sort(at), np.arange(rows.size)):
        return False
    ascend = (np.diff(one[at]) >= 0) & (np.diff(two[at]) >= 0)
    return bool((ascend | (rows[1:] < 0)).all() and (rows[:1] < 0).all())


# The paper's thresholds: l for equality indexes, l' for columns of inequality indexes, alpha to reverse an operator.
_SELECTIVE = 0.6
_DISTINCT = 0.1
_CORRELATED = 0.3
_SAMPLE = 10_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of an index: rows t with t.A op1 s.B and t.C op2 s.D, by columns `probe` (B, D) of a new row s."""

    probe: tuple[str, str]
    ops: tuple[Op, Op]

    @property
    def exchanged(self) -> Wanted:
        """The same of an index with its columns exchanged."""
        return Wanted(self.probe[::-1], self.ops[::-1])


@dataclass(frozen=True, slots=True)
class Use:
    """The one or two predicates by which pairs of rows are fetched, with the left row on the left; none: all pairs."""

    predicates: tuple[Predicate, ...]

    def sides(self) -> list[tuple[tuple[str, str], Wanted]]:
        """The columns of an index, in order, and what is wanted of it: for a new row on the right, then on the left."""
        if not self.predicates:
            return []
        one, two = self.predicates[0], self.predicates[-1]
        left, right = (one.left.name, two.left.name), (_right(one), _right(two))
        if self.is_equality:
            found = [(left, Wanted(right, (Op.GE, Op.LE))), (right, Wanted(left, (Op.GE, Op.LE)))]
        else:
            ops = one.op, two.op
            found = [(left, Wanted(right, ops)), (right, Wanted(left, (ops[0].flipped, ops[1].flipped)))]
        return [(names, wanted) if names[0] <= names[1] else (names[::-1], wanted.exchanged) for names, wanted in found]

    @property
    def is_equality(self) -> bool:
        return len(self.predicates) == 1 and self.predicates[0].op is Op.EQ


ALL_PAIRS = Use(())


def _right(predicate: Predicate) -> str:
    assert isinstance(predicate.right, Column)
    return predicate.right.name


def choose_directions(uses: Iterable[Use], columns: Columns) -> dict[tuple[str, str], Op]:
    """For each two columns that uses compare whether the second one ascends (>=) or descends (<=) along the chains.

    As they are correlated, or as first wanted if they are not (line 17 of SelectIndex).
    """
    found: dict[tuple[str, str], Op] = {}
    for use in uses:
        for names, wanted in use.sides():
            if names not in found:
                found[names] = _direction(correlation(*names, columns), wanted.ops)
    return found


def plan_indexes(
    uses: Iterable[Use], directions: Mapping[tuple[str, str], Op], *, share: bool = True
) -> dict[IndexOps, list[Wanted]]:
    """The indexes that uses need, and what is wanted of each.

    All comparisons of two columns share one index, whatever their operators (6.2): it includes equal values. Without
    `share` each two operators have an index of their own.
    """
    planned: dict[IndexOps, list[Wanted]] = {}
    for use in uses:
        for names, wanted in use.sides():
            ops = Op.GE, directions[names]
            if not share and not use.is_equality:
                ops = wanted.ops
            known = planned.setdefault((ColumnOp(names[0], ops[0]), ColumnOp(names[1], ops[1])), [])
            if wanted not in known:
                known.append(wanted)
    return planned


def _direction(r: float, ops: tuple[Op, Op]) -> Op:
    """Columns that rise together have few chains if both ascend."""
    if abs(r) > _CORRELATED:
        return Op.GE if r > 0 else Op.LE
    return Op.GE if (ops[0] in (Op.GT, Op.GE)) == (ops[1] in (Op.GT, Op.GE)) else Op.LE


def correlation(one: str, two: str, columns: Columns) -> float:
    """Of the codes of two columns, on a sample."""
    if one == two:
        return 1.0
    first, second = (sample_of(columns[name]).astype(np.float64) for name in (one, two))
    if first.size < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def sample_of(column: Int64Array) -> Int64Array:
    """Some of the rows, the same ones of every column."""
    if column.size <= _SAMPLE:
        return column
    return column[np.random.default_rng(0).choice(column.size, _SAMPLE, replace=False)]


def select_indexes(covers: UInt64Array, vertices: Vertices, columns: Columns) -> list[Use]:
    """Algorithm SelectIndex: uses of indexes such that each rule is served by one of them.

    The rules are given as covers; scores are estimated on a sample of the columns.
    """
    if not covers.any(axis=1).all():
        # Of the rule without predicates every pair may be a violation.
        return [ALL_PAIRS]
    distinct = {name: np.unique(sample_of(column)).size for name, column in columns.items()}
    scores = {name: 1.0 - n_values / max(1, sample_of(columns[name]).size) for name, n_values in distinct.items()}
    cover = _Cover(covers, vertices, columns)
    # Lines 1 to 8: equality on one column, then between two, if it is selective.
    for across in (False, True):
        cover.by_equality(scores, _SELECTIVE, across=across)
    # Lines 9 to 19: pairs of inequalities over columns with many values.
    cover.by_inequality({name for name, score in scores.items() if 1.0 - score >= _DISTINCT})
    # Lines 20 and 21: the remaining rules, without thresholds.
    for across in (False, True):
        cover.by_equality(scores, np.inf, across=across)
    cover.by_inequality(set(scores))
    cover.by_single_inequality()
    return cover.chosen


class _Cover:
    """The rules that are not served yet, and the uses chosen so far."""

    def __init__(self, covers: UInt64Array, vertices: Vertices, columns: Columns) -> None:
        self._comparisons = [group.comparison for group in vertices.groups if not group.comparison.within_row]
        self._columns = columns
        # What each rule says about each comparison, as a number of _OPS.
        self._said = np.zeros((len(covers), len(self._comparisons)), np.int8)
        groups = (group for group in vertices.groups if not group.comparison.within_row)
        for place, group in enumerate(groups):
            chosen = vertices.chosen(covers, group)
            for choice in np.unique(chosen).tolist():
                ops = group.ops(choice << group.first)
                # <= together with >= is an equality, of values that are not null.
                self._said[chosen == choice, place] = _number(ops[0] if len(ops) == 1 else Op.EQ) if ops else 0
        self.chosen: list[Use] = []

    def _predicate(self, place: int, op: Op) -> Predicate:
        return Predicate(self._comparisons[place].left, op, self._comparisons[place].right)

    def by_equality(self, scores: Mapping[str, float], below: float, *, across: bool) -> None:
        """Equality indexes whose score is below a threshold, the best first."""
        score = [max(scores[pair.left.name], scores[pair.right.name]) for pair in self._comparisons]
        for place in sorted(range(len(score)), key=lambda place: (score[place], place)):
            served = self._said[:, place] == _number(Op.EQ)
            if self._comparisons[place].across is across and score[place] < below and served.any():
                self.chosen.append(Use((self._predicate(place, Op.EQ),)))
                self._said = self._said[~served]

    def by_inequality(self, names: set[str]) -> None:
        """Pairs of inequalities by (1 - |r|) / coverage, the least first, as long as they serve a rule."""
        serves: dict[tuple[Use, ...], Int64Array] = {}
        allowed = [place for place, pair in enumerate(self._comparisons) if {pair.left.name, pair.right.name} <= names]
        for one, two in itertools.combinations(allowed, 2):
            serves |= self._serves(one, two)
        if not serves:
            return
        options, served = list(serves), list(serves.values())
        # An option of several uses serves only a part of a rule with each: what differs is less or greater.
        spread = [len(uses) * (1.0 - abs(correlation(*uses[0].sides()[0][0], self._columns))) for uses in options]
        every, starts = np.concatenate(served), np.cumsum([0, *(rules.size for rules in served[:-1])])
        left = np.ones(len(self._said), np.int64)
        while (coverage := np.add.reduceat(left[every], starts)).any():
            scores = np.where(coverage > 0, np.array(spread) / np.maximum(1, coverage), np.inf)
            best = int(np.lexsort((-coverage, scores))[0])
            self.chosen += [use for use in options[best] if use not in self.chosen]
            left[served[best]] = 0
        self._said = self._said[left == 1]

    def _serves(self, one: int, two: int) -> dict[tuple[Use, ...], Int64Array]:
        """For the operators that rules have on two comparisons the uses that fetch their pairs, and the rules served.

        What differs is less or greater (section 7), so that != makes two uses. If each column is compared with itself,
        a rule means the same with both rows exchanged, and has the first operator as > or >=.
        """
        first, second = self._said[:, one], self._said[:, two]
        both = np.flatnonzero(_IS_INEQUALITY[first] & _IS_INEQUALITY[second])
        first, second = first[both], second[both]
        may_turn = not self._comparisons[one].across and not self._comparisons[two].across
        if may_turn:
            turn = (first == _number(Op.LT)) | (first == _number(Op.LE))
            turn |= (first == _number(Op.NE)) & ((second == _number(Op.LT)) | (second == _number(Op.LE)))
            first, second = np.where(turn, _FLIPPED[first], first), np.where(turn, _FLIPPED[second], second)
        found = {}
        for pair in sorted(set(zip(first.tolist(), second.tolist(), strict=True))):
            ops = list(itertools.product(*(_parts(_OPS[number]) for number in pair)))
            if may_turn and len(ops) > 2:
                ops = ops[:2]
            uses = tuple(Use((self._predicate(one, a), self._predicate(two, b))) for a, b in ops)
            served = np.isin(first, _implying(pair[0])) & np.isin(second, _implying(pair[1]))
            found[uses] = both[served]
        return found

    def by_single_inequality(self) -> None:
        """Indexes over one column for rules with one comparison of two rows; all pairs for those without."""
        for place in range(len(self._comparisons)):
            for op in (Op.LE, Op.GE, Op.LT, Op.GT, Op.NE):
                if (self._said[:, place] == _number(op)).any():
                    self.chosen += [Use((self._predicate(place, part),)) for part in _parts(op)]
                    self._said = self._said[~np.isin(self._said[:, place], _implying(_number(op)))]
        if len(self._said):
            self.chosen.append(ALL_PAIRS)


# Operators as numbers, from 1 on: 0 for none.
_OPS = (None, Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)
_IS_INEQUALITY = np.array([op not in (None, Op.EQ) for op in _OPS])
_FLIPPED = np.array([0, *(_OPS.index(op.flipped) for op in _OPS if op)], np.int8)


def _number(op: Op) -> int:
    return _OPS.index(op)


def _parts(op: Op | None) -> tuple[Op, ...]:
    assert op is not None
    return (Op.GT, Op.LT) if op is Op.NE else (op,)


def _implying(number: int) -> tuple[int, ...]:
    """An operator and the stricter one: what is greater is also greater or equal."""
    stricter = {Op.LE: Op.LT, Op.GE: Op.GT}.get(_OPS[number] or Op.EQ)
    return (number, _number(stricter)) if stricter else (number,)
