"""What the tasks of an exact search do: one searches a sample of the rows, many verify candidates on theirs.

All rows that could break a candidate together are in one task (`spread`), so a candidate that holds in every task holds
in the table. Both kinds of task run the search of frames in memory. Functions here take and give Arrow batches and
know nothing of Spark.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array, UInt64Array
from naysay.budget import Budget
from naysay.discovery.evidence import equal_rows
from naysay.discovery.outcomes import Outcomes, outcomes_of
from naysay.discovery.problem import Problem
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.selective import SelectiveSearch, find
from naysay.discovery.space import Space
from naysay.discovery.spark.worker import ANSWER_SCHEMA, TASK, WEIGHT, Batches, word
from naysay.discovery.vertices import sorted_unique
from naysay.table import Table

HASH = "hash"
KIND, ROWS = "kind", "rows"
# What a task says: the rows that it has verified all candidates on, that its time was up, or an edge.
DONE, STOPPED, EDGE = 0, 1, 2
# The most edges that a task gives for each candidate that is broken.
_EDGES_A_CANDIDATE = 4


@dataclass(frozen=True, slots=True)
class ProverSetup:
    """What tasks need to know of the problem. `nullable` are the columns with a null anywhere in the table."""

    space: Space
    nullable: frozenset[str]
    request: DiscoverRequest
    n_words: int
    seconds: float | None
    # Whether equal rows are one with a weight already.
    are_distinct: bool = True

    def outcomes(self, table: pa.Table) -> Outcomes:
        """All distinct rows of a table, each with its weight."""
        weights = table.column(WEIGHT).to_numpy().astype(np.int64)
        extra = [name for name in (WEIGHT, HASH, TASK) if name in table.column_names]
        values = Table(table.drop_columns(extra).rename_columns(list(self.space.names)))
        collapse = not self.are_distinct
        found = outcomes_of(values, self.space, self.request.nulls, collapse=collapse, nullable=self.nullable)
        return found if collapse else replace(found, weights=weights)

    def problem(self, table: pa.Table) -> Problem:
        return Problem.of(self.space, self.outcomes(table), self.request, Budget(self.seconds))


@dataclass(frozen=True, slots=True)
class Meeting:
    """Tasks from `first` on, in which all rows meet that agree on some columns, and the candidates that ask for it."""

    first: int
    covers: bytes


def schema_of(n_words: int) -> pa.Schema:
    words = [(word(number), pa.int64()) for number in range(n_words)]
    return pa.schema([(KIND, pa.int32()), (ROWS, pa.int64()), *words])


def search_sample(setup: ProverSetup, batches: Batches) -> Iterator[pa.RecordBatch]:
    """All that a search of some rows learns; what it has proven counts if they are all rows."""
    table = _table_of(batches)
    if table is None:
        return
    problem = setup.problem(table.take(same_order(table)))
    search = SelectiveSearch(problem)
    find(problem, search=search)
    rest = {"settled": search.settled, "sampled": search.n_sampled}
    parts = {
        "edges": search.edges.tobytes(),
        "sample edges": search.sample_edges.tobytes(),
        "sample counts": search.sample_counts.tobytes(),
        "verified": problem.vertices.words(search.verified).tobytes(),
        "rest": json.dumps(rest).encode(),
    }
    yield pa.RecordBatch.from_pydict({"part": list(parts), "content": list(parts.values())}, schema=ANSWER_SCHEMA)


def verify_in_task(setup: ProverSetup, meetings: tuple[Meeting, ...], batches: Batches) -> Iterator[pa.RecordBatch]:
    """Some edges of pairs of these rows that break a candidate, if any does."""
    table = _table_of(batches)
    if table is None:
        return
    number = int(table.column(TASK)[0].as_py())
    meeting = meetings[bisect_right([meeting.first for meeting in meetings], number) - 1]
    covers = covers_of(meeting.covers, setup.n_words)
    n_rows = table.num_rows
    problem = setup.problem(table)
    # The values are as large as their codes.
    del table
    search = SelectiveSearch(problem)
    search.add(equal_rows(problem.outcomes))
    search.verify(covers)
    kind = STOPPED if problem.budget.stopped() else DONE
    # A rule and its twin, t and s exchanged, are broken by the same pairs, turned round.
    twins, exist = problem.vertices.mirrored(covers)
    edges = breaking_edges(np.concatenate([covers, twins[exist]]), search.edges)
    kinds = np.full(1 + len(edges), EDGE, np.int32)
    rows = np.zeros(1 + len(edges), np.int64)
    kinds[0], rows[0] = kind, n_rows
    words = np.concatenate([np.zeros((1, setup.n_words), np.uint64), edges]).view(np.int64)
    columns = [pa.array(kinds), pa.array(rows), *(pa.array(words[:, place]) for place in range(setup.n_words))]
    yield pa.RecordBatch.from_arrays(columns, schema=schema_of(setup.n_words))


def breaking_edges(covers: UInt64Array, edges: UInt64Array) -> UInt64Array:
    """A few edges for each cover that misses one."""
    chosen = [edges[:0]]
    for cover in covers:
        missed = np.flatnonzero(~(edges & cover).any(axis=1))
        chosen.append(edges[missed[:: max(1, -(-missed.size // _EDGES_A_CANDIDATE))]])
    return sorted_unique(np.concatenate(chosen))


def covers_of(content: bytes, n_words: int) -> UInt64Array:
    """Covers or edges from their bytes."""
    covers: UInt64Array = np.frombuffer(content, np.uint64).reshape(-1, n_words).copy()
    return covers


def same_order(table: pa.Table) -> Int64Array:
    """An order of distinct rows that does not depend on how they came: by HASH, rows of equal hash by their values."""
    hashes = table.column(HASH).to_numpy()
    order = np.argsort(hashes, kind="stable")
    equal = hashes[order][1:] == hashes[order][:-1]
    tied = np.flatnonzero(np.concatenate([equal, [False]]) | np.concatenate([[False], equal]))
    if tied.size:
        values = table.take(order[tied]).to_pylist()
        by_value = sorted(range(tied.size), key=lambda k: (values[k][HASH], repr(values[k])))
        order[tied] = order[tied][by_value]
    return order


def _table_of(batches: Batches) -> pa.Table | None:
    given = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(given) if given else None
