"""Exact discovery of tables that no task could hold: the search is the driver's, the rows are spread over tasks.

One task searches a sample of the rows. What holds there are candidates, and every rule of the table is one of them or
contains one. Two rows that break a candidate agree on the columns that it compares for equality. So the rows are dealt
out such that all that agree on some column meet in a task, which verifies the candidates that ask for that agreement.
Pairs that break a candidate are new evidence, the covers are brought up to date, and so on until all candidates hold
(`naysay.discovery.selective`).

A task has about `rows_a_task` rows, or one group of rows that agree, up to `giant`. A group of more is cut into blocks,
and every two of them meet in a task. So are all rows, for candidates that compare no column for equality.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import and_

import numpy as np
import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.arrays import UInt64Array
from naysay.budget import Budget
from naysay.discovery.problem import Answer, Problem
from naysay.discovery.selective import SelectiveSearch, find
from naysay.discovery.spark.prover import (
    EDGE,
    HASH,
    KIND,
    ROWS,
    STOPPED,
    Meeting,
    ProverSetup,
    covers_of,
    schema_of,
    search_sample,
    verify_in_task,
)
from naysay.discovery.spark.worker import ANSWER_SCHEMA, TASK, WEIGHT, word
from naysay.discovery.verify import equality_masks
from naysay.discovery.vertices import missing_some, to_int
from naysay.errors import ResourceError, TableError
from naysay.rule.model import Nulls, Rule
from naysay.spark.expressions import comparable, hash_of
from naysay.spark.frame import from_arrow, map_in_arrow, position
from naysay.spark.versions import deal_out

Collect = Callable[[DataFrame, Budget], pa.Table | None]
# For each of some rules None if it holds, else a few left rows and their right rows that break it, with the columns
# named; a rule about single rows has no right rows.
Pairs = tuple[pa.Table, pa.Table | None]
Witnesses = Callable[[Sequence[Rule], Sequence[str], int], Sequence[Pairs | None]]

# The most candidates that are verified in one job. A pair that breaks one spares others in the same task, too.
_CANDIDATES_PER_JOB = 2000
# What it costs to deal a row out and to encode it, in candidates verified on it; and the tasks that run at once.
_DEALING = 30
_AT_ONCE = 8
# The most sets of several columns that are measured in one job.
_SETS_PER_JOB = 16
# The share of a time limit for the sample.
_SAMPLE_SHARE = 0.3
# Hashes of rows are compared with a share of this.
_PARTS = 1 << 30


def data_changed(seen: str) -> TableError:
    """The error if two jobs do not agree on the rows of a DataFrame, given in what."""
    return TableError(
        f"{seen}: the DataFrame is not the same each time Spark computes it; write it to files, or persist it, and "
        "discover rules there"
    )


@dataclass(frozen=True, slots=True)
class SpreadSizes:
    """How many rows tasks get. Answers do not depend on it, only time and memory do."""

    # The sample that one task searches.
    sample: int = 200_000
    rows_a_task: int = 250_000
    giant: int = 2_000_000
    # A row in blocks is copied once for each other block: beyond this many, candidates are verified one by one instead.
    most_blocks: int = 64
    # Beyond, Spark could not keep track of the tasks.
    most_tasks: int = 100_000

    @property
    def large(self) -> int:
        """A group of more rows has a task of its own: hashing might put several such groups into one task."""
        return min(self.rows_a_task // 2, self.giant)

    def n_blocks(self, n_rows: int) -> int:
        """Into how many blocks a group is cut; two of them meet in each task."""
        return 1 if n_rows <= self.giant else -(-n_rows // max(1, self.giant // 2))


@dataclass(frozen=True, slots=True)
class MeasuredSet:
    """The groups of rows that agree on a set of columns: the rows in all of them, and the large ones by their hash."""

    mask: int
    sizes: SpreadSizes
    n_rows: int
    large: Mapping[int, int] = field(default_factory=dict)

    @property
    def n_records(self) -> int:
        """How many rows are dealt out."""
        return self.n_rows + sum(n_rows * max(0, self.sizes.n_blocks(n_rows) - 2) for n_rows in self.large.values())

    @property
    def n_at_once(self) -> int:
        """The rows that decide how long it takes: those of the largest task, or of one after the other."""
        n_blocks = {n_rows: self.sizes.n_blocks(n_rows) for n_rows in self.large.values()}
        largest = max((n_rows * min(2, n) // n for n_rows, n in n_blocks.items()), default=0)
        return max(1, largest, min(self.n_rows, self.sizes.rows_a_task), self.n_records // _AT_ONCE)

    @property
    def n_hashed(self) -> int:
        """The tasks of groups that are not large."""
        return max(1, -(-(self.n_rows - sum(self.large.values())) // self.sizes.rows_a_task))

    def places(self, first: int) -> tuple[dict[int, tuple[int, int]], int]:
        """For each large group its first task and its blocks; and the first task of the other groups."""
        found = {}
        for hashed, n_rows in sorted(self.large.items()):
            n_blocks = self.sizes.n_blocks(n_rows)
            found[hashed] = first, n_blocks
            first += max(1, n_blocks * (n_blocks - 1) // 2)
        return found, first

    @property
    def n_tasks(self) -> int:
        return self.places(0)[1] + self.n_hashed


class Dealer:
    """Deals out the rows of a table to tasks, and runs them. `collect` gives None if the budget stopped.

    `are_distinct`: equal rows are one with a weight; else there are few of them, and tasks put them together.
    """

    def __init__(
        self,
        rows: DataFrame,
        problem: Problem,
        n_rows: int,
        nullable: frozenset[str],
        sizes: SpreadSizes,
        collect: Collect,
        *,
        are_distinct: bool = True,
        witnesses: Callable[[Sequence[Rule]], Sequence[Pairs | None] | None] | None = None,
    ) -> None:
        self.n_rows = n_rows
        self.sizes = sizes
        self._problem = problem
        self._nullable = nullable
        self._collect = collect
        self._witnesses = witnesses
        self._are_distinct = are_distinct
        self._rows = rows.withColumn(HASH, hash_of([F.col(name) for name in rows.columns if name != WEIGHT]))
        self._sets = {0: self._of_all_rows()}

    def _setup(self, share: float = 1.0) -> ProverSetup:
        """What is sent to each task: a share of the time left, but not the function that reports progress."""
        problem = self._problem
        seconds = max(0.001, share * problem.budget.left) if problem.budget.is_limited else None
        request = replace(problem.request, threads=1, progress=None, max_seconds=None)
        return ProverSetup(
            problem.space, self._nullable, request, problem.vertices.n_words, seconds, are_distinct=self._are_distinct
        )

    def _of_all_rows(self) -> MeasuredSet:
        is_large = self.n_rows > self.sizes.large
        return MeasuredSet(0, self.sizes, self.n_rows, {0: self.n_rows} if is_large else {})

    def search_sample(self) -> dict[str, bytes] | None:
        """What one task learns from some rows, chosen by their hash."""
        share = int(_PARTS * min(1.0, self.sizes.sample / max(1, self.n_rows)))
        rows = self._rows.filter(F.pmod(F.col(HASH), F.lit(_PARTS)) < share).repartition(1)
        setup = self._setup(_SAMPLE_SHARE if share < _PARTS else 1.0)
        found = self._collect(map_in_arrow(rows, partial(search_sample, setup), ANSWER_SCHEMA), self._problem.budget)
        if found is None:
            return None
        return dict(zip(found.column("part").to_pylist(), found.column("content").to_pylist(), strict=True))

    def measure(self, masks: Iterable[int]) -> bool:
        """Measure the groups of some sets, in one job; False if the budget stopped it."""
        unknown = [mask for mask in dict.fromkeys(masks) if mask not in self._sets]
        if not unknown:
            return True
        found = self._collect(self._measured(unknown), self._problem.budget)
        if found is None:
            return False
        self._sets |= {mask: MeasuredSet(mask, self.sizes, 0) for mask in unknown}
        for row in found.to_pylist():
            large = dict(zip(row["large"][::2], row["large"][1::2], strict=True))
            self._sets[row["mask"]] = MeasuredSet(row["mask"], self.sizes, row["rows"], large)
        return True

    def _measured(self, masks: Sequence[int]) -> DataFrame:
        """In one pass, because the rows are computed again for each."""
        keys = [F.struct(_long(mask).alias("mask"), self._key(mask).alias("key")) for mask in masks]
        each = self._rows.select(F.explode(F.array(*keys)).alias("of")).select("of.*").filter(F.col("key").isNotNull())
        groups = each.groupBy("mask", "key").agg(F.count(F.lit(1)).alias("n"))
        of_large = F.when(F.col("n") > self.sizes.large, F.array(F.col("key"), F.col("n")))
        large = F.flatten(F.collect_list(of_large)).alias("large")
        return groups.groupBy("mask").agg(F.sum("n").alias("rows"), large)

    def _key(self, mask: int) -> Expression:
        """The hash of the columns of a set: equal for rows that agree on them. Null if the row agrees with no other."""
        groups = self._problem.vertices.groups
        names = [group.comparison.left.name for place, group in enumerate(groups) if mask >> place & 1]
        columns = [position(self._problem.space.names.index(name)) for name in names]
        types = [self._rows.schema[column].dataType for column in columns]
        hashed = hash_of(
            [comparable(F.col(column), type_, type_) for column, type_ in zip(columns, types, strict=True)]
        )
        if self._problem.request.nulls is Nulls.EQUAL or not columns:
            return hashed
        return F.when(reduce(and_, [F.col(column).isNotNull() for column in columns]), hashed)

    def choose(self, masks: UInt64Array) -> dict[int, list[int]] | None:
        """For candidates with these equality sets: the sets on which rows meet, and the places of candidates of each.

        Greedy: the set that serves candidates at the lowest cost for each. None if the budget stopped.
        """
        distinct, member = np.unique(masks, return_inverse=True)
        if not self._measure_for(distinct):
            return None
        known = list(self._sets.values())
        within = np.array([[(int(mask) & each.mask) == each.mask for mask in distinct] for each in known])
        counts = np.bincount(member, minlength=len(distinct)).astype(np.float64)
        n_rows = np.array([each.n_at_once for each in known], np.float64)
        # Candidates without an equality have no choice. Once rows are dealt out, more candidates cost little.
        set_of = np.where(distinct == 0, list(self._sets).index(0), -1)
        while (set_of < 0).any():
            n_served = within @ np.where(set_of < 0, counts, 0.0)
            dealing = np.where(np.isin(np.arange(len(known)), set_of), 0, _DEALING)
            costs = n_rows * (dealing + n_served) / np.maximum(n_served, 1)
            best = int(np.argmin(np.where(n_served > 0, costs, np.inf)))
            set_of[within[best] & (set_of < 0)] = best
        chosen: dict[int, list[int]] = {}
        for place, number in enumerate(set_of[member]):
            chosen.setdefault(known[number].mask, []).append(place)
        return chosen

    def _measure_for(self, masks: UInt64Array) -> bool:
        """Know enough sets for candidates: single columns, and sets of several where these have giant groups."""
        singles = {1 << place for mask in masks.tolist() for place in range(mask.bit_length()) if mask >> place & 1}
        if not self.measure(sorted(singles)):
            return False
        costly = []
        for mask in masks.tolist():
            cheapest = min(each.n_records for each in self._sets.values() if mask & each.mask == each.mask)
            if cheapest > 2 * self.n_rows and mask not in self._sets:
                costly.append(mask)
        return self.measure(costly[:_SETS_PER_JOB])

    def verify(self, covers: UInt64Array) -> UInt64Array | None:
        """Edges that break some of the covers: all others hold. None if the budget stopped."""
        chosen = self.choose(equality_masks(covers, self._problem.vertices))
        if chosen is None:
            return None
        many = [place for mask in chosen if self._has_many_blocks(mask) for place in chosen[mask]]
        edges = self._verify_one_by_one(covers[many])
        chosen = {mask: places for mask, places in chosen.items() if not self._has_many_blocks(mask)}
        if not chosen or edges is None:
            return edges
        more = self._verify_where_rows_meet(covers, chosen)
        return None if more is None else np.concatenate([edges, more])

    def _has_many_blocks(self, mask: int) -> bool:
        largest = max(self._sets[mask].large.values(), default=0)
        return self._witnesses is not None and self.sizes.n_blocks(largest) > self.sizes.most_blocks

    def _verify_one_by_one(self, covers: UInt64Array) -> UInt64Array | None:
        """The same for candidates whose rows would have to meet in too many tasks."""
        vertices, edges = self._problem.vertices, [covers[:0]]
        if not len(covers) or self._witnesses is None:
            return edges[0]
        found = self._witnesses([vertices.rule(to_int(cover)) for cover in covers])
        others = self._collect(self._rows.drop(WEIGHT, HASH).distinct().limit(2), self._problem.budget)
        if found is None or others is None:
            return None
        for cover, pairs in zip(covers, found, strict=True):
            if pairs is not None:
                edges.append(self._edges_of(*pairs, others))
                if not missing_some(cover[None, :], edges[-1])[0]:
                    raise AssertionError(f"{vertices.rule(to_int(cover))}: the pairs that break it do not")
        return np.concatenate(edges)

    def _edges_of(self, left: pa.Table, right: pa.Table | None, others: pa.Table) -> UInt64Array:
        """The edges of some pairs of rows, both ways round. A rule about single rows is broken with any other row."""
        is_one_row = right is None
        if right is None:
            n_left, n_others = left.num_rows, others.num_rows
            left = left.take(np.repeat(np.arange(n_left), n_others))
            right = others.take(np.tile(np.arange(n_others), n_left))
        n_pairs = left.num_rows
        names = [position(place) for place in range(left.num_columns)]
        left = left.rename_columns(names)
        both = pa.concat_tables([left, right.rename_columns(names).cast(left.schema)])
        both = both.append_column(WEIGHT, pa.array(np.ones(2 * n_pairs, np.int64)))
        search = SelectiveSearch(replace(self._setup(), are_distinct=True).problem(both))
        codes = search.problem.outcomes.left
        # The other row must be another one.
        differ = (codes[:, :n_pairs] != codes[:, n_pairs:]).any(axis=0)
        return search.learn([(k, n_pairs + k) for k in range(n_pairs) if differ[k] or not is_one_row])

    def _verify_where_rows_meet(self, covers: UInt64Array, chosen: Mapping[int, Sequence[int]]) -> UInt64Array | None:
        meetings, sets, first = [], [], 0
        for mask, places in chosen.items():
            meetings.append(Meeting(first, np.ascontiguousarray(covers[places]).tobytes()))
            sets.append(self._sets[mask])
            first += self._sets[mask].n_tasks
        self._require_few(first, sets)
        setup = self._setup()
        work = partial(verify_in_task, setup, tuple(meetings))
        told = map_in_arrow(
            self._deal(sets, [meeting.first for meeting in meetings], first), work, schema_of(setup.n_words)
        )
        words = [word(number) for number in range(setup.n_words)]
        found = self._collect(told.groupBy(KIND, *words).agg(F.sum(ROWS).alias(ROWS)), self._problem.budget)
        return None if found is None else self._edges(found, sum(each.n_records for each in sets))

    def _edges(self, found: pa.Table, n_records: int) -> UInt64Array | None:
        kinds = found.column(KIND).to_numpy()
        if (kinds == STOPPED).any():
            # A task's clock stops a moment before ours.
            self._problem.budget.stop("time limit")
            return None
        n_seen = int(found.column(ROWS).to_numpy().sum())
        if n_seen != n_records:
            raise data_changed(f"tasks got {n_seen:,} rows, but the rows counted before make {n_records:,}")
        n_words = self._problem.vertices.n_words
        words = np.stack([found.column(word(number)).to_numpy() for number in range(n_words)], axis=1)
        return np.ascontiguousarray(words[kinds == EDGE]).astype(np.int64).view(np.uint64)

    def _require_few(self, n_tasks: int, sets: Sequence[MeasuredSet]) -> None:
        if n_tasks > self.sizes.most_tasks:
            largest = max(max(each.large.values(), default=0) for each in sets)
            raise ResourceError(
                f"some candidate rules compare no column for equality that would separate {largest:,} distinct rows, "
                f"and comparing these would take {n_tasks:,} tasks; name fewer columns, or discover rules on a sample "
                "of the rows and check them on the whole table"
            )

    def _deal(self, sets: Sequence[MeasuredSet], firsts: Sequence[int], n_tasks: int) -> DataFrame:
        """Each row once for each task that it goes to; TASK is its number."""
        rows, tasks = self._rows, []
        for number, (each, first) in enumerate(zip(sets, firsts, strict=True)):
            rows, expression = _with_tasks(rows.withColumn(f"key{number}", self._key(each.mask)), each, first, number)
            tasks.append(expression)
        names = [*(name for name in self._rows.columns if name != HASH)]
        dealt = rows.select(*names, F.explode(F.concat(*tasks)).alias(TASK))
        return deal_out(dealt, n_tasks, F.col(TASK))


def _with_tasks(rows: DataFrame, each: MeasuredSet, first: int, number: int) -> tuple[DataFrame, Expression]:
    """Rows, with columns for the places of large groups if there are any; and the tasks of a row, an array."""
    key, nothing = F.col(f"key{number}"), F.array().cast("array<bigint>")
    large, first_hashed = each.places(first)
    hashed = F.array(F.pmod(key, F.lit(each.n_hashed)) + F.lit(first_hashed))
    if not large:
        return rows, F.when(key.isNotNull(), hashed).otherwise(nothing)
    if each.mask:
        columns = [np.array(column, np.int64) for column in zip(*((h, *at) for h, at in large.items()), strict=True)]
        names = [f"{name}{number}" for name in ("key", "first", "blocks")]
        places = from_arrow(rows.sparkSession, pa.table(columns, names=names))
        rows = rows.join(F.broadcast(places), names[0], "left")
        begin, n_blocks = F.col(names[1]), F.col(names[2])
    else:
        ((begin, n_blocks),) = [tuple(map(_long, at)) for at in large.values()]
    tasks = F.when(begin.isNull(), hashed).when(n_blocks == 1, F.array(begin)).otherwise(_pairs(begin, n_blocks))
    return rows, F.when(key.isNotNull(), tasks).otherwise(nothing)


def _pairs(first: Expression, n_blocks: Expression) -> Expression:
    """The tasks in which a row's block meets another. A pair of blocks, low < high, has a number: row by row."""
    block = F.pmod(F.col(HASH), n_blocks)
    others = F.filter(F.sequence(_long(0), n_blocks - 1), lambda other: other != block)

    def task(other: Expression) -> Expression:
        low, high = F.least(block, other), F.greatest(block, other)
        return first + low * n_blocks - F.shiftright(low * (low + 1), 1) + high - low - 1

    return F.transform(others, task)


def _long(number: int) -> Expression:
    return F.lit(number).cast(T.LongType())


class Spread(SelectiveSearch):
    """The search, far from the rows."""

    def __init__(self, problem: Problem, dealer: Dealer) -> None:
        super().__init__(problem)
        self._dealer = dealer

    def begin(self) -> None:
        with self.problem.budget.phase("sample"):
            parts = self._dealer.search_sample()
        if not parts:
            return
        n_words = self.problem.vertices.n_words
        rest = json.loads(parts["rest"])
        self.n_sampled = rest["sampled"]
        self.sample_edges = covers_of(parts["sample edges"], n_words)
        self.sample_counts = np.frombuffer(parts["sample counts"], np.int64).copy()
        self.add_edges(covers_of(parts["edges"], n_words))
        if self._dealer.n_rows <= self._dealer.sizes.sample:
            self.settled = rest["settled"]
            self.verified = {to_int(cover) for cover in covers_of(parts["verified"], n_words)}

    def choose(self, masks: UInt64Array) -> tuple[list[int], float]:
        """Nothing is enumerated: every candidate is verified, where its rows meet."""
        return [], 0.0

    def verify(self, todo: UInt64Array) -> None:
        """As there, many in one job."""
        budget = self.problem.budget
        todo = todo[np.argsort(self.problem.vertices.n_predicates(todo), kind="stable")]
        n_done = 0
        while len(todo) and not budget.stopped():
            batch, todo = todo[:_CANDIDATES_PER_JOB], todo[_CANDIDATES_PER_JOB:]
            edges = self._dealer.verify(batch)
            if edges is None:
                return
            n_done += len(batch)
            self.add_edges(edges)
            self.verified |= {to_int(cover) for cover in batch[~missing_some(batch, edges)]}
            todo = todo[~missing_some(todo, edges)]
            budget.report("verify", n_done / (n_done + len(todo)), len(self.verified))


def prove(problem: Problem, dealer: Dealer) -> Answer:
    """All minimal exact rules of some distinct rows."""
    return find(problem, search=Spread(problem, dealer))
