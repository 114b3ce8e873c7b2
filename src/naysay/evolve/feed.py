"""An evolver that is fed with batches of changes, and writes the rules that start and stop to hold as events.

Each batch is applied once, with its output, even if the process is killed in between.
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
from naysay.evolve.change import RuleChange
from naysay.evolve.durable import FILE
from naysay.evolve.evolver import Evolver
from naysay.live.feed.changes import AppliedBatch, ChangeRows, RejectedChange, first_batch_error, fold
from naysay.live.feed.output import Output
from naysay.live.journal.journal import Journal, journal_exists
from naysay.live.layout import Layout
from naysay.rule import render
from naysay.table import from_frame

_EVENTS = pa.schema([("rule", pa.string()), ("left", pa.string()), ("right", pa.string()), ("reason", pa.string())])


@dataclass(frozen=True, slots=True)
class _NoTable:
    """Stands in for the evolver before the first rows."""

    key: tuple[str, ...]
    layout: Layout | None = None

    def contains(self, keys: pa.Table) -> BoolArray:
        return np.zeros(keys.num_rows, np.bool_)


@dataclass(frozen=True, slots=True)
class Events:
    """A change of rules as tables with rule, left, right and reason; keys as JSON."""

    added: pa.Table
    removed: pa.Table
    batch_id: str | None


class EvolveFeed:
    """An evolver in a state folder, which starts with the first rows that arrive, and the folder of its output.

    The first batch decides what rules may compare. `n_sentences` rules per batch are described in words.
    """

    def __init__(
        self, folder: Path, key: Sequence[str], *, nulls: str | None = None, error: float = 0.0, n_sentences: int = 0
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if journal_exists(folder / "state.duckdb") or (folder / "parts").exists():
            raise UsageError(f"{folder}: this is the state of a watch over given rules; choose another folder")
        self._folder = folder
        self._options: dict[str, Any] = {"nulls": nulls or "sql", "error": error}
        self._n_sentences = n_sentences
        self._evolver: Evolver | None = None
        self._no_table = _NoTable(tuple(key))
        self._seen: set[str] = set()
        self._rejected: Sequence[RejectedChange] = ()
        if journal_exists(folder / FILE):
            self._use(Evolver.open(folder))

    @property
    def evolver(self) -> Evolver | None:
        """None before the first rows."""
        return self._evolver

    @property
    def _journal(self) -> Journal:
        assert self._evolver is not None
        assert self._evolver.log.journal is not None
        return self._evolver.log.journal

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
        return batch_id in self._seen if self._evolver is None else self._evolver.has_applied(batch_id)

    def apply(self, batch_id: str, changes: ChangeRows) -> AppliedBatch:
        """Apply a batch that was not applied yet; bad changes are rejected, and part of the answer."""
        start = time.perf_counter()
        n_changes, change = changes.n_changes, None
        try:
            tables = fold(self._evolver or self._no_table, changes)
            self._rejected = changes.rejected
            change = self._applied(tables, batch_id)
        except (ResourceError, StateError):
            raise
        except NaysayError as error:
            if self._evolver is None and isinstance(error, UsageError):
                raise first_batch_error(batch_id, error) from error
            # No part of it can be applied: remember it as done, and say why.
            self._rejected = [*changes.rejected, RejectedChange(None, str(error), source=changes.sources[0])]
            n_changes = 0
            change = self._applied({}, batch_id)
        if change is None:
            return AppliedBatch(batch_id, n_changes, 0, 0, 0, self.counts, self._rejected)
        self._output.confirm(self._journal.last_event, "rows", batch_id)
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
        """Write the rules that hold now, if they are not written yet."""
        if self._evolver is None:
            return
        rules = self._evolver.rules
        self._output.write_current(
            self._journal.next_seq - 1, lambda: pa.table({"rule": pa.array(map(render, rules), pa.string())})
        )

    def close(self) -> None:
        if self._evolver is not None:
            self._evolver.close()

    def __enter__(self) -> EvolveFeed:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _applied(self, tables: Mapping[str, pa.Table], batch_id: str) -> RuleChange | None:
        if self._evolver is None:
            if "inserts" not in tables:
                # There is no state yet to remember it in; it did nothing, and would do nothing the next time.
                self._seen.add(batch_id)
                return None
            first = tables["inserts"]
            key = self._no_table.key
            if not key:
                raise UsageError("name the key of the table, which identifies the row of each change")
            space = build_space(from_frame(first))
            empty = first.schema.empty_table()
            self._use(Evolver(empty, key, space=space, state=self._folder, **self._options))
        assert self._evolver is not None
        return self._evolver.apply(**tables, batch_id=batch_id)

    def _use(self, evolver: Evolver) -> None:
        if not evolver.key:
            evolver.close()
            raise UsageError(
                "the rows of this state have no key, so changes cannot be matched to them; start another state"
            )
        self._evolver = evolver
        self._output = Output(self._folder / "output", self._journal.history)
        evolver.log.publisher = self._publish

    def _publish(self, seq: int, change: RuleChange) -> None:
        added = [{"rule": render(rule)} for rule in change.added]
        removed = [
            {"rule": render(gone.rule), "left": _shown(gone.left), "right": _shown(gone.right), "reason": gone.reason}
            for gone in change.removed
        ]
        came, went = (pa.Table.from_pylist(rows, _EVENTS) for rows in (added, removed))
        self._output.prepare(seq, Events(came, went, change.batch_id), self._rejected)


def _shown(key: Any) -> str | None:
    return None if key is None else json.dumps(key, default=str, ensure_ascii=False)


def _sentences(change: RuleChange, limit: int) -> list[str]:
    # A rule is removed because two rows break it, or because a stronger rule holds.
    words = {True: "no longer holds", False: "no longer minimal"}
    said = [
        f"{words[gone.pair is not None]}: {render(gone.rule, short=True)}; {gone.reason}"
        for gone in change.removed[:limit]
    ]
    return said + [f"holds now: {render(rule, short=True)}" for rule in change.added[: limit - len(said)]]
