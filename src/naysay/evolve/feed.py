"""Batches of changes from outside into a durable evolver: the rules that stop and start to hold, as events.

A body for whatever follows changes (see `watch.feed`); each batch is applied once, with its output, whatever is killed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray
from naysay.discovery.space import build_space
from naysay.errors import NaysayError, ResourceError, StateError, UsageError
from naysay.evolve.change import Change
from naysay.evolve.durable import FILE
from naysay.evolve.evolver import Evolver
from naysay.live.feed.changes import AppliedBatch, ChangeRows, RejectedChange, first_batch_error, fold
from naysay.live.feed.output import Output
from naysay.live.journal.journal import journal_exists
from naysay.live.layout import Layout
from naysay.rule import render
from naysay.table import from_frame

_EVENTS = pa.schema([("rule", pa.string()), ("left", pa.string()), ("right", pa.string()), ("reason", pa.string())])


@dataclass(frozen=True, slots=True)
class _Unborn:
    """A table before its first rows, as far as changes are looked at."""

    key: tuple[str, ...]
    layout: Layout | None = None

    def contains(self, keys: pa.Table) -> BoolArray:
        return np.zeros(keys.num_rows, np.bool_)


@dataclass(frozen=True, slots=True)
class Events:
    """A change of rules as tables of rule, left, right and reason; keys as JSON."""

    added: pa.Table
    removed: pa.Table
    batch_id: str | None


class EvolveFeed:
    """An evolver in a state folder, begun with the first rows that come, and the folder of its output.

    What rules may compare is settled by the first batch. `n_sentences` rules a batch are put into words.
    """

    def __init__(
        self, folder: Path, key: Sequence[str], *, nulls: str | None = None, error: float = 0.0, n_sentences: int = 0
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if journal_exists(folder / "state.duckdb") or (folder / "parts").exists():
            raise UsageError(f"{folder}: this is the state of a watch over given rules; name another folder")
        self._folder = folder
        self._options: dict[str, Any] = {"nulls": nulls or "sql", "error": error}
        self._n_sentences = n_sentences
        self._evolver: Evolver | None = None
        self._unborn = _Unborn(tuple(key))
        self._seen: set[str] = set()
        self._rejected: Sequence[RejectedChange] = ()
        if journal_exists(folder / FILE):
            self._use(Evolver.open(folder))

    @property
    def evolver(self) -> Evolver | None:
        """None before the first rows."""
        return self._evolver

    @property
    def schema(self) -> pa.Schema | None:
        return None if self._evolver is None else self._evolver.schema

    @property
    def n_rows(self) -> int:
        return 0 if self._evolver is None else self._evolver.n_rows

    @property
    def counts(self) -> Mapping[str, int]:
        return {"rules that hold": 0 if self._evolver is None else len(self._evolver.rules)}

    def has_applied(self, batch_id: str) -> bool:
        return batch_id in self._seen if self._evolver is None else self._evolver.knows(batch_id)

    def apply(self, batch_id: str, changes: ChangeRows) -> AppliedBatch:
        """Apply a batch that is not known; bad changes are set aside, and part of the answer."""
        start = time.perf_counter()
        n_changes, change = changes.n_changes, None
        try:
            tables = fold(self._evolver or self._unborn, changes)
            self._rejected = changes.rejected
            change = self._applied(tables, batch_id)
        except (ResourceError, StateError):
            raise
        except NaysayError as error:
            if self._evolver is None and isinstance(error, UsageError):
                raise first_batch_error(batch_id, error) from error
            # None of it can be made: remember it as done, and say why.
            self._rejected = [*changes.rejected, RejectedChange(None, str(error), source=changes.sources[0])]
            n_changes = 0
            change = self._applied({}, batch_id)
        if change is None:
            return AppliedBatch(batch_id, n_changes, 0, 0, 0, self.counts, self._rejected)
        assert self._evolver is not None
        assert self._evolver.store is not None
        self._output.confirm(self._evolver.store.last_event, "rows", batch_id)
        return AppliedBatch(
            batch_id,
            n_changes,
            change.n_rows,
            len(change.added),
            len(change.removed),
            self.counts,
            self._rejected,
            _sentences(change, self._n_sentences),
            time.perf_counter() - start,
        )

    def write_current(self) -> None:
        """Write the rules that hold now, where they are not written yet."""
        if self._evolver is None:
            return
        assert self._evolver.store is not None
        evolver, seq = self._evolver, self._evolver.store.next_seq - 1
        self._output.write_current(
            seq, lambda: pa.table({"rule": pa.array([render(rule) for rule in evolver.rules], pa.string())})
        )

    def close(self) -> None:
        if self._evolver is not None:
            self._evolver.close()

    def __enter__(self) -> EvolveFeed:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _applied(self, tables: Mapping[str, pa.Table], batch_id: str) -> Change | None:
        if self._evolver is None:
            if "inserts" not in tables:
                # There is nothing yet to remember it in; it made nothing, and would not the next time.
                self._seen.add(batch_id)
                return None
            first = tables["inserts"]
            key = self._unborn.key
            if not key:
                raise UsageError("name the key of the table: changes are told apart by it")
            space = build_space(from_frame(first))
            empty = first.schema.empty_table()
            self._use(Evolver(empty, key, space=space, state=self._folder, **self._options))
        assert self._evolver is not None
        return self._evolver.apply(**tables, batch_id=batch_id)

    def _use(self, evolver: Evolver) -> None:
        assert evolver.store is not None
        if not evolver.key:
            evolver.close()
            raise UsageError("the rows of this state have no key, and changes are told apart by one; begin another")
        self._evolver = evolver
        self._output = Output(self._folder / "output", evolver.store.history)
        evolver.publisher = self._publish

    def _publish(self, seq: int, change: Change) -> None:
        added = [{"rule": render(rule)} for rule in change.added]
        removed = [
            {"rule": render(gone.rule), "left": _shown(gone.left), "right": _shown(gone.right), "reason": gone.reason}
            for gone in change.removed
        ]
        came, went = (pa.Table.from_pylist(rows, _EVENTS) for rows in (added, removed))
        self._output.prepare(seq, Events(came, went, change.batch_id), self._rejected)


def _shown(key: Any) -> str | None:
    return None if key is None else json.dumps(key, default=str, ensure_ascii=False)


def _sentences(change: Change, limit: int) -> list[str]:
    # A rule may go because two rows break it, or because it is no longer the shortest way to say so.
    words = {True: "no longer holds", False: "no longer minimal"}
    said = [
        f"{words[gone.pair is not None]}: {render(gone.rule, short=True)}; {gone.reason}"
        for gone in change.removed[:limit]
    ]
    return said + [f"holds now: {render(rule, short=True)}" for rule in change.added[: limit - len(said)]]
