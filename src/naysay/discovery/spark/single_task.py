"""A discovery inside one task: Hydra's own method needs all rows at once.

The task gets the distinct rows of the table with their weights, and gives back an answer in parts: covers and evidence
as bytes, the rest as JSON. Functions here take and give Arrow batches and know nothing of Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.problem import Answer, Problem
from naysay.discovery.space import Space
from naysay.discovery.spark.worker import WEIGHT
from naysay.discovery.work import Clock
from naysay.published import published
from naysay.rule.model import Nulls
from naysay.table import Table

SCHEMA = pa.schema([("part", pa.string()), ("content", pa.binary())])

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Whole:
    """What the task is asked."""

    space: Space
    nulls: Nulls
    max_predicates: int | None
    max_rules: int | None
    seconds: float | None


def answer_of_table(wanted: Whole) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """The work of the one task."""
    return partial(_answered, wanted)


def _answered(wanted: Whole, batches: Batches) -> Iterator[pa.RecordBatch]:
    given = list(batches)
    if not sum(batch.num_rows for batch in given):
        return
    table = pa.Table.from_batches(given)
    weights = table.column(WEIGHT).to_numpy().astype(np.int64)
    values = Table(table.drop_columns([WEIGHT]).rename_columns(list(wanted.space.names)))
    outcomes = replace(outcomes_of(values, wanted.space, wanted.nulls, collapse=False), weights=weights)
    problem = Problem.of(
        wanted.space,
        wanted.nulls,
        outcomes,
        max_predicates=wanted.max_predicates,
        max_rules=wanted.max_rules,
        clock=Clock(wanted.seconds),
    )
    answer: Answer = published("hydra").find(problem)
    parts = {
        "covers": answer.covers.tobytes(),
        "edges": answer.edges.tobytes(),
        "counts": answer.counts.tobytes(),
        "rest": json.dumps(
            {"partial": answer.partial, "sampled": answer.n_sampled, "reason": problem.clock.reason}
        ).encode(),
    }
    yield pa.RecordBatch.from_pydict({"part": list(parts), "content": list(parts.values())}, schema=SCHEMA)


def read_answer(found: pa.Table, n_words: int) -> tuple[Answer, str]:
    """The answer of the task, and what stopped it."""
    parts = dict(zip(found.column("part").to_pylist(), found.column("content").to_pylist(), strict=True))
    rest = json.loads(parts["rest"])
    covers, edges = (np.frombuffer(parts[name], np.uint64).reshape(-1, n_words).copy() for name in ("covers", "edges"))
    counts = np.frombuffer(parts["counts"], np.int64).copy()
    return Answer(covers, rest["partial"], edges, counts, n_sampled=rest["sampled"]), rest["reason"]
