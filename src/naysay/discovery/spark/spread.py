"""Exact discovery with its proofs spread over tasks: the search is the driver's, the rows are with the provers.

`naysay.discovery.selective` asks four things of the rows. Here each is a job: every prover takes a share of the pairs,
of the sets or of the candidate rules, and the driver puts together what they tell. All see the same rows in the same
order, so the shares of one question are exactly what one task would have found.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.arrays import UInt64Array
from naysay.budget import Budget
from naysay.discovery.problem import Answer, Problem
from naysay.discovery.selective import SelectiveSearch, TooManyChecks, find
from naysay.discovery.spark.prover import HASH, PART, SCHEMA, Question, QuestionKind, ReplyPart, answer, covers_of
from naysay.discovery.spark.worker import WEIGHT
from naysay.discovery.verify import Costs
from naysay.discovery.vertices import missing_some, to_int
from naysay.spark.expressions import hash_of
from naysay.spark.frame import map_in_arrow
from naysay.spark.versions import deal_out

# The seconds of proving that are worth a job.
_SECONDS_PER_JOB = 4.0

Collect = Callable[[DataFrame, Budget], pa.Table | None]
Replies = dict[int, dict[ReplyPart, bytes]]


class Provers:
    """The tasks that hold the rows. `collect` runs a job, and returns None if the budget stopped it."""

    def __init__(self, rows: DataFrame, problem: Problem, n_parts: int, collect: Collect) -> None:
        self.n_parts = n_parts
        # How often each part has replied.
        self.n_replies = [0] * n_parts
        self._rows = rows
        self._problem = problem
        self._collect = collect
        self._run = uuid.uuid4().hex
        self._are_sent = False

    def ask(
        self, kind: QuestionKind, *, masks: Sequence[int] = (), covers: UInt64Array | None = None
    ) -> Replies | None:
        """The reply of each part; None if the budget stopped before all had done their share."""
        problem = self._problem
        left = problem.budget.left
        question = Question(
            self._run,
            problem.space,
            problem.request.nulls,
            self.n_parts,
            kind,
            tuple(masks),
            b"" if covers is None else np.ascontiguousarray(covers).tobytes(),
            None if left == float("inf") else max(0.001, left),
        )
        replies: Replies = {}
        missed = list(range(self.n_parts))
        if self._are_sent:
            # Most workers still hold the rows. Those that do not are few, and get them below.
            if not self._answer(question, self._parts_alone(), replies):
                return None
            missed = [part for part in missed if ReplyPart.MISSED in replies[part]]
        if missed and not self._answer(question, self._parts_with_rows(missed), replies):
            return None
        self._are_sent = True
        for part in replies:
            self.n_replies[part] += 1
        if not all(ReplyPart.DONE in reply for reply in replies.values()):
            # A task's clock stops a moment before ours.
            problem.budget.stop("time limit")
            return None
        return replies

    def _answer(self, question: Question, parts: DataFrame, replies: Replies) -> bool:
        found = self._collect(map_in_arrow(parts, partial(answer, question), SCHEMA), self._problem.budget)
        if found is None:
            return False
        fresh: Replies = {}
        for row in found.to_pylist():
            fresh.setdefault(row[PART], {})[ReplyPart(row["what"])] = row["content"]
        replies.update(fresh)
        if set(replies) != set(range(self.n_parts)):
            raise AssertionError(f"parts {sorted(replies)} of {self.n_parts} have answered")
        return True

    def _parts_alone(self) -> DataFrame:
        numbers = self._rows.sparkSession.range(0, self.n_parts, 1, self.n_parts)
        return numbers.select(F.col("id").cast(T.IntegerType()).alias(PART))

    def _parts_with_rows(self, parts: Sequence[int]) -> DataFrame:
        names = [name for name in self._rows.columns if name != WEIGHT]
        place = F.explode(F.sequence(F.lit(0), F.lit(len(parts) - 1)))
        copies = self._rows.withColumn(HASH, hash_of([F.col(name) for name in names])).withColumn("place", place)
        dealt = deal_out(copies, len(parts), F.col("place"))
        return dealt.withColumn(PART, F.element_at(F.array(*map(F.lit, parts)), F.col("place") + 1)).drop("place")


class _FarCosts(Costs):
    """Costs whose numbers come from the provers."""

    def __init__(self, search: Spread, provers: Provers, n_rows: int) -> None:
        super().__init__(search.verifier, provers.n_parts)
        self._provers = provers
        self._n_rows = n_rows

    @property
    def n_rows(self) -> int:
        return self._n_rows

    def look_up(self, masks: Iterable[int]) -> None:
        unknown = [mask for mask in masks if mask not in self._n_pairs]
        replies = self._provers.ask(QuestionKind.SIZES, masks=unknown) if unknown else {}
        for reply in (replies or {}).values():
            for mask, n_pairs in np.frombuffer(reply[ReplyPart.SIZES], np.int64).reshape(-1, 2).tolist():
                self._n_pairs[mask] = n_pairs

    def n_pairs(self, mask: int) -> int:
        self.look_up([mask])
        # Unknown only if the budget has stopped: nothing will be enumerated then.
        return self._n_pairs.get(mask, self._n_rows * self._n_rows)


class Spread(SelectiveSearch):
    """The search, far from the rows."""

    def __init__(self, problem: Problem, provers: Provers, n_rows: int) -> None:
        super().__init__(problem)
        self._provers = provers
        self.costs = _FarCosts(self, provers, n_rows)

    def sample(self) -> None:
        replies = self._provers.ask(QuestionKind.SAMPLE)
        if replies is None:
            return
        n_words = self.problem.vertices.n_words
        self.sample_edges = covers_of(replies[0][ReplyPart.SAMPLE_EDGES], n_words)
        self.sample_counts = np.frombuffer(replies[0][ReplyPart.SAMPLE_COUNTS], np.int64).copy()
        # n rows have n * (n - 1) ordered pairs.
        self.n_sampled = (1 + math.isqrt(1 + 4 * int(self.sample_counts.sum()))) // 2
        self._learn_edges(replies)

    def enumerate(self, mask: int) -> None:
        with self.problem.budget.phase("agreeing pairs"):
            replies = self._provers.ask(QuestionKind.AGREEING, masks=[mask])
            if replies is None:
                return
            self._learn_edges(replies)
            self.settle(mask)

    def verify(self, todo: UInt64Array) -> None:
        """As there, by more at once: a job has its price."""
        budget = self.problem.budget
        todo = todo[np.argsort(self.problem.vertices.n_predicates(todo), kind="stable")]
        n_parts = self._provers.n_parts
        size = max(4 * n_parts, int(_SECONDS_PER_JOB / self.costs.check_seconds()))
        n_done = 0
        while len(todo) and not budget.stopped():
            batch, todo = todo[:size], todo[size:]
            replies = self._provers.ask(QuestionKind.VERIFY, covers=batch)
            if replies is None:
                return
            n_done += len(batch)
            for reply in replies.values():
                hold = covers_of(reply[ReplyPart.HOLD], self.problem.vertices.n_words)
                self.verified |= {to_int(cover) for cover in hold}
            edges = self._learn_edges(replies)
            too_long = np.concatenate(
                [np.frombuffer(reply[ReplyPart.TOO_LONG], np.int64) for reply in replies.values()]
            )
            for mask in np.unique(too_long).tolist():
                self.enumerate(mask)
            todo = todo[~missing_some(todo, edges)]
            budget.report("verify", n_done / (n_done + len(todo)), len(self.verified))

    def _learn_edges(self, replies: Replies) -> UInt64Array:
        contents = [reply[ReplyPart.EDGES] for reply in replies.values()]
        return self.add_edges(np.concatenate([self._covers(content) for content in contents]))

    def _covers(self, content: bytes) -> UInt64Array:
        return covers_of(content, self.problem.vertices.n_words)


def prove(
    problem: Problem, rows: DataFrame, n_rows: int, n_parts: int, collect: Collect, *, may_leave: bool
) -> Answer | None:
    """All minimal exact rules of some distinct rows; None, if `may_leave`, when all pairs look cheaper."""
    search = Spread(problem, Provers(rows, problem, n_parts, collect), n_rows)
    try:
        return find(problem, may_leave=may_leave, search=search)
    except TooManyChecks:
        return None
