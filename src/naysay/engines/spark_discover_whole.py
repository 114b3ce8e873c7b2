"""A discovery inside one task: the methods that look at few pairs need all rows at once.

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

from naysay.discovery import hydra, selective
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.problem import Answer, Problem
from naysay.discovery.space import Space
from naysay.discovery.work import Clock
from naysay.engines.spark_discover_tasks import WEIGHT
from naysay.rule.model import Nulls
from naysay.table import Table

SCHEMA = "part string, content binary"
_ARROW_SCHEMA = pa.schema([("part", pa.string()), ("content", pa.binary())])

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Whole:
    """What the task is asked. `may_leave`: it may answer that all pairs would cost less."""

    space: Space
    nulls: Nulls
    method: str
    max_predicates: int | None
    max_rules: int | None
    seconds: float | None
    may_leave: bool


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
        wanted.space, wanted.nulls, outcomes,
        max_predicates=wanted.max_predicates, max_rules=wanted.max_rules, clock=Clock(wanted.seconds),
    )
    try:
        answer = hydra.find(problem) if wanted.method == "hydra" else selective.find(
            problem, may_leave=wanted.may_leave
        )
    except selective.TooManyChecks:
        return
    parts = {
        "covers": answer.covers.tobytes(),
        "edges": answer.edges.tobytes(),
        "counts": answer.counts.tobytes(),
        "rest": json.dumps(
            {"partial": answer.partial, "sampled": answer.n_sampled, "reason": problem.clock.reason}
        ).encode(),
    }
    yield pa.RecordBatch.from_pydict(
        {"part": list(parts), "content": list(parts.values())}, schema=_ARROW_SCHEMA
    )


def read_answer(found: pa.Table, n_words: int) -> tuple[Answer, str] | None:
    """The answer of a task, and what stopped it; None where it would rather have all pairs compared."""
    parts = dict(zip(found.column("part").to_pylist(), found.column("content").to_pylist(), strict=True))
    if not parts:
        return None
    rest = json.loads(parts["rest"])
    covers, edges = (
        np.frombuffer(parts[name], np.uint64).reshape(-1, n_words).copy() for name in ("covers", "edges")
    )
    counts = np.frombuffer(parts["counts"], np.int64).copy()
    return Answer(covers, rest["partial"], edges, counts, n_sampled=rest["sampled"]), rest["reason"]
