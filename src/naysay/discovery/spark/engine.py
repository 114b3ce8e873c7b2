"""Discovery on Spark: values are encoded and pairs compared in tasks, covers are searched on the driver.

Equal rows become one with a weight, rows are dealt out to blocks by a hash of their values, and each task holds two
blocks: it encodes the rows of both together and counts the outcomes of all pairs between them. So a task holds twice a
block, however large the table is, and any two rows meet in exactly one task. The counts of all tasks add up to
n * (n - 1) ordered pairs, which is asserted. If there are too many pairs for that, exact rules are proven by tasks in
which the rows meet that could break them (`spread`); Hydra's method runs in one task.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.budget import Budget, run_all
from naysay.discovery.engine import answer_from, conclude
from naysay.discovery.evidence import Evidence, merge, mirror_of
from naysay.discovery.fields import Fields, chances_of, fields_of
from naysay.discovery.outcomes import Outcomes, outcomes_of
from naysay.discovery.problem import Answer, Problem, empty_answer
from naysay.discovery.ranking import Ranker, make_ranker, max_equal_of
from naysay.discovery.request import DiscoverRequest, Sweep
from naysay.discovery.result import Discovery
from naysay.discovery.space import Comparison, Scope, Shared, Space, columns_of, space_over
from naysay.discovery.spark.spread import Dealer, Pairs, SpreadSizes, Witnesses, data_changed, prove
from naysay.discovery.spark.worker import (
    ANSWER_SCHEMA,
    COUNT,
    HOME,
    TASK,
    WEIGHT,
    codes_of,
    count_in_task,
    read_answer,
    solve_in_task,
    word,
)
from naysay.discovery.support import MOST_ROWS
from naysay.errors import ResourceError, UsageError
from naysay.rule.model import Column, Nulls, Op, Predicate, Row, Rule
from naysay.spark.expressions import hash_of
from naysay.spark.frame import Frame, map_in_arrow, position
from naysay.spark.session import cancelled_if_interrupted, errors_of_tasks
from naysay.spark.versions import deal_out, interrupt, tagged, to_arrow, union
from naysay.table import Table
from naysay.table.column import Kind

# For columns of one kind a type in which equal values of different types are equal.
_COMMON = {Kind.INT: T.LongType(), Kind.FLOAT: T.DoubleType(), Kind.TEXT: T.StringType()}


def space_of(frame: Frame, columns: Sequence[str] | None, scope: Scope) -> Space:
    """As `discovery.space.build_space`; shared values are counted by distinct values only."""
    if scope.cross and scope.shared is not Shared.DISTINCT:
        raise UsageError("on Spark columns are compared by the distinct values that they share, not by occurrences")
    every = {name: frame.kind_of(position(place)) for place, name in enumerate(frame.names)}
    names, notes = columns_of(every, columns)
    for name in names:
        _require(frame, name)
    kinds = {name: every[name] for name in names}
    shared = _shared(frame, kinds) if scope.compares_values else Counter()

    def share_enough(first: str, second: str) -> bool:
        larger = max(shared[first, first], shared[second, second])
        smaller = min(shared[first, first], shared[second, second])
        return smaller > 0 and shared[first, second] >= scope.share * larger

    averages = _averages(frame, kinds) if scope.cross and scope.average_factor is not None else {}
    return space_over(kinds, scope, share_enough, averages, notes)


def _averages(frame: Frame, kinds: Mapping[str, Kind]) -> dict[str, float]:
    """The averages of the columns of numbers."""
    names = [name for name, kind in kinds.items() if kind.is_number]
    wanted = [F.avg(F.col(position(frame.place(name))).cast(T.DoubleType())) for name in names]
    found = frame.data.agg(*wanted).collect()[0] if names else ()
    return {name: float(average or 0.0) for name, average in zip(names, found, strict=True)}


def _require(frame: Frame, name: str) -> None:
    frame.require(Rule((Predicate(Column(Row.LEFT, name), Op.EQ, Column(Row.RIGHT, name)),)))


def _shared(frame: Frame, kinds: Mapping[str, Kind]) -> Counter[tuple[str, str]]:
    """How many distinct values each two columns of one kind have in common; a column with itself: how many it has."""
    found: Counter[tuple[str, str]] = Counter()
    for kind in dict.fromkeys(kinds.values()):
        names = [name for name, other in kinds.items() if other is kind]
        if len(names) < 2 or kind in (Kind.NULL, Kind.OTHER):
            continue
        for row in _holders(frame, kind, names).collect():
            for first in row["holders"]:
                for second in row["holders"]:
                    found[names[first], names[second]] += int(row["values"])
    return found


def _holders(frame: Frame, kind: Kind, names: Sequence[str]) -> DataFrame:
    """For each set of columns that hold a value in common, the number of such values."""
    parts = [
        frame.data.select(F.lit(number).alias("holder"), _common(frame, kind, name, names).alias("value")).distinct()
        for number, name in enumerate(names)
    ]
    together = union(parts).filter(F.col("value").isNotNull())
    sets = together.groupBy("value").agg(F.sort_array(F.collect_set("holder")).alias("holders"))
    return sets.groupBy("holders").agg(F.count(F.lit(1)).alias("values"))


def _common(frame: Frame, kind: Kind, name: str, names: Sequence[str]) -> Expression:
    value = F.col(position(frame.place(name)))
    types = [frame.types[frame.place(other)] for other in names]
    if kind is Kind.DECIMAL:
        scale = max(type_.scale for type_ in types if isinstance(type_, T.DecimalType))
        return value.cast(T.DecimalType(38, scale))
    if kind is Kind.FLOAT:
        # Minus zero is zero.
        return value.cast(T.DoubleType()) + F.lit(0.0)
    return value.cast(_COMMON[kind]) if kind in _COMMON else value.cast(types[0])


_SAMPLE_ROWS = 4096
# Violations to learn from, of each rule that is verified by itself.
_PAIRS_A_RULE = 8

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Blocks:
    """How rows are dealt out. Answers do not depend on it, only time and memory do.

    A block has about `rows`; small tables are cut all the same, so that about `tasks` tasks have something to do.
    """

    rows: int = 32_768
    tasks: int = 16
    # The most distinct rows whose pairs are all compared, if exact rules are wanted.
    quick_rows: int = 50_000
    # Beyond, comparing all pairs would take days, and Spark could not keep track of the tasks.
    most_tasks: int = 100_000
    spread: SpreadSizes = field(default_factory=SpreadSizes)

    def count(self, n_rows: int) -> int:
        """The number of blocks for that many distinct rows."""
        if n_rows < 2_000:
            return 1
        for_tasks = next(n for n in range(1, n_rows) if n * (n + 1) // 2 >= self.tasks)
        return max(-(-n_rows // self.rows), min(for_tasks, -(-n_rows // 2_000)))


BLOCKS = Blocks()


@errors_of_tasks()
def discover(
    data: DataFrame, request: DiscoverRequest, blocks: Blocks = BLOCKS, witnesses: Witnesses | None = None
) -> Discovery:
    """As `naysay.discovery.engine.discover`, on a Spark DataFrame.

    All pairs are compared by many tasks. If the distinct rows are many, `auto` looks at fewer pairs for exact rules.
    `witnesses` finds violations of rules for which rows would be copied too often otherwise.
    """
    _refuse_local_options(request)
    budget = request.budget()
    # Before the rows are counted there is nothing to return.
    with cancelled_if_interrupted(data.sparkSession):
        frame = Frame.of(data)
        with budget.phase("space"):
            space = space_of(frame, request.columns, request.scope)
        request = request.fitted_to(space)
        profile = profile_of(distinct_rows(frame, space), space, budget)
    with budget.stop_on_interrupt():
        fields = fields_from(profile, space, request.nulls)
        problem = Problem.of(space, _without_rows(fields, profile.n_rows), request, budget)
        method, answer = _solve(problem, frame, fields, profile, blocks, witnesses)
        ranker = _ranker(answer, problem, frame, profile)
        return replace(conclude(problem, answer, method, ranker), engine="spark")


def _refuse_local_options(request: DiscoverRequest) -> None:
    if request.device == "cuda":
        raise UsageError("device 'cuda' applies to frames in memory; on Spark the executors' cores do the work")
    if request.threads:
        raise UsageError("threads applies to frames in memory; on Spark set the executors' cores")
    if request.memory is not None:
        raise UsageError("memory applies to frames in memory; on Spark set the executors' memory")
    if request.sweep is Sweep.ALWAYS:
        raise UsageError(
            "error='auto' applies to frames in memory; on Spark give a number, or try it on a sample of rows"
        )
    if request.is_measured:
        raise UsageError(
            f"measure={request.measure.value!r} applies to frames in memory; on Spark an error is a fraction of pairs"
        )
    if request.scope.conditions is not None:
        raise UsageError("conditions applies to frames in memory; on Spark leave it out, or use a sample of rows")
    if request.error and request.method == "selective":
        raise UsageError("on Spark the method selective finds exact rules only; use all-pairs for rules with an error")


@dataclass(frozen=True, slots=True)
class Profile:
    n_rows: int
    n_distinct: int
    nullable: frozenset[str]
    # Some distinct rows, with the columns of the space.
    sample: pa.Table


def distinct_rows(frame: Frame, space: Space, *, group: bool = True) -> DataFrame:
    """The distinct rows under the names of their positions, and how many rows of the table equal each.

    They are not persisted, which serverless Spark refuses: each job computes them again, so there are few of them.
    Without `group` each row stays by itself, with a weight of one.
    """
    names = [position(frame.place(name)) for name in space.names]
    n_equal = F.count(F.lit(1)).alias(WEIGHT)
    counted = frame.data.groupBy(*names).agg(n_equal) if group else frame.data.withColumn(WEIGHT, F.lit(1))
    order = [F.col(name).alias(position(place)) for place, name in enumerate(names)]
    return counted.select(*order, F.col(WEIGHT).cast(T.LongType()).alias(WEIGHT))


def profile_of(rows: DataFrame, space: Space, budget: Budget) -> Profile:
    """One job: what is counted and the sample share the shuffle of the distinct rows."""
    places = {position(place): name for place, name in enumerate(space.names)}
    with budget.phase("encode"):
        nulls = [F.max(F.col(place).isNull().cast(T.IntegerType())).alias(f"nulls in {place}") for place in places]
        counts = rows.agg(F.sum(WEIGHT).alias("rows"), F.count(F.lit(1)).alias("distinct"), *nulls)
        found = to_arrow(counts.unionByName(rows.limit(_SAMPLE_ROWS), allowMissingColumns=True))
    is_sample = found.column(WEIGHT).is_valid()
    sample = found.filter(is_sample).select(list(places)).rename_columns(list(space.names))
    (counted,) = found.filter(pc.invert(is_sample)).select(counts.columns).to_pylist()
    nullable = frozenset(name for place, name in places.items() if counted[f"nulls in {place}"])
    return Profile(counted["rows"] or 0, counted["distinct"], nullable, sample)


def fields_from(profile: Profile, space: Space, nulls: Nulls) -> Fields:
    return fields_of(space, nulls, profile.nullable, chances_of(codes_of(Table(profile.sample), space), space))


def _without_rows(fields: Fields, n_rows: int) -> Outcomes:
    """What the driver knows of the rows: how many there are."""
    nothing = np.zeros((fields.n_lines, 1), np.int32)
    return Outcomes(fields.layout, nothing, nothing, np.array([n_rows], np.int64))


def _solve(
    problem: Problem, frame: Frame, fields: Fields, profile: Profile, blocks: Blocks, witnesses: Witnesses | None
) -> tuple[str, Answer]:
    method = problem.request.method
    if profile.n_rows < 2:
        return "all-pairs", empty_answer(problem, partial=False)
    if method == "hydra" and profile.n_distinct > blocks.spread.giant:
        raise ResourceError(
            f"the method hydra needs all {profile.n_distinct:,} distinct rows in one task, which takes up to "
            f"{blocks.spread.giant:,}; use the method selective, or a sample of the rows"
        )
    is_large = profile.n_distinct > blocks.quick_rows
    if method == "selective" or (method == "auto" and not problem.most and is_large):
        return "selective", prove(problem, _dealer(problem, frame, profile, blocks.spread, witnesses))
    rows = distinct_rows(frame, problem.space, group=profile.n_distinct < profile.n_rows)
    if method == "hydra":
        return method, _in_one_task(problem, rows)
    return "all-pairs", _from_all_pairs(problem, rows, fields, profile, blocks)


def _dealer(
    problem: Problem, frame: Frame, profile: Profile, sizes: SpreadSizes, witnesses: Witnesses | None
) -> Dealer:
    # Copies of rows that a single task could have besides its own are left to the tasks: grouping all rows in every
    # job would cost more.
    group = profile.n_rows - profile.n_distinct > sizes.large
    rows = distinct_rows(frame, problem.space, group=group)
    return Dealer(
        rows,
        problem,
        profile.n_distinct if group else profile.n_rows,
        profile.nullable,
        sizes,
        _collect,
        are_distinct=group or profile.n_distinct == profile.n_rows,
        witnesses=None if witnesses is None else partial(_find_witnesses, rows.sparkSession, problem, witnesses),
    )


def _in_one_task(problem: Problem, rows: DataFrame) -> Answer:
    """The answer of Hydra's method."""
    budget = problem.budget
    # What is left of the time goes with the task; whom to report progress to does not.
    seconds = max(0.001, budget.left) if budget.is_limited else None
    request = replace(problem.request, max_seconds=seconds, threads=1, progress=None)
    with budget.phase("hydra"):
        work = partial(solve_in_task, problem.space, request)
        found = _collect(map_in_arrow(rows.repartition(1), work, ANSWER_SCHEMA), budget)
    if found is None:
        return empty_answer(problem, partial=True)
    answer, reason = read_answer(found, problem.vertices.n_words)
    if reason:
        budget.stop(reason)
    return answer


def _from_all_pairs(problem: Problem, rows: DataFrame, fields: Fields, profile: Profile, blocks: Blocks) -> Answer:
    with problem.budget.phase("evidence"):
        evidence = evidence_of_pairs(rows, fields, profile, blocks, problem.budget)
    return empty_answer(problem, partial=True) if evidence is None else answer_from(problem, evidence)


def evidence_of_pairs(
    rows: DataFrame, fields: Fields, profile: Profile, blocks: Blocks, budget: Budget
) -> Evidence | None:
    """The evidence of all ordered pairs of rows, from tasks that see each pair once; None if the budget stopped."""
    n_words = fields.layout.n_words
    words = [word(number) for number in range(n_words)]
    schema = pa.schema([*((name, pa.int32()) for name in words), (COUNT, pa.int64())])
    n_blocks = blocks.count(profile.n_distinct)
    if n_blocks * (n_blocks + 1) // 2 > blocks.most_tasks:
        raise ResourceError(
            f"discovery on {profile.n_distinct:,} distinct rows would compare all pairs of them in "
            f"{n_blocks * (n_blocks + 1) // 2:,} tasks; name fewer columns, or discover rules on a sample of the rows "
            "and check them on the whole table"
        )
    counted = map_in_arrow(_dealt(rows, n_blocks), partial(count_in_task, fields, n_blocks), schema)
    found = _collect(counted.groupBy(*words).agg(F.sum(COUNT).alias(COUNT)), budget)
    if found is None:
        return None
    codes = np.stack([found.column(name).to_numpy() for name in words], axis=1).astype(np.int32)
    counts = found.column(COUNT).to_numpy().astype(np.int64)
    half = Evidence(np.ascontiguousarray(codes.reshape(-1, n_words)), counts)
    evidence = merge([half, mirror_of(half, fields.layout)])
    if evidence.n_pairs != profile.n_rows * (profile.n_rows - 1):
        raise data_changed(
            f"tasks compared {evidence.n_pairs:,} pairs, but {profile.n_rows:,} rows have another number of them"
        )
    return evidence


def _collect(data: DataFrame, budget: Budget) -> pa.Table | None:
    """The rows of a DataFrame; None if the budget stopped first, which also stops the work on them."""
    return _within(budget, data.sparkSession, lambda: to_arrow(data))


def _find_witnesses(
    session: SparkSession, problem: Problem, witnesses: Witnesses, rules: Sequence[Rule]
) -> Sequence[Pairs | None] | None:
    names = problem.space.names
    return _within(problem.budget, session, lambda: witnesses(rules, names, _PAIRS_A_RULE))


def _within(budget: Budget, session: SparkSession, jobs: Callable[[], Found]) -> Found | None:
    """What some jobs find; None if the budget stopped first, which also stops them."""
    tag = f"naysay-{uuid.uuid4()}"

    def work() -> Found | None:
        # Tags belong to the thread that sets them: the session's other work goes on.
        with tagged(session, tag):
            try:
                return jobs()
            except Exception:
                if budget.stopped():
                    return None
                raise

    found = run_all([work], budget, on_stop=lambda: interrupt(session, tag))
    return found[0] if found else None


def _dealt(rows: DataFrame, n_blocks: int) -> DataFrame:
    """Each row once for each pair of blocks that its own belongs to; a pair of blocks is a partition."""
    names = [name for name in rows.columns if name != WEIGHT]
    home = F.pmod(hash_of([F.col(name) for name in names]), F.lit(n_blocks)).cast(T.IntegerType())
    others = F.sequence(F.lit(0), F.lit(n_blocks - 1))
    copies = rows.withColumn(HOME, home).withColumn("other", F.explode(others))
    low, high = F.least(F.col(HOME), F.col("other")), F.greatest(F.col(HOME), F.col("other"))
    # As `worker.task_of` numbers them.
    task = low * n_blocks - F.floor(low * (low - 1) / 2) + high - low
    numbered = copies.withColumn(TASK, task.cast(T.IntegerType())).drop("other")
    return deal_out(numbered, n_blocks * (n_blocks + 1) // 2, F.col(TASK))


def _ranker(answer: Answer, problem: Problem, frame: Frame, profile: Profile) -> Ranker:
    """With the distinct rows, if the driver can hold them, or some of them, and how many rows share a value at most."""
    vertices = problem.vertices
    unknown = (profile.n_rows,) * len(vertices.groups)
    # No further job once time is up: the number of rows is the bound that never makes a rule look better.
    known = len(answer.covers) and not problem.budget.stopped()
    outcomes = _some_rows(frame, problem, profile) if known else None
    if outcomes is None:
        return make_ranker(answer, problem, unknown)
    if outcomes.n_table_rows == profile.n_rows:
        return make_ranker(answer, problem, max_equal_of(outcomes, vertices), outcomes)
    names = {name: position(frame.place(name)) for name in problem.space.names}
    count = partial(_largest, frame.data, list(names.values()), problem.request.nulls)
    largest = _within(problem.budget, frame.data.sparkSession, count)
    if largest is None:
        return make_ranker(answer, problem, unknown, outcomes)
    of_column = {name: largest.get(place, 0) for name, place in names.items()}
    max_equal = tuple(
        profile.n_rows if group.comparison.within_row else _most(group.comparison, of_column)
        for group in vertices.groups
    )
    return make_ranker(answer, problem, max_equal, outcomes)


def _some_rows(frame: Frame, problem: Problem, profile: Profile) -> Outcomes | None:
    """The distinct rows, on the driver; as many as are tested, if there are more. None if time was up first."""
    rows = distinct_rows(frame, problem.space)
    if profile.n_distinct > MOST_ROWS:
        values = [F.col(name) for name in rows.columns if name != WEIGHT]
        rows = rows.orderBy(hash_of(values)).limit(MOST_ROWS)
    found = _collect(rows, problem.budget)
    if found is None:
        return None
    weights = found.column(WEIGHT).to_numpy().astype(np.int64)
    table = Table(found.drop_columns([WEIGHT]).rename_columns(list(problem.space.names)))
    return replace(outcomes_of(table, problem.space, problem.request.nulls, collapse=False), weights=weights)


def _most(comparison: Comparison, largest: Mapping[str, int]) -> int:
    """As in `discovery.ranking`: the most rows that one row can equal."""
    return largest[comparison.left.name] + (largest[comparison.right.name] if comparison.across else 0)


def _largest(rows: DataFrame, names: Sequence[str], nulls: Nulls) -> dict[str, int]:
    """The most rows that share a value, for each column; null is a value if nulls equal each other.

    By hash: it only has to be about right.
    """
    each = F.explode(
        F.array(
            *(
                F.struct(
                    F.lit(name).alias("name"), hash_of([F.col(name)]).alias("value"), F.col(name).isNull().alias("null")
                )
                for name in names
            )
        )
    )
    values = rows.select(each.alias("of"))
    if nulls is Nulls.SQL:
        values = values.filter(~F.col("of.null"))
    counted = values.groupBy("of.name", "of.value", "of.null").agg(F.count(F.lit(1)).alias(WEIGHT))
    return {row["name"]: int(row[WEIGHT]) for row in counted.groupBy("name").agg(F.max(WEIGHT).alias(WEIGHT)).collect()}
