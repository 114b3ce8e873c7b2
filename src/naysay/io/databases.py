"""Tables in DuckDB and SQLite files. Files are opened read-only."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from naysay.arrays import FLOAT_EXACT
from naysay.errors import TableError
from naysay.rule.scan import nearest_name

_MOST_LISTED = 20
_BATCH_ROWS = 65_536
SelectColumns = Callable[[list[str]], list[int]]


def read_database(path: str, format: str, table: str | None, select: SelectColumns | None) -> pa.Table:
    """Read a table, or a view, of a DuckDB or SQLite file; the only one if none is named.

    `select` gets the names of its columns and returns the positions of those to read.
    """
    if os.path.getsize(path) == 0:
        raise TableError(f"{path}: the file is empty")
    return (_read_duckdb if format == "duckdb" else _read_sqlite)(path, table, select)


def _choose(path: str, wanted: str | None, tables: Sequence[str]) -> str:
    listed = ", ".join(tables[:_MOST_LISTED]) + (", …" if len(tables) > _MOST_LISTED else "")
    if not tables:
        raise TableError(f"{path}: the database has no tables")
    if wanted is None:
        if len(tables) == 1:
            return tables[0]
        raise TableError(f"{path} has {len(tables)} tables; name one with --table (table=): {listed}")
    found = [name for name in tables if name == wanted] or [name for name in tables if name.lower() == wanted.lower()]
    # `orders` is enough for `sales.orders` if there is only one.
    found = found or [name for name in tables if name.rpartition(".")[2].lower() == wanted.lower()]
    if len(found) == 1:
        return found[0]
    if found:
        raise TableError(f"{path} has {len(found)} tables named {wanted!r}; name one of them: {', '.join(found)}")
    meant = nearest_name(wanted, list(tables))
    raise TableError(
        f"{path} has no table {wanted!r}; " + (f"did you mean {meant!r}?" if meant else f"it has {listed}")
    )


def with_names(statement: str, *names: str | Sequence[str]) -> str:
    """A statement with quoted names in its placeholders, several in one separated by commas. Values are parameters.

    >>> with_names("SELECT {} FROM {}", ["a", "b"], 'x"y')
    'SELECT "a", "b" FROM "x""y"'
    """
    listed = ([name] if isinstance(name, str) else name for name in names)
    return statement.format(*(", ".join('"' + name.replace('"', '""') + '"' for name in each) for each in listed))


def _names(cursor: Any) -> list[str]:
    return [entry[0] for entry in cursor.description]


def _read_duckdb(path: str, wanted: str | None, select: SelectColumns | None) -> pa.Table:
    import duckdb

    try:
        # A view may read other files; opening a database must not.
        connection = duckdb.connect(path, read_only=True, config={"enable_external_access": "false"})
    except duckdb.Error as error:
        raise TableError(f"cannot open {path} as a DuckDB file: {_first_line(error)}") from error
    with closing(connection):
        try:
            connection.execute("SET TimeZone = 'UTC'")
            rows = connection.execute(
                "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal UNION ALL "
                "SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL"
            ).fetchall()
            known = {(name if schema == "main" else f"{schema}.{name}"): (schema, name) for schema, name in rows}
            place = known[_choose(path, wanted, list(known))]
            names = _names(connection.execute(with_names("SELECT * FROM {}.{} LIMIT 0", *place)))
            places = list(range(len(names))) if select is None else select(names)
            # Without any column there is still a number of rows.
            chosen = [names[place] for place in places] or names[:1]
            found: pa.Table = connection.sql(with_names("SELECT {} FROM {}.{}", chosen, *place)).to_arrow_table()
        except duckdb.Error as error:
            raise TableError(f"cannot read {path}: {_first_line(error)}") from error
    return found if places else found.select([])


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _read_sqlite(path: str, wanted: str | None, select: SelectColumns | None) -> pa.Table:
    with _sqlite(path) as connection:
        rows = connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite^_%' ESCAPE '^' "
            "ORDER BY name"
        )
        table = _choose(path, wanted, [name for (name,) in rows])
        names = _names(connection.execute(with_names("SELECT * FROM {} LIMIT 0", table)))
        places = list(range(len(names))) if select is None else select(names)
        chosen = [names[place] for place in places]
        schema = pa.schema([(name, _sqlite_type(connection, path, table, name)) for name in chosen])
        if not chosen:
            (n_rows,) = connection.execute(with_names("SELECT count(*) FROM {}", table)).fetchone()
            return pa.table({"": pa.nulls(n_rows)}).select([])
        cursor = connection.execute(with_names("SELECT {} FROM {}", chosen, table))
        batches = []
        while part := cursor.fetchmany(_BATCH_ROWS):
            columns = zip(zip(*part, strict=True), schema.types, strict=True)
            batches.append(pa.record_batch([pa.array(_as(values, type_), type_) for values, type_ in columns], schema))
    return pa.Table.from_batches(batches, schema)


@contextmanager
def _sqlite(path: str) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as connection:
            yield connection
    except (sqlite3.Error, UnicodeError) as error:
        raise TableError(f"cannot read {path} as a SQLite file: {_first_line(error)}") from error


def _sqlite_type(connection: sqlite3.Connection, path: str, table: str, name: str) -> pa.DataType:
    """The type of a column by the values in it: SQLite does not hold them to the type of the column."""
    found = connection.execute(with_names("SELECT DISTINCT typeof({}) FROM {}", name, table))
    kinds = {kind for (kind,) in found} - {"null"}
    if not kinds:
        return pa.null()
    if kinds == {"blob"}:
        return pa.binary()
    if "blob" in kinds:
        raise TableError(
            f"{path}: column {name!r} of {table!r} mixes blobs with {' and '.join(sorted(kinds - {'blob'}))}"
        )
    if "text" in kinds:
        return pa.string()
    if kinds == {"integer"}:
        return pa.int64()
    beyond = connection.execute(
        with_names(
            "SELECT {} FROM {} WHERE typeof({}) = 'integer' AND NOT {} BETWEEN ? AND ? LIMIT 1", name, table, name, name
        ),
        (-FLOAT_EXACT, FLOAT_EXACT),
    ).fetchone()
    if beyond is not None:
        raise TableError(
            f"{path}: column {name!r} of {table!r} mixes fractions with {beyond[0]}, which a 64-bit float cannot hold; "
            "store the column as text"
        )
    return pa.float64()


def _as(values: tuple[Any, ...], type_: pa.DataType) -> list[Any]:
    """Values for a column of a type: numbers among text become text, whole numbers among fractions become fractions."""
    if type_ == pa.string():
        return [value if value is None or isinstance(value, str) else str(value) for value in values]
    if type_ == pa.float64():
        return [None if value is None else float(value) for value in values]
    return list(values)
