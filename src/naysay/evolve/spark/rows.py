"""The rows of an evolver on Spark: Parquet files in its folder, minus the rows that were deleted since."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.arrays import Int64Array
from naysay.errors import StateError, TableError, UsageError
from naysay.evolve.spark.worker import SERIAL
from naysay.live.layout import Layout
from naysay.spark.frame import Frame, from_arrow, position, spark_type


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
        if any(isinstance(type_, T.NullType) for type_ in frame.types):
            raise TableError("a column has no type, which Parquet files need; cast it, or leave it out")
        for name in layout.key:
            if frame.data.filter(F.col(position(frame.place(name))).isNull()).limit(1).count():
                raise TableError(f"the table: the key column {name!r} has a null")
        keys = [position(frame.place(name)) for name in layout.key]
        twice = frame.data.groupBy(*keys).count().filter(F.col("count") > 1).limit(1).collect()
        if twice:
            shown = ", ".join(repr(twice[0][name]) for name in keys)
            raise UsageError(f"the table: duplicate key {shown if len(keys) == 1 else f'({shown})'}")
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
        found = rows.toArrow()
        serials = found.column(SERIAL).to_numpy().astype(np.int64)
        table = found.drop_columns([SERIAL]).rename_columns(list(self.layout.names)).cast(self.layout.schema)
        return serials, table.combine_chunks()


def _plain_of(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])


def _plain(type_: pa.DataType) -> pa.DataType:
    """The type in which Spark has such a column."""
    return pa.string() if pa.types.is_large_string(type_) else type_
