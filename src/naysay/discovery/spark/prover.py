"""What a prover does: a task that has all distinct rows of the table, and looks at a part of what there is to look at.

A search asks one question after the other. The rows stay with the Python worker between them, one table a worker, for
as long as Spark keeps it; a worker that does not have them says so, and is sent them. Functions here take and give
Arrow batches and know nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array, UInt64Array
from naysay.budget import Budget
from naysay.discovery.evidence import agreeing_pairs
from naysay.discovery.problem import Problem
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.selective import ENUMERATE, SelectiveSearch
from naysay.discovery.space import Space
from naysay.discovery.spark.worker import WEIGHT, Batches, outcomes_with_weights
from naysay.discovery.verify import equality_masks
from naysay.discovery.vertices import missing_some, to_int
from naysay.rule.model import Nulls

PART, HASH = "part", "hash"
SCHEMA = pa.schema([(PART, pa.int32()), ("what", pa.string()), ("content", pa.binary())])


class QuestionKind(Enum):
    """SAMPLE: all pairs of some rows. SIZES: how many pairs agree on sets of columns. AGREEING: the evidence of those
    pairs. VERIFY: which of some covers hold."""

    SAMPLE = "sample"
    SIZES = "sizes"
    AGREEING = "agreeing"
    VERIFY = "verify"


class ReplyPart(Enum):
    """What an answer holds. Each part says MISSED, STOPPED (its time was up) or DONE, and then the rest as arrays."""

    DONE = "done"
    MISSED = "missed"
    STOPPED = "stopped"
    EDGES = "edges"
    SAMPLE_EDGES = "sample edges"
    SAMPLE_COUNTS = "sample counts"
    SIZES = "sizes"
    HOLD = "hold"
    TOO_LONG = "too long"


@dataclass(frozen=True, slots=True)
class Question:
    """What all parts are asked; each takes its share. `run` names the table that a worker must hold for it."""

    run: str
    space: Space
    nulls: Nulls
    n_parts: int
    kind: QuestionKind
    masks: tuple[int, ...] = ()
    covers: bytes = b""
    seconds: float | None = None


# The table that this worker holds, and the name of the run that it belongs to.
_held: dict[str, SelectiveSearch] = {}


def answer(question: Question, batches: Batches) -> Iterator[pa.RecordBatch]:
    """The work of a task. Its rows are those of the table, or a single one that names the part."""
    part = None
    given = []
    for batch in batches:
        if batch.num_rows:
            part = int(batch.column(PART)[0].as_py())
            if question.run not in _held and WEIGHT in batch.schema.names:
                given.append(batch)
    if part is None:
        return
    if given:
        _held.clear()
        _held[question.run] = _search_in(pa.Table.from_batches(given), question)
    search = _held.get(question.run)
    found: dict[ReplyPart, bytes] = {ReplyPart.MISSED: b""} if search is None else _share(search, question, part)
    yield pa.RecordBatch.from_pydict(
        {PART: [part] * len(found), "what": [what.value for what in found], "content": list(found.values())},
        schema=SCHEMA,
    )


def _search_in(table: pa.Table, question: Question) -> SelectiveSearch:
    table = table.take(same_order(table)).drop_columns([PART, HASH])
    outcomes = outcomes_with_weights(table, question.space, question.nulls)
    return SelectiveSearch(Problem.of(question.space, outcomes, DiscoverRequest(nulls=question.nulls)))


def same_order(table: pa.Table) -> Int64Array:
    """An order of distinct rows that does not depend on how they came: by HASH, rows of equal hash by their values.

    All parts number their rows alike, so that shares of pairs and groups by number fit together.
    """
    hashes = table.column(HASH).to_numpy()
    order = np.argsort(hashes, kind="stable")
    equal = hashes[order][1:] == hashes[order][:-1]
    tied = np.flatnonzero(np.concatenate([equal, [False]]) | np.concatenate([[False], equal]))
    if tied.size:
        values = table.take(order[tied]).to_pylist()
        by_value = sorted(range(tied.size), key=lambda k: (values[k][HASH], repr(values[k])))
        order[tied] = order[tied][by_value]
    return order


def _share(search: SelectiveSearch, question: Question, part: int) -> dict[ReplyPart, bytes]:
    search.problem = replace(search.problem, budget=Budget(question.seconds))
    # What one question brings to light is the asker's to keep.
    search.edges, search.verified = search.edges[:0], set()
    work = {"sample": _sample, "sizes": _sizes, "agreeing": _agreeing, "verify": _verify}[question.kind.value]
    return work(search, question, part)


def _sample(search: SelectiveSearch, question: Question, part: int) -> dict[ReplyPart, bytes]:
    if part == 0:
        search.sample()
        if search.problem.budget.stopped():
            return {ReplyPart.STOPPED: b""}
    return {
        ReplyPart.DONE: b"",
        ReplyPart.EDGES: search.edges.tobytes(),
        ReplyPart.SAMPLE_EDGES: search.sample_edges.tobytes() if part == 0 else b"",
        ReplyPart.SAMPLE_COUNTS: search.sample_counts.tobytes() if part == 0 else b"",
    }


def _sizes(search: SelectiveSearch, question: Question, part: int) -> dict[ReplyPart, bytes]:
    sizes = [(mask, search.costs.n_pairs(mask)) for mask in question.masks[part :: question.n_parts]]
    return {ReplyPart.DONE: b"", ReplyPart.SIZES: np.array(sizes, np.int64).tobytes()}


def _agreeing(search: SelectiveSearch, question: Question, part: int) -> dict[ReplyPart, bytes]:
    outcomes, budget = search.problem.outcomes, search.problem.budget
    for mask in question.masks:
        order, starts = search.costs.grouped(mask)
        found = agreeing_pairs(outcomes, order, starts, budget, share=slice(part, None, question.n_parts))
        if found is None:
            return {ReplyPart.STOPPED: b""}
        search.add(found)
    return {ReplyPart.DONE: b"", ReplyPart.EDGES: search.edges.tobytes()}


def _verify(search: SelectiveSearch, question: Question, part: int) -> dict[ReplyPart, bytes]:
    vertices, budget = search.problem.vertices, search.problem.budget
    covers = covers_of(question.covers, vertices.n_words)[part :: question.n_parts]
    too_long: list[int] = []
    done = 0
    while done < len(covers) and not budget.stopped():
        cover = covers[done]
        done += 1
        pair = search.verify_one(to_int(cover))
        if pair == ENUMERATE:
            too_long.append(int(equality_masks(cover[None, :], vertices)[0]))
        elif pair is not None:
            # Covers that the same pair breaks need no look of their own.
            rest = covers[done:]
            covers = np.concatenate([covers[:done], rest[~missing_some(rest, search._learn([pair]))]])
    if budget.stopped():
        return {ReplyPart.STOPPED: b""}
    return {
        ReplyPart.DONE: b"",
        ReplyPart.EDGES: search.edges.tobytes(),
        ReplyPart.HOLD: vertices.words(search.verified).tobytes(),
        ReplyPart.TOO_LONG: np.array(too_long, np.int64).tobytes(),
    }


def covers_of(content: bytes, n_words: int) -> UInt64Array:
    """Covers or edges from their bytes."""
    covers: UInt64Array = np.frombuffer(content, np.uint64).reshape(-1, n_words).copy()
    return covers
