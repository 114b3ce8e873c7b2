"""What runs inside the tasks of a discovery: the rows of two blocks become codes, and the codes evidence. Or, for the
method that needs all rows at once, Hydra's, the whole table becomes an answer.

Functions here take and give Arrow batches and know nothing of Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array
from naysay.discovery.evidence import Evidence, between, codes_of_pairs, count_blocks, merge, triangle
from naysay.discovery.fields import NULL, Codes, Fields
from naysay.discovery.outcomes import Outcomes, families, outcomes_of
from naysay.discovery.problem import Answer, Problem
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.space import Space
from naysay.published import published
from naysay.rule.model import Nulls
from naysay.table import Table

HOME, TASK, WEIGHT, COUNT = "home", "task", "weight", "pairs"
ANSWER_SCHEMA = pa.schema([("part", pa.string()), ("content", pa.binary())])

Batches = Iterable[pa.RecordBatch]


def word(number: int) -> str:
    return f"w{number}"


def task_of(low: int, high: int, n_blocks: int) -> int:
    """The number of a pair of blocks, low <= high: row by row. `low * (low - 1)` is even."""
    return low * n_blocks - low * (low - 1) // 2 + high - low


def count_in_task(fields: Fields, n_blocks: int, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The work of a task: batches of the rows of one pair of blocks in, distinct codes with counts out."""
    given = list(batches)
    if not sum(batch.num_rows for batch in given):
        return
    table = pa.Table.from_batches(given)
    home = table.column(HOME).to_numpy()
    weights = table.column(WEIGHT).to_numpy().astype(np.int64)
    values = Table(table.drop_columns([HOME, TASK, WEIGHT]).rename_columns(list(fields.space.names)))
    outcomes = outcomes_in(values, fields, weights)
    low, high = int(home.min()), int(home.max())
    if task_of(low, high, n_blocks) != int(table.column(TASK)[0].as_py()):
        # One of the two blocks is empty, and the pairs within the other are counted elsewhere.
        return
    found = _evidence(outcomes, home, low, high)
    if len(found):
        columns = {word(number): pa.array(found.codes[:, number]) for number in range(found.codes.shape[1])}
        yield pa.RecordBatch.from_pydict({**columns, COUNT: pa.array(found.counts)})


def _evidence(outcomes: Outcomes, home: Int64Array, low: int, high: int) -> Evidence:
    if low < high:
        sides = [np.flatnonzero(home == block) for block in (low, high)]
        left, right = (replace(outcomes.take(at), weights=outcomes.weights[at]) for at in sides)
        across = between(left, right)
        assert across is not None
        return across
    within = count_blocks(outcomes, outcomes, list(triangle(outcomes.n_rows)))
    assert within is not None
    places = np.flatnonzero(outcomes.weights > 1)
    weights = outcomes.weights[places]
    # Unordered pairs of equal rows: whoever adds the mirror has both directions.
    own = Evidence(codes_of_pairs(outcomes, places, places), weights * (weights - 1) // 2)
    return merge([within, own])


def outcomes_in(table: Table, fields: Fields, weights: Int64Array) -> Outcomes:
    """The rows of a table in a given layout. Codes keep the order among these rows only."""
    left = np.zeros((fields.n_lines, table.n_rows), np.int32)
    right = np.zeros_like(left) if fields.two_sided else left
    fields.fill(codes_of(table, fields.space), left, right, 0)
    return Outcomes(fields.layout, left, right, weights)


def codes_of(table: Table, space: Space) -> Codes:
    """Every column in codes of 32 bits, those that compare with each other in one code space; NULL for null."""
    codes: Codes = {}
    for names, ordered in families(space):
        for name, found in zip(names, table.ranks(names, ordered=ordered), strict=True):
            values = found.values.astype(np.int32)
            codes[name] = values if found.valid is None else np.where(found.valid, values, NULL).astype(np.int32)
    return codes


def outcomes_with_weights(table: pa.Table, space: Space, nulls: Nulls) -> Outcomes:
    """All distinct rows of a table, each with its weight."""
    weights = table.column(WEIGHT).to_numpy().astype(np.int64)
    values = Table(table.drop_columns([WEIGHT]).rename_columns(list(space.names)))
    return replace(outcomes_of(values, space, nulls, collapse=False), weights=weights)


def solve_in_task(space: Space, request: DiscoverRequest, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The work of a task that has all rows: Hydra's answer in parts, covers and evidence as bytes, the rest as JSON."""
    given = list(batches)
    if not sum(batch.num_rows for batch in given):
        return
    outcomes = outcomes_with_weights(pa.Table.from_batches(given), space, request.nulls)
    problem = Problem.of(space, outcomes, request, request.budget())
    answer: Answer = published("hydra").find(problem)
    rest = {"partial": answer.partial, "sampled": answer.n_sampled, "reason": problem.budget.reason}
    parts = {
        "covers": answer.covers.tobytes(),
        "edges": answer.edges.tobytes(),
        "counts": answer.counts.tobytes(),
        "rest": json.dumps(rest).encode(),
    }
    yield pa.RecordBatch.from_pydict({"part": list(parts), "content": list(parts.values())}, schema=ANSWER_SCHEMA)


def read_answer(found: pa.Table, n_words: int) -> tuple[Answer, str]:
    """The answer of the task, and what stopped it."""
    parts = dict(zip(found.column("part").to_pylist(), found.column("content").to_pylist(), strict=True))
    rest = json.loads(parts["rest"])
    covers, edges = (np.frombuffer(parts[name], np.uint64).reshape(-1, n_words).copy() for name in ("covers", "edges"))
    counts = np.frombuffer(parts["counts"], np.int64).copy()
    return Answer(covers, rest["partial"], edges, counts, n_sampled=rest["sampled"]), rest["reason"]
