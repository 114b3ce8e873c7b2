"""The engine of an evolver on Spark: its rows are Parquet files, and always all pairs are compared.

The rows of a batch are sent to every task, which compares them with the rows of its partition. The driver adds up the
evidence and brings the covers up to date.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.arrays import BoolArray, Int64Array, UInt64Array
from naysay.budget import Budget
from naysay.detect.request import CheckOptions
from naysay.detect.spark.engine import SparkEngine
from naysay.discovery.engine import conclude
from naysay.discovery.evidence import Evidence
from naysay.discovery.fields import Fields
from naysay.discovery.problem import Answer, Problem
from naysay.discovery.result import Discovery, Rules
from naysay.discovery.space import Space
from naysay.discovery.spark.engine import (
    BLOCKS,
    _ranker,
    _without_rows,
    distinct_rows,
    evidence_of_pairs,
    fields_from,
    profile_of,
    space_of,
)
from naysay.discovery.vertices import to_int
from naysay.errors import StateError, TableError, UsageError
from naysay.evolve.change import PreparedBatch
from naysay.evolve.counted import CountedEvidence, make_step, require_pairs
from naysay.evolve.delta import NO_ROW, PairEvidence, compare_change, merge_evidence
from naysay.evolve.durable import (
    ON_SPARK,
    arrays_from_parts,
    arrays_to_parts,
    fields_from_bytes,
    fields_to_bytes,
    from_bytes,
    to_bytes,
    to_json,
)
from naysay.evolve.method import EvolveSettings, fold_arrays
from naysay.evolve.relation import Relation, RelationChange, one_column
from naysay.evolve.spark.worker import SERIAL, ChangedRows, compare_partition, read_evidence, schema_of
from naysay.live.journal.journal import BatchLog, Event, Payload
from naysay.live.journal.serial import schema_from_bytes, schema_to_bytes
from naysay.live.layout import Layout, layout_of
from naysay.spark.frame import Frame, from_arrow, map_in_arrow, position, spark_type
from naysay.spark.session import errors_of_tasks
from naysay.spark.versions import running_session
from naysay.spark.versions import to_arrow as fetch
from naysay.table.frame import to_arrow


@dataclass(frozen=True)
class ParquetRows:
    """Columns by position, and a serial number that no two rows ever share. `dead` are the numbers of deleted rows.

    A file that the state does not name is ignored: so a part is written first, and named by the state afterwards.
    """

    session: SparkSession
    folder: Path
    layout: Layout
    parts: tuple[str, ...]
    dead: Int64Array

    @classmethod
    def begin(cls, frame: Frame, folder: Path, layout: Layout) -> ParquetRows:
        """Write the first rows."""
        rows = cls(frame.data.sparkSession, folder, layout, ("part-000000",), np.empty(0, np.int64))
        names = [position(place) for place in range(len(frame.names))]
        numbered = frame.data.select(*names, F.monotonically_increasing_id().alias(SERIAL))
        numbered.write.mode("overwrite").parquet(str(folder / rows.parts[0]))
        return rows

    def all(self) -> DataFrame:
        """All rows in the files, deleted ones too, with their serial numbers."""
        paths = [self.folder / part for part in self.parts]
        missing = [path for path in paths if not path.exists()]
        if missing:
            raise StateError(f"{missing[0]}: this part of the state is missing")
        fields = [
            T.StructField(position(place), spark_type(field.type)) for place, field in enumerate(self._plain_schema)
        ]
        schema = T.StructType([*fields, T.StructField(SERIAL, T.LongType())])
        return self.session.read.schema(schema).parquet(*map(str, paths))

    def current(self) -> DataFrame:
        """The rows that were not deleted."""
        rows = self.all()
        if not self.dead.size:
            return rows
        gone = from_arrow(self.session, pa.table({SERIAL: self.dead}))
        return rows.join(F.broadcast(gone), SERIAL, "left_anti")

    def named(self) -> DataFrame:
        """The current rows under their own column names."""
        return self.current().select(
            *(F.col(position(place)).alias(name) for place, name in enumerate(self.layout.names)), SERIAL
        )

    def with_keys(self, keys: pa.Table) -> tuple[Int64Array, pa.Table]:
        """The rows that have one of these keys, with columns as in the layout: their serial numbers, and the rows."""
        if not keys.num_rows:
            return np.empty(0, np.int64), self.layout.schema.empty_table()
        wanted = [f"k{place}" for place in range(keys.num_columns)]
        distinct = keys.rename_columns(wanted).group_by(wanted).aggregate([])
        types = [spark_type(_plain(field.type)) for field in keys.schema]
        schema = T.StructType([T.StructField(name, type_) for name, type_ in zip(wanted, types, strict=True)])
        asked = from_arrow(self.session, distinct.select(wanted).cast(_plain_of(distinct.schema)), schema)
        rows = self.current()
        columns = [position(self.layout.names.index(name)) for name in self.layout.key]
        equal = [F.col(one) == F.col(other) for one, other in zip(columns, wanted, strict=True)]
        return self._collect(rows.join(F.broadcast(asked), equal, "inner").select(*rows.columns))

    def with_serials(self, serials: Int64Array) -> pa.Table:
        """The rows with these serial numbers, in their order."""
        if not serials.size:
            return self.layout.schema.empty_table()
        found, rows = self._collect(self.all().filter(F.col(SERIAL).isin(serials.tolist())))
        order = np.argsort(found)
        return rows.take(pa.array(order[np.searchsorted(found[order], serials)]))

    def write(self, rows: pa.Table, serials: Int64Array, gone: Int64Array) -> ParquetRows:
        """With some rows added, durable before this returns, and some deleted."""
        dead = np.concatenate([self.dead, gone])
        if not rows.num_rows:
            return replace(self, dead=dead)
        name = f"part-{int(self.parts[-1][5:11]) + 1:06}.parquet"
        table = rows.cast(self._plain_schema).rename_columns([position(k) for k in range(rows.num_columns)])
        table = table.append_column(SERIAL, pa.array(serials))
        draft = self.folder / f".{name}"
        with draft.open("wb") as file:
            pyarrow.parquet.write_table(table, file, coerce_timestamps="us")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.folder / name)
        return replace(self, parts=(*self.parts, name), dead=dead)

    def compact(self) -> ParquetRows:
        """The current rows in one part, which the state does not name yet."""
        name = f"part-{int(self.parts[-1][5:11]) + 1:06}"
        self.current().write.mode("overwrite").parquet(str(self.folder / name))
        return replace(self, parts=(name,), dead=np.empty(0, np.int64))

    def remove(self, parts: Sequence[str]) -> None:
        """Delete parts that the state does not name any more."""
        for part in parts:
            path = self.folder / part
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    @property
    def _plain_schema(self) -> pa.Schema:
        return _plain_of(self.layout.schema)

    def _collect(self, rows: DataFrame) -> tuple[Int64Array, pa.Table]:
        found = fetch(rows)
        serials = found.column(SERIAL).to_numpy().astype(np.int64)
        table = found.drop_columns([SERIAL]).rename_columns(list(self.layout.names)).cast(self.layout.schema)
        return serials, table.combine_chunks()


def _plain_of(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def _plain(type_: pa.DataType) -> pa.DataType:
    """The type in which Spark has such a column."""
    return pa.string() if pa.types.is_large_string(type_) else type_


# With more files than this, or as many deleted rows as current ones, the rows are written again.
_MANY_PARTS = 32


@dataclass(frozen=True)
class SparkRelation:
    """Everything that an evolver knows between two batches."""

    rows: ParquetRows
    fields: Fields
    counted: CountedEvidence
    n_nulls: Mapping[str, int]
    n_rows: int
    next_serial: int

    def to_parts(self) -> dict[str, bytes]:
        table = {"parts": self.rows.parts, "nulls": dict(self.n_nulls), "rows": self.n_rows, "next": self.next_serial}
        return {"table": to_json(table), "dead": to_bytes(self.rows.dead)}


class SparkEvolveEngine:
    """See `evolver.EvolveEngine`."""

    what = ON_SPARK

    def __init__(self, relation: SparkRelation, settings: EvolveSettings) -> None:
        self.settings = settings
        self._use(relation)

    @staticmethod
    @errors_of_tasks()
    def require_rows(data: DataFrame, settings: EvolveSettings) -> None:
        """Refuse rows that a state cannot hold, before anything is written."""
        frame = Frame.of(data)
        layout = layout_of(frame.arrow_schema.empty_table(), settings.key)
        if any(isinstance(type_, T.NullType) for type_ in frame.types):
            raise TableError("a column has no type, which Parquet files need; cast it, or leave it out")
        for name in layout.key:
            if frame.data.filter(F.col(position(frame.place(name))).isNull()).limit(1).count():
                raise TableError(f"the table: the key column {name!r} has a null")
        for name in settings.request.columns or ():
            frame.place(name)
        keys = [position(frame.place(name)) for name in layout.key]
        twice = frame.data.groupBy(*keys).count().filter(F.col("count") > 1).limit(1).collect()
        if twice:
            shown = ", ".join(repr(twice[0][name]) for name in keys)
            raise UsageError(f"the table: duplicate key {shown if len(keys) == 1 else f'({shown})'}")

    @classmethod
    @errors_of_tasks()
    def start(cls, data: DataFrame, settings: EvolveSettings, space: Space | None, folder: Path) -> SparkEvolveEngine:
        """Compare all pairs of the first rows, in the tasks of a discovery."""
        frame = Frame.of(data)
        layout = layout_of(frame.arrow_schema.empty_table(), settings.key)
        space = space or space_of(frame, settings.request.columns, settings.request.scope)
        rows = ParquetRows.begin(frame, folder, layout)
        named = Frame.of(rows.named().drop(SERIAL))
        counts = [
            F.sum(F.col(position(named.place(name))).isNull().cast("int")).alias(f"n{place}")
            for place, name in enumerate(space.names)
        ]
        found = named.data.agg(F.count(F.lit(1)).alias("rows"), *counts).collect()[0]
        last = rows.all().agg(F.max(SERIAL).alias(SERIAL)).collect()[0][SERIAL]
        n_nulls = {name: int(found[f"n{place}"] or 0) for place, name in enumerate(space.names)}
        fields, evidence = _compare_all(named, space, settings)
        counted = CountedEvidence.of(evidence, fields, _shape(fields, n_nulls), settings)
        next_serial = 0 if last is None else int(last) + 1
        return cls(SparkRelation(rows, fields, counted, n_nulls, int(found["rows"]), next_serial), settings)

    @classmethod
    def restore(
        cls, events: Sequence[Event], settings: EvolveSettings, space: Space, folder: Path
    ) -> SparkEvolveEngine:
        """Continue with the last snapshot and the batches since then."""
        session = running_session()
        if session is None:
            raise StateError(f"{folder}: this state is on Spark; start a Spark session first")
        parts: dict[str, bytes] = {}
        for event in events:
            parts |= event.parts
        table = json.loads(parts["table"])
        layout = Layout(schema_from_bytes(parts["schema"]), settings.key)
        rows = ParquetRows(session, folder, layout, tuple(table["parts"]), from_bytes(parts["dead"]))
        fields = fields_from_bytes(parts["fields"], space, settings.request.nulls)
        changes = [arrays_from_parts("change", event.parts) for event in events[1:]]
        kept = fold_arrays(arrays_from_parts("whole", events[0].parts), changes)
        evidence = Evidence(kept["codes"], kept["counts"])
        require_pairs(evidence, table["rows"])
        counted = CountedEvidence.of(evidence, fields, _shape(fields, table["nulls"]), settings, kept["covers"])
        return cls(SparkRelation(rows, fields, counted, table["nulls"], table["rows"], table["next"]), settings)

    def _use(self, relation: SparkRelation) -> None:
        self._relation = relation
        self.rules: Rules = relation.counted.rules(relation.fields, self.settings)

    @property
    def n_rows(self) -> int:
        return self._relation.n_rows

    @property
    def space(self) -> Space:
        return self._relation.fields.space

    @property
    def layout(self) -> Layout:
        return self._relation.rows.layout

    def rows(self) -> DataFrame:
        return self._relation.rows.named().drop(SERIAL)

    @errors_of_tasks()
    def contains(self, keys: Any) -> BoolArray:
        wanted = self.layout.conform_keys(_to_arrow(keys, self.layout), "keys")
        return self._fetch([wanted]).contains(wanted)

    @errors_of_tasks()
    def discovery(self) -> Discovery:
        """What `discover` would return for the current rows; one pass over the rows for the ranking."""
        now, request = self._relation, self.settings.request
        answer = Answer(self.rules.covers, False, now.counted.edges, now.counted.counts)
        frame = Frame.of(self.rows())
        profile = profile_of(distinct_rows(frame, self.space), self.space, Budget())
        no_rows = _without_rows(replace(now.fields, layout=now.counted.shape), self.n_rows)
        problem = Problem.of(self.space, no_rows, request, request.budget())
        ranker = _ranker(answer, problem, frame, profile)
        return replace(conclude(problem, answer, self.settings.method, ranker), engine="spark")

    @errors_of_tasks()
    def prepare(self, inserts: Any, updates: Any, deletes: Any) -> PreparedBatch:
        """Check a batch against the rows that have its keys, which are the only ones fetched; frames may be Spark's."""
        frames = [frame if frame is None else _to_arrow(frame, self.layout) for frame in (inserts, updates, deletes)]
        _, tables = self.layout.conform_change(*frames)
        fetched = self._fetch([table.select(list(self.layout.key)) for table in tables.values()])
        batch = fetched.prepare(**tables)
        assert not batch.stay.n_rows, "every row that was fetched is changed"
        return self._advance(fetched, batch)

    def _fetch(self, keys: Sequence[pa.Table]) -> Relation:
        """The rows with some keys, in memory."""
        now = self._relation
        serials, rows = now.rows.with_keys(pa.concat_tables(keys) if keys else pa.table({}))
        relation = Relation(self.layout, self.space, self.settings.request.nulls, rows, serials, now.fields)
        relation.next_serial = now.next_serial
        return relation

    def _advance(self, fetched: Relation, batch: RelationChange) -> PreparedBatch:
        now, fields, settings = self._relation, fetched.fields, self.settings
        gone_rows = fetched.find(batch.gone.serials)[1]
        n_nulls = {
            name: count + batch.change.rows.column(name).null_count - gone_rows.column(name).null_count
            for name, count in now.n_nulls.items()
        }
        gone, came = self._compare(batch, gone_rows, fields)
        n_after = now.n_rows - batch.gone.n_rows + batch.fresh.n_rows
        evidence = now.counted.evidence_after(fields.layout, gone, came)
        require_pairs(evidence, n_after)
        counted, came = now.counted.advance(evidence, came, fields, _shape(fields, n_nulls), settings)
        rows = now.rows.write(batch.change.rows, batch.fresh.serials, batch.gone.serials)
        after = SparkRelation(rows, fields, counted, n_nulls, n_after, now.next_serial + batch.fresh.n_rows)
        step = make_step(now.counted, counted, came, counted.rules(fields, settings), partial(self._find_pairs, after))

        def parts() -> dict[str, bytes]:
            kept = {**arrays_to_parts("change", step.changed_arrays()), **after.to_parts()}
            return kept if fields is now.fields else {**kept, "fields": fields_to_bytes(fields)}

        return PreparedBatch(n_after, step, partial(self._find_rows, rows), parts, partial(self._use, after))

    @errors_of_tasks()
    def _find_pairs(self, after: SparkRelation, covers: UInt64Array) -> tuple[Int64Array, Int64Array]:
        rules = [after.counted.vertices.rule(to_int(cover)) for cover in covers]
        options = CheckOptions(self.settings.request.nulls, key=(SERIAL,), quick=True)
        report = SparkEngine(after.rows.named()).check(rules, options)
        samples = [next(iter(result.sample), None) for result in report]
        left = [NO_ROW if pair is None else int(pair.left[SERIAL]) for pair in samples]
        right = [NO_ROW if pair is None else int((pair.right or pair.left)[SERIAL]) for pair in samples]
        return np.array(left, np.int64), np.array(right, np.int64)

    def _compare(self, batch: RelationChange, gone_rows: pa.Table, fields: Fields) -> tuple[PairEvidence, PairEvidence]:
        """The pairs that disappear and appear: with other rows in tasks, among each other here."""
        rows, layout = self._relation.rows, fields.layout
        within = compare_change(batch, layout)
        names = list(self.space.names)
        if not batch.gone.n_rows + batch.fresh.n_rows:
            return within
        dead = np.concatenate([rows.dead, batch.gone.serials])
        changed = ChangedRows.of(gone_rows.select(names), batch.change.rows.select(names), dead)
        columns = [position(self.layout.names.index(name)) for name in names]
        work = compare_partition(fields, changed)
        found = fetch(map_in_arrow(rows.all().select(*columns, SERIAL), work, schema_of(layout)))
        serials = np.concatenate([batch.gone.serials, batch.fresh.serials])
        across = (read_evidence(found, number, serials, layout).both_ways(layout) for number in (0, 1))
        gone, came = (merge_evidence(parts) for parts in zip(within, across, strict=True))
        return gone, came

    @errors_of_tasks()
    def _find_rows(self, rows: ParquetRows, serials: Int64Array) -> tuple[pa.Array, pa.Table]:
        table, key = rows.with_serials(serials), self.settings.key
        return one_column(table, list(key)), table.select(list(self.space.names))

    @errors_of_tasks()
    def fold(self, log: BatchLog) -> None:
        """Write the rows again if they lie in many files, or if many of them are deleted."""
        rows = self._relation.rows
        if len(rows.parts) <= _MANY_PARTS and rows.dead.size <= max(1000, self.n_rows):
            return
        assert log.journal is not None
        with log.writing():
            self._relation = replace(self._relation, rows=rows.compact())
            log.journal.snapshot(self.whole_parts())
        rows.remove(rows.parts)

    def whole_parts(self) -> Payload:
        now = self._relation
        return {
            "schema": schema_to_bytes(now.rows.layout.schema),
            "fields": fields_to_bytes(now.fields),
            **now.to_parts(),
            **arrays_to_parts("whole", now.counted.arrays()),
        }


def _compare_all(frame: Frame, space: Space, settings: EvolveSettings) -> tuple[Fields, Evidence]:
    distinct = distinct_rows(frame, space)
    profile = profile_of(distinct, space, Budget())
    fields = fields_from(profile, space, settings.request.nulls)
    evidence: Evidence | None = PairEvidence.empty(fields.layout).evidence
    if profile.n_rows > 1:
        evidence = evidence_of_pairs(distinct, fields, profile, BLOCKS, Budget())
    assert evidence is not None, "a clock without an end stopped"
    return fields, evidence


def _shape(fields: Fields, n_nulls: Mapping[str, int]) -> Any:
    return fields.now(frozenset(name for name, count in n_nulls.items() if count))


def _to_arrow(frame: Any, layout: Layout) -> Any:
    """A frame as Arrow, with the time zones of the layout if it is Spark's; what is not a frame as it is."""
    if isinstance(frame, (list, tuple, pa.Array, pa.ChunkedArray, np.ndarray)):
        return frame
    if not hasattr(frame, "mapInArrow"):
        return to_arrow(frame)
    table = fetch(frame)
    for place, field in enumerate(table.schema):
        if field.name in layout.names and pa.types.is_timestamp(field.type) and field.type.tz is not None:
            wanted = layout.schema.field(field.name)
            table = table.set_column(place, wanted, table.column(place).cast(wanted.type))
    return table
