"""The engine of an evolver in this process: a relation, and the method that keeps its rules current."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray
from naysay.discovery.engine import conclude
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.problem import Problem
from naysay.discovery.result import Discovery, Rules
from naysay.discovery.space import Space, build_space
from naysay.errors import UsageError
from naysay.evolve.change import PreparedBatch
from naysay.evolve.durable import (
    LOCAL,
    arrays_from_parts,
    arrays_to_parts,
    fields_from_bytes,
    fields_to_bytes,
    from_bytes,
    to_bytes,
    to_json,
)
from naysay.evolve.method import EvolveSettings, Method, MethodStep, fold_arrays, make_method
from naysay.evolve.relation import Relation, RelationChange
from naysay.live.journal.journal import BatchLog
from naysay.live.journal.serial import (
    change_from_parts,
    change_to_parts,
    rows_to_parts,
    schema_from_bytes,
    schema_to_bytes,
)
from naysay.live.layout import ROW, Layout, layout_of
from naysay.plan.cost import process_bytes, still_to_load
from naysay.table import Table, from_frame
from naysay.table.frame import to_arrow

if TYPE_CHECKING:
    from naysay.live.journal.journal import Event, Payload


class LocalEvolveEngine:
    """See `evolver.EvolveEngine`."""

    what = LOCAL

    def __init__(self, relation: Relation, method: Method, settings: EvolveSettings) -> None:
        self.relation = relation
        self.method = method
        self.settings = settings
        # What the state has of these; a batch that changes them keeps them again.
        self._kept_fields, self._kept_schema = relation.fields, relation.layout.schema

    @classmethod
    def start(
        cls, table: pa.Table, settings: EvolveSettings, space: Space | None, *, may_change: bool
    ) -> LocalEvolveEngine:
        """Find the rules of a table, in a given space or in the one that was asked for."""
        request = settings.request
        space = space or build_space(from_frame(table), request.columns, request.scope)
        _require_memory(settings, space, table.num_rows)
        table = table if settings.key else number_rows(table, 0)
        relation = Relation(layout_of(table, settings.columns), space, request.nulls, table)
        method = make_method(relation, settings, may_change=may_change)
        return cls(relation, method, replace(settings, method=method.name))

    @classmethod
    def restore(cls, events: Sequence[Event], settings: EvolveSettings, space: Space) -> LocalEvolveEngine:
        """Continue with the last snapshot and the batches since then."""
        first, nulls = events[0].parts, settings.request.nulls
        schema = schema_from_bytes(first["schema"])
        rows = change_from_parts(first, schema, settings.columns).get("inserts", schema.empty_table())
        fields = fields_from_bytes(first["fields"], space, nulls)
        layout = Layout(schema, settings.columns)
        relation = Relation(layout, space, nulls, rows, from_bytes(first["serials"]), fields)
        relation.next_serial = json.loads(first["next"])
        for event in events[1:]:
            if "schema" in event.parts:
                relation.retype(Layout(schema_from_bytes(event.parts["schema"]), settings.columns))
            if "fields" in event.parts:
                fields = fields_from_bytes(event.parts["fields"], space, nulls)
            tables = change_from_parts(event.parts, relation.layout.schema, settings.columns)
            relation.commit(relation.prepare(**tables))
        relation.use(fields)
        changes = [arrays_from_parts("change", event.parts) for event in events[1:]]
        kept = fold_arrays(arrays_from_parts("whole", first), changes)
        return cls(relation, make_method(relation, settings, kept), settings)

    @property
    def rules(self) -> Rules:
        return self.method.rules

    @property
    def n_rows(self) -> int:
        return self.relation.n_rows

    @property
    def space(self) -> Space:
        return self.relation.space

    @property
    def layout(self) -> Layout:
        return self.relation.layout

    def prepare(self, inserts: Any, updates: Any, deletes: Any) -> PreparedBatch:
        relation = self.relation
        if not self.settings.key:
            if updates is not None:
                raise UsageError("updates need a key; without one, delete rows by their number and insert new ones")
            inserts = None if inserts is None else number_rows(to_arrow(inserts), relation.next_serial)
        layout, tables = relation.layout.conform_change(inserts, updates, deletes)
        relation.retype(layout)
        n_changed = sum(table.num_rows for table in tables.values())
        # The selective method copies all rows to prove rules on them.
        n_rows = n_changed + (relation.n_rows if self.method.name == "selective" else 0)
        _require_memory(self.settings, self.space, n_rows)
        batch = relation.prepare(**tables)
        step = self.method.advance(batch)
        return PreparedBatch(
            batch.n_after,
            step,
            partial(relation.find, batch=batch),
            partial(self._batch_parts, tables, step),
            partial(self._commit, batch, step),
        )

    def _commit(self, batch: RelationChange, step: MethodStep[Any]) -> None:
        self.relation.commit(batch)
        self.method.adopt(step)

    def contains(self, keys: Any) -> BoolArray:
        return self.relation.contains(self.layout.conform_keys(keys, "keys"))

    def rows(self) -> pa.Table:
        table = self.relation.rows()[1]
        return table if self.settings.key else table.drop_columns([ROW])

    def discovery(self) -> Discovery:
        """What `discover` would return for the current rows. O(n) for the rows, plus the ranking."""
        request = self.settings.request
        budget = request.budget()
        with budget.phase("encode"):
            outcomes = outcomes_of(Table(self.relation.rows()[1]), self.space, request.nulls)
        problem = Problem.of(self.space, outcomes, request, budget)
        return conclude(problem, self.method.answer(), self.method.name)

    def whole_parts(self) -> Payload:
        """Everything, as the first event and snapshots hold it."""
        relation = self.relation
        serials, rows = relation.rows()
        self._kept_fields, self._kept_schema = relation.fields, rows.schema
        parts = {
            "schema": schema_to_bytes(rows.schema),
            "fields": fields_to_bytes(relation.fields),
            "serials": to_bytes(serials),
            "next": to_json(relation.next_serial),
        }
        return {**parts, **rows_to_parts("rows", rows, "zstd"), **arrays_to_parts("whole", self.method.arrays())}

    def _batch_parts(self, tables: dict[str, pa.Table], step: MethodStep[Any]) -> Payload:
        parts = {**change_to_parts(tables), **arrays_to_parts("change", step.changed_arrays())}
        fields, schema = self.relation.fields, self.layout.schema
        if fields is not self._kept_fields:
            parts["fields"] = fields_to_bytes(fields)
        if schema != self._kept_schema:
            parts["schema"] = schema_to_bytes(schema)
        self._kept_fields, self._kept_schema = fields, schema
        return parts

    def fold(self, log: BatchLog) -> None:
        log.snapshot(self.n_rows, self.whole_parts)


def _require_memory(settings: EvolveSettings, space: Space, n_rows: int) -> None:
    """Refuse work on this many rows that would not fit in the memory left."""
    memory = settings.request.memory
    if memory is not None:
        settings.request.require_memory(space, n_rows, memory - process_bytes() - still_to_load())


def number_rows(table: pa.Table, first: int) -> pa.Table:
    """The frame with the numbers of its rows as a column."""
    if ROW in table.column_names:
        raise UsageError(f"the column name {ROW!r} is reserved for row numbers; rename the column, or name a key")
    return table.append_column(ROW, pa.array(np.arange(first, first + table.num_rows), pa.int64()))
