"""An evolver on Spark: the rows lie in Parquet files, those that come and go are sent to every task, and each task
compares them with the rows of its partition. Evidence is added up, and covers are brought up to date, on the driver.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from naysay.arrays import Int64Array, UInt64Array
from naysay.budget import Budget
from naysay.detect.spark.engine import check
from naysay.discovery.cover import allowed_pairs
from naysay.discovery.evidence import Evidence
from naysay.discovery.fields import Fields
from naysay.discovery.result import Rules
from naysay.discovery.space import Scope, Space, scope_of
from naysay.discovery.spark.engine import BLOCKS, distinct_rows, evidence_of_pairs, fields_from, profile_of
from naysay.discovery.spark.space import space_of
from naysay.discovery.vertices import to_int
from naysay.errors import StateError, UsageError
from naysay.evolve.change import NO_REMOVALS, Change, change_between, no_rules
from naysay.evolve.counted import (
    Arrays,
    Counted,
    Limits,
    change_arrays,
    changed,
    covered,
    evidence_after,
    kept_after,
    of_evidence,
    shown_rules,
    whole_arrays,
)
from naysay.evolve.delta import NOBODY, Seen, evidence_of, together, turned
from naysay.evolve.durable import from_bytes, store_at, to_bytes
from naysay.evolve.method import CountedStep, Settings, fields_from_json, fields_to_json, space_from_json, space_to_json
from naysay.evolve.relation import Batch, Relation
from naysay.evolve.spark.rows import ParquetRows
from naysay.evolve.spark.worker import SERIAL, Delta, evidence_of_delta, schema_of, seen_in
from naysay.live.journal.serial import schema_from_bytes, schema_to_bytes
from naysay.live.journal.store import Store
from naysay.live.layout import Layout, layout_of
from naysay.rule.model import Nulls
from naysay.spark.frame import Frame, map_in_arrow, position
from naysay.spark.session import errors_of_tasks
from naysay.table.frame import to_arrow

_WHAT = "evolve on Spark"
# So many files of rows, or as many rows that went as stand, and the rows are written down anew.
_MANY_PARTS = 32


@dataclass(frozen=True)
class Standing:
    """Everything that an evolver knows between two batches."""

    rows: ParquetRows
    fields: Fields
    counted: Counted
    n_nulls: Mapping[str, int]
    n_rows: int
    next_serial: int

    @property
    def with_null(self) -> frozenset[str]:
        return frozenset(name for name, count in self.n_nulls.items() if count)


class SparkEvolver:
    """As `naysay.Evolver`, for a table that lies on Spark; always by the evidence of all pairs, always with a state.

    `state` is a folder that the driver and all tasks see. `key` names the columns that identify a row.
    """

    @errors_of_tasks()
    def __init__(
        self,
        data: DataFrame,
        key: str | Sequence[str],
        *,
        state: str | os.PathLike[str],
        error: float = 0.0,
        nulls: str | Nulls = Nulls.SQL,
        columns: Sequence[str] | None = None,
        space: str | Scope = "naysay",
        max_predicates: int | None = None,
    ) -> None:
        frame = Frame.of(data)
        names = (key,) if isinstance(key, str) else tuple(key)
        if not names:
            raise UsageError("on Spark an evolver needs a key: rows have no numbers there")
        self._settings = Settings(names, float(error), Nulls(nulls), max_predicates)
        layout = layout_of(frame.arrow_schema.empty_table(), names)
        built = space_of(frame, columns, scope_of(space, cross=True))
        self._store = store_at(state, make=True)
        try:
            if not self._store.is_new:
                raise UsageError(f"{self._store.path}: there is a state already; open it, or name another place")
            rows = ParquetRows.begin(frame, self._store.path.parent, layout)
            self._use(self._begun(rows, built))
            about = {"what": _WHAT, "settings": self._settings.to_json(), "space": space_to_json(built)}
            self._store.create(about, self._whole())
        except BaseException:
            self._store.close()
            raise

    @classmethod
    def open(cls, session: SparkSession, state: str | os.PathLike[str]) -> SparkEvolver:
        """Go on from a state that another one left."""
        self = cls.__new__(cls)
        self._store = store_at(state, make=False)
        try:
            self._use(self._restored(session))
        except BaseException:
            self._store.close()
            raise
        return self

    @property
    def rules(self) -> Rules:
        """Every minimal rule that holds now, short ones first."""
        return self._rules

    @property
    def n_rows(self) -> int:
        return self._now.n_rows

    @property
    def space(self) -> Space:
        return self._now.fields.space

    def rows(self) -> DataFrame:
        """The rows that stand."""
        return self._now.rows.named().drop(SERIAL)

    @errors_of_tasks()
    def apply(
        self, inserts: Any = None, updates: Any = None, deletes: Any = None, batch_id: str | None = None
    ) -> Change:
        """As `naysay.Evolver.apply`; frames may be Spark's too."""
        if batch_id is not None and batch_id in self._store.batch_ids:
            return Change(no_rules(self.rules), NO_REMOVALS, self.n_rows, len(self.rules), batch_id, repeated=True)
        before, now = self.rules, self._now
        relation, batch = self._prepare(inserts, updates, deletes)
        after, step = self._advanced(relation, batch)
        fields = None if after.fields is now.fields else after.fields
        self._store.append("rows", self._change_parts(after, step, fields), batch_id)
        self._use(after)
        self._sweep()
        return change_between(before, step, self._find, self.n_rows, batch_id)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> SparkEvolver:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _use(self, now: Standing) -> None:
        self._now = now
        self._rules = self._shown(now.counted, now.fields)

    def _shown(self, counted: Counted, fields: Fields) -> Rules:
        return shown_rules(counted, fields, self._settings.max_predicates, self._settings.error)

    def _limits(self, n_rows: int) -> Limits:
        most = allowed_pairs(self._settings.error, n_rows * (n_rows - 1))
        return Limits(most, self._settings.max_predicates, os.cpu_count() or 1)

    def _begun(self, rows: ParquetRows, space: Space) -> Standing:
        """Compare all pairs of the first rows, in the tasks of a discovery."""
        named = Frame.of(rows.named().drop(SERIAL))
        counts = [
            F.sum(F.col(position(named.place(name))).isNull().cast("int")).alias(f"n{place}")
            for place, name in enumerate(space.names)
        ]
        found = named.data.agg(F.count(F.lit(1)).alias("rows"), *counts).collect()[0]
        last = rows.all().agg(F.max(SERIAL).alias(SERIAL)).collect()[0][SERIAL]
        n_nulls = {name: int(found[f"n{place}"] or 0) for place, name in enumerate(space.names)}
        distinct = distinct_rows(named, space).persist()
        try:
            profile = profile_of(distinct, space, Budget())
            fields = fields_from(distinct, space, self._settings.nulls, profile)
            evidence: Evidence | None = _no_evidence(fields)
            if profile.n_rows > 1:
                evidence = evidence_of_pairs(distinct, fields, profile, BLOCKS, Budget())
        finally:
            distinct.unpersist()
        assert evidence is not None, "a clock without an end stopped"
        with_null = frozenset(name for name, count in n_nulls.items() if count)
        n_rows = int(found["rows"])
        counted = covered(evidence, fields, fields.now(with_null), self._limits(n_rows))
        return Standing(rows, fields, counted, n_nulls, n_rows, 0 if last is None else int(last) + 1)

    def _prepare(self, inserts: Any, updates: Any, deletes: Any) -> tuple[Relation, Batch]:
        """A change, checked against the rows that have the keys which it names: those alone are fetched."""
        now = self._now
        layout = now.rows.layout
        frames = {"inserts": inserts, "updates": updates}
        tables = {
            what: layout.conform(_arrow(frame, layout), what) for what, frame in frames.items() if frame is not None
        }
        if deletes is not None:
            tables["deletes"] = layout.conform_keys(_arrow(deletes, layout), "deletes")
        keys = [table.select(list(layout.key)) for table in tables.values()]
        serials, rows = now.rows.with_keys(pa.concat_tables(keys) if keys else pa.table({}))
        relation = Relation(layout, self.space, self._settings.nulls, rows, serials, now.fields)
        relation.next_serial = now.next_serial
        batch = relation.prepare(tables.get("inserts"), tables.get("updates"), tables.get("deletes"))
        assert not batch.stay.n_rows, "every row that was fetched goes"
        return relation, batch

    def _advanced(self, relation: Relation, batch: Batch) -> tuple[Standing, CountedStep]:
        now, fields = self._now, relation.fields
        gone_rows = relation.find(batch.gone.serials)[1]
        n_nulls = {
            name: count + batch.edit.rows.column(name).null_count - gone_rows.column(name).null_count
            for name, count in now.n_nulls.items()
        }
        gone, came = self._evidence(batch, gone_rows, fields)
        n_after = now.n_rows - batch.gone.n_rows + batch.fresh.n_rows
        shape = fields.now(frozenset(name for name, count in n_nulls.items() if count))
        evidence = evidence_after(now.counted, fields.layout, gone, came)
        counted, came = changed(now.counted, evidence, came, fields, shape, n_after, self._limits(n_after))
        rows = now.rows.written(batch.edit.rows, batch.fresh.serials, batch.gone.serials)
        after = Standing(rows, fields, counted, n_nulls, n_after, now.next_serial + batch.fresh.n_rows)

        def find(covers: UInt64Array) -> tuple[Int64Array, Int64Array]:
            rules = [counted.vertices.rule(to_int(cover)) for cover in covers]
            report = check(rows.named(), rules, key=(SERIAL,), nulls=self._settings.nulls, quick=True)
            samples = [next(iter(result.sample), None) for result in report]
            left = [NOBODY if pair is None else int(pair.left[SERIAL]) for pair in samples]
            right = [NOBODY if pair is None else int((pair.right or pair.left)[SERIAL]) for pair in samples]
            return np.array(left, np.int64), np.array(right, np.int64)

        return after, CountedStep(self._shown(counted, fields), now.counted, counted, came, find)

    def _evidence(self, batch: Batch, gone_rows: pa.Table, fields: Fields) -> tuple[Seen, Seen]:
        """The pairs that go and come: with the rows that stay in tasks, with each other here."""
        now, layout = self._now, fields.layout
        within = evidence_of(batch, layout)
        names = list(self.space.names)
        if not batch.gone.n_rows + batch.fresh.n_rows:
            return within
        dead = np.concatenate([now.rows.dead, batch.gone.serials])
        delta = Delta.of(gone_rows.select(names), batch.edit.rows.select(names), dead)
        columns = [position(now.rows.layout.names.index(name)) for name in names]
        rows = now.rows.all().select(*columns, SERIAL)
        found = map_in_arrow(rows, evidence_of_delta(fields, delta), schema_of(layout)).toArrow()
        serials = np.concatenate([batch.gone.serials, batch.fresh.serials])
        across = [seen_in(found, number, serials, layout) for number in (0, 1)]
        gone, came = (
            together([inside, half, turned(half, layout)], layout) for inside, half in zip(within, across, strict=True)
        )
        return gone, came

    def _find(self, serials: Int64Array) -> tuple[pa.Array, pa.Table]:
        rows, key = self._now.rows.with_serials(serials), self._settings.key
        columns = [rows.column(name).combine_chunks() for name in key]
        keys = columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, names=list(key))
        return keys, rows.select(list(self.space.names))

    def _sweep(self) -> None:
        """Write the rows down anew where they lie in many parts, or many of them are gone."""
        now = self._now
        if len(now.rows.parts) <= _MANY_PARTS and now.rows.dead.size <= max(1000, now.n_rows):
            return
        before = now.rows.parts
        self._now = replace(now, rows=now.rows.gathered())
        self._store.snapshot(self._whole())
        now.rows.remove(before)

    def _whole(self) -> dict[str, bytes]:
        now = self._now
        arrays = {f"whole {name}": to_bytes(array) for name, array in whole_arrays(now.counted).items()}
        return {
            "schema": schema_to_bytes(now.rows.layout.schema),
            "dead": to_bytes(now.rows.dead),
            "table": _table_json(now),
            "fields": json.dumps(fields_to_json(now.fields)).encode(),
            **arrays,
        }

    def _change_parts(self, after: Standing, step: CountedStep, fields: Fields | None) -> dict[str, bytes]:
        arrays = change_arrays(step.before, step.counted)
        parts = {f"change {name}": to_bytes(array) for name, array in arrays.items()}
        parts |= {"table": _table_json(after), "dead": to_bytes(after.rows.dead)}
        return parts if fields is None else {**parts, "fields": json.dumps(fields_to_json(fields)).encode()}

    def _restored(self, session: SparkSession) -> Standing:
        store = self._store
        if store.is_new:
            raise StateError(f"{store.path}: there is no state of an evolver here")
        events = list(store.load())
        if store.settings.get("what") != _WHAT:
            raise StateError(f"{store.path}: this is a store of naysay, but not of an evolver on Spark")
        try:
            self._settings = Settings.from_json(store.settings["settings"])
            space = space_from_json(store.settings["space"])
            parts: dict[str, bytes] = {}
            changes: list[Arrays] = []
            for event in events:
                parts |= event.parts
                if event is not events[0]:
                    changes.append(_arrays(event.parts, "change "))
            return self._replayed(session, store, parts, _arrays(events[0].parts, "whole "), changes, space)
        except (KeyError, ValueError, TypeError, AssertionError, pa.ArrowException) as error:
            raise StateError(f"{store.path}: the state cannot be read back: {error}") from error

    def _replayed(
        self,
        session: SparkSession,
        store: Store,
        parts: Mapping[str, bytes],
        whole: Arrays,
        changes: Sequence[Arrays],
        space: Space,
    ) -> Standing:
        table = json.loads(parts["table"])
        layout = Layout(schema_from_bytes(parts["schema"]), self._settings.key)
        rows = ParquetRows(session, store.path.parent, layout, tuple(table["parts"]), from_bytes(parts["dead"]))
        fields = fields_from_json(json.loads(parts["fields"]), space, self._settings.nulls)
        evidence, covers = kept_after(whole, changes)
        with_null = frozenset(name for name, count in table["nulls"].items() if count)
        most = allowed_pairs(self._settings.error, evidence.n_pairs)
        counted = of_evidence(evidence, covers, fields, with_null, table["rows"], most)
        return Standing(rows, fields, counted, table["nulls"], table["rows"], table["next"])


def _arrow(frame: Any, layout: Layout) -> Any:
    """A frame as Arrow; of Spark's the instants as the table has them. What is no frame stays what it is."""
    if isinstance(frame, (list, tuple, pa.Array, pa.ChunkedArray, np.ndarray)):
        return frame
    if not hasattr(frame, "toArrow"):
        return to_arrow(frame)
    table = frame.toArrow()
    for place, field in enumerate(table.schema):
        if field.name in layout.names and pa.types.is_timestamp(field.type) and field.type.tz is not None:
            wanted = layout.schema.field(field.name)
            table = table.set_column(place, wanted, table.column(place).cast(wanted.type))
    return table


def _table_json(now: Standing) -> bytes:
    return json.dumps(
        {"parts": now.rows.parts, "nulls": dict(now.n_nulls), "rows": now.n_rows, "next": now.next_serial}
    ).encode()


def _arrays(parts: Mapping[str, bytes], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): from_bytes(data) for name, data in parts.items() if name.startswith(prefix)}


def _no_evidence(fields: Fields) -> Evidence:
    return Evidence(np.empty((0, fields.layout.n_words), np.int32), np.empty(0, np.int64))
