"""What Spark reads: notations of CSV files as in-process, formats and tables by name, JDBC, and databases."""

from __future__ import annotations

import gzip
import random
import re
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pytest

import naysay
from naysay.errors import NaysayError, TableError, UsageError
from naysay.io.files import read_table
from naysay.io.notation import Notation, notation
from naysay.spark import read as spark_read
from naysay.spark import session as spark_session

# Columns of two values each, which both readers must take for the same.
COLUMNS = {
    "whole": ("1", "NA"),
    "comma": ("1,5", "-,25"),
    "comma and long": ("9007199254740993,5", "1"),
    "comma and zeros": ("007,5", "1"),
    "grouped": ("1.234,5", "2"),
    "point": ("1.5", "2.5"),
    "exponent": ("1,5e3", "inf"),
    "day": ("31.01.2024", "01.02.2024"),
    "no such day": ("31.02.2024", "01.02.2024"),
    "iso day": ("2024-01-31", "2024-02-01"),
    "iso moment": ("2024-01-31 10:00", "2024-01-31"),
    "moment": ("31.01.2024 10:30", "01.02.2024 23:59"),
    "clock": ("10:30", "09:15:30"),
    "null only": ("NA", "N/A"),
    "quoted null": ('"NA"', '""'),
    "words": ("true", "FALSE"),
    "text": ("x", " NA"),
    "code": ("007", "NA"),
    "declared int": (" 007", "+5"),
    "declared float": ("1", "2,5"),
    "declared decimal": ("1,50", "NA"),
    "declared boolean": ("Yes", "0"),
    "declared date": ("31.01.2024", ""),
    "declared time": ("10:30", "23:59:59"),
    "declared moment": ("31.01.2024 10:30", "NA"),
    "declared text": ("1", "2"),
}
TYPES = {f"declared {name}": name for name in ("int", "float", "boolean", "date", "time", "text")}
GERMAN = notation(
    ["NA", "N/A"],
    {**TYPES, "declared decimal": "decimal(12,2)", "declared moment": "timestamp"},
    True,
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M",
)


def write(path: Path, columns: dict[str, tuple[str, ...]]) -> None:
    lines = [list(columns), *zip(*columns.values(), strict=True)]
    text = "".join(";".join(line) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def texts(frame: Any) -> dict[str, tuple[str, set[str]]]:
    rows = frame.collect()
    return {
        field.name: (field.dataType.simpleString(), {str(row[place]) for row in rows})
        for place, field in enumerate(frame.schema.fields)
    }


def assert_same(spark: Any, tmp_path: Path, columns: dict[str, tuple[str, ...]], spelled: Notation) -> None:
    """Our own reader, whose table Spark gets, and Spark's reader give the same table, or refuse the same value."""
    for name in ("f.csv", "f.csv.gz"):
        write(tmp_path / name, columns)
    found = []
    for name in ("f.csv", "f.csv.gz"):
        try:
            found.append(texts(spark_read.read(spark, str(tmp_path / name), notation=spelled)))
        except TableError as error:
            found.append({"refused": (str(error).partition(" in column ")[2], set())})
    # A column of nulls has no type in one of them.
    for one, other in zip(found[0].items(), found[1].items(), strict=True):
        assert one == other or one[1][1] == other[1][1] == {"None"}, (one, other)


def test_a_notation_means_the_same_as_in_process(spark: Any, tmp_path: Path) -> None:
    assert_same(spark, tmp_path, COLUMNS, GERMAN)
    types = {
        name: kind
        for name, (kind, _) in texts(spark_read.read(spark, str(tmp_path / "f.csv.gz"), notation=GERMAN)).items()
    }
    assert types["day"] == types["declared date"] == "date"
    assert types["moment"] == types["declared moment"] == "timestamp_ntz"
    assert types["declared decimal"] == "decimal(12,2)"
    assert types["iso day"] == types["point"] == types["code"] == "string"


CELLS = {
    "float": ["1,5", "2", "1.5", "NA", "x", ",5", "1e400", "9007199254740993"],
    "int": ["1", "007", "+3", "1,5", "NA", "", "9223372036854775808"],
    "date": ["31.01.2024", "2024-01-31", "NA", "", "1.2.24"],
    "timestamp": ["31.01.2024 10:30", "31.01.2024", "NA"],
    "boolean": ["yes", "N", "true", "maybe", "NA"],
    "decimal(6,2)": ["1,5", "1234,5", "12345,5", "1,555", "NA"],
}


@pytest.mark.parametrize("seed", range(6))
def test_drawn_files_mean_the_same_as_in_process(spark: Any, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    columns = {}
    for type_, cells in CELLS.items():
        for place in range(2):
            few = draw.sample(cells, draw.choice([1, 2, 2]))
            columns[f"{type_} {place}"] = tuple(draw.choice(few) for _ in range(3))
    # Declared types refuse most files, so one column at most has one.
    declared = draw.choice(list(columns))
    types = {} if seed % 2 else {declared: declared.rpartition(" ")[0]}
    assert_same(spark, tmp_path, columns, notation(["NA"], types, True, "%d.%m.%Y", "%d.%m.%Y %H:%M"))


def test_bad_values_and_columns_are_named(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "f.csv.gz", {"a": ("1", "x"), "b": ("1", "2")})
    path = str(tmp_path / "f.csv.gz")
    with pytest.raises(TableError, match=r"f.csv.gz: 'x' in column 'a' is not an int; correct it"):
        spark_read.read(spark, path, notation=notation(types={"a": "int"}))
    with pytest.raises(TableError, match=r"has no column 'c'"):
        spark_read.read(spark, path, notation=notation(types={"c": "int"}))
    spark.createDataFrame([(1, "x")], "a int, b string").write.parquet(str(tmp_path / "p"))
    assert spark_read.read(spark, str(tmp_path / "p"), notation=notation(types={"a": "float"})).count() == 1
    with pytest.raises(TableError, match="column 'b' is string, but its declared type is int"):
        spark_read.read(spark, str(tmp_path / "p"), notation=notation(types={"b": "int"}))
    with pytest.raises(TableError, match=r"--decimal-comma .* applies to CSV files"):
        spark_read.read(spark, str(tmp_path / "p"), notation=notation(decimal_comma=True))
    with pytest.raises(TableError, match=r"--encoding .* applies to CSV and JSON files, not to parquet files"):
        spark_read.read(spark, str(tmp_path / "p"), encoding="latin-1")
    with pytest.raises(TableError, match=r"--delimiter .* applies to CSV files, not to parquet files"):
        spark_read.read(spark, str(tmp_path / "p"), delimiter=";")


class Reader:
    """Stands for Spark's reader, and notes what it is asked for."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked

    def format(self, name: str) -> Reader:
        self.asked["format"] = name
        return self

    def options(self, **options: str) -> Reader:
        self.asked["options"] = options
        return self

    def load(self, path: str | None = None) -> Any:
        self.asked["path"] = path
        return Loaded()


class Loaded:
    schema = "the columns"


class Session:
    version = "4.0.1"

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.read = Reader(self.asked)

    def table(self, name: str) -> str:
        self.asked["table"] = name
        return "the table"


@pytest.mark.parametrize("format", ["delta", "iceberg", "avro", "com.example.source"])
def test_spark_is_asked_for_a_format_by_its_name(format: str) -> None:
    session: Any = Session()
    found = spark_read.read(session, "s3a://shop/orders", format=format, options={"versionAsOf": "3"})
    assert isinstance(found, Loaded)
    assert session.asked == {"format": format, "options": {"versionAsOf": "3"}, "path": "s3a://shop/orders"}


def test_spark_is_asked_for_tables_and_jdbc_sources() -> None:
    session: Any = Session()
    spark_read.read(session, "main.sales.orders", format="table")
    assert session.asked == {"table": "main.sales.orders"}
    session = Session()
    url = "jdbc:postgresql://host/shop"
    spark_read.read(session, url, table="sales.orders", options={"user": "me"})
    options = {"url": url, "dbtable": "sales.orders", "user": "me"}
    assert session.asked == {"format": "jdbc", "options": options, "path": None}
    with pytest.raises(UsageError, match="a JDBC source needs the name of its table: --table TABLE"):
        spark_read.read(session, url)


# What Spark 4 says, as PySpark raises it.
NO_DELTA = (
    "An error occurred while calling o35.load.\n: o.a.s.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] "
    "Failed to find the data source: delta. Make sure the provider name is correct and the package is properly "
    "registered and compatible with your Spark version. SQLSTATE: 42K02\n\tat org.apache.spark.sql.errors"
)
NO_AVRO = (
    "[AVRO_DATA_SOURCE_NOT_ENABLED] Failed to find data source: avro. Avro is built-in but external data source module "
    "since Spark 2.4. Please deploy the application as per the deployment section of Apache Avro Data Source Guide."
)


@pytest.mark.parametrize(
    ("format", "error", "version", "message"),
    [
        ("delta", NO_DELTA, "4.0.1", "add --packages io.delta:delta-spark_2.13:VERSION, in the VERSION for Spark 4.0"),
        ("Delta", NO_DELTA, "3.5.6", "add --packages io.delta:delta-spark_2.12:VERSION, in the VERSION for Spark 3.5"),
        ("avro", NO_AVRO, "4.0.1", "add --packages org.apache.spark:spark-avro_2.13:4.0.1"),
        ("dleta", NO_DELTA, "4.0.1", "check the name, or name its package with --packages GROUP:NAME:VERSION"),
    ],
)
def test_what_spark_says_without_a_package(format: str, error: str, version: str, message: str) -> None:
    def load() -> Any:
        raise RuntimeError(error)

    session: Any = Session()
    session.version = version
    session.read.load = lambda path=None: load()
    with pytest.raises(UsageError) as told:
        spark_read.read(session, "/lake/orders", format=format)
    assert str(told.value).startswith(f"Spark has no format {format!r}")
    assert str(told.value).endswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("o79.load.\n: java.sql.SQLException: No suitable driver", "Spark has no driver for SOURCE; .*--packages"),
        ("o1.load.\n: java.lang.ClassNotFoundException: org.postgresql.Driver", "Spark has no driver for SOURCE"),
        (
            "[FAILED_JDBC.CONNECTION] Failed JDBC jdbc:derby:***(redacted) on",
            "cannot connect to SOURCE; .*--option user",
        ),
        (
            'o2.parquet.\n: UnsupportedFileSystemException: No FileSystem for scheme "s3"',
            "SOURCE: Spark reads S3 as s3a://",
        ),
        ("ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", "hadoop-aws:VERSION"),
        ("Class org.apache.hadoop.fs.gs.GoogleHadoopFileSystem not found", "no connector for this store; .*--packages"),
        (
            "An error occurred while calling o98.load.\n: java.lang.Exception: Table 'T' does not exist.\n\tat a",
            "SOURCE: Spark failed: java.lang.Exception: Table 'T' does not exist",
        ),
    ],
)
def test_what_spark_says_about_places(text: str, message: str) -> None:
    told = str(spark_session.translate_error(RuntimeError(text), "SOURCE"))
    assert re.search(message, told), told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("format", "parts"),
    [
        ("delta", ["Spark has no format 'delta'", "--packages io.delta:delta-spark_2.13:"]),
        ("iceberg", ["Spark has no format 'iceberg'", "--packages org.apache.iceberg:iceberg-spark-runtime-"]),
        ("avro", ["Spark has no format 'avro'", "--packages org.apache.spark:spark-avro_2.13:"]),
        ("exel", ["Spark has no format 'exel'", "name its package with --packages"]),
    ],
)
def test_the_package_of_a_missing_format_is_named(spark: Any, tmp_path: Path, format: str, parts: list[str]) -> None:
    with pytest.raises(NaysayError) as told:
        spark_read.read(spark, str(tmp_path), format=format).collect()
    assert all(part in str(told.value) for part in parts), str(told.value)
    assert "\n" not in str(told.value)


def test_tables_by_names_of_one_to_three_parts(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    spark.createDataFrame([(1, "a"), (1, "b")], "zip int, city string").write.option("path", path).saveAsTable(
        "orders_3"
    )
    try:
        for name in ("orders_3", "default.orders_3", "spark_catalog.default.orders_3"):
            assert naysay.count(spark_read.read(spark, name), "zip -> city") == 2
        for name in ("spark_catalog.default.orders_4", "nowhere.default.orders_3", "a.b.c.d"):
            with pytest.raises(
                TableError, match=r"there is no file, folder or table|configure it with --conf spark.sql"
            ):
                spark_read.read(spark, name)
    finally:
        spark.sql("DROP TABLE orders_3")


def test_a_table_of_a_jdbc_source(spark: Any) -> None:
    url = "jdbc:derby:memory:naysay_inputs"
    rows = spark.createDataFrame([(1, "a"), (1, "b")], "zip int, city string")
    rows.write.jdbc(f"{url};create=true", "orders")
    assert naysay.count(spark_read.read(spark, url, table="orders"), "zip -> city") == 2
    with pytest.raises(TableError, match=r"no driver for jdbc:nosuch.*--packages"):
        spark_read.read(spark, "jdbc:nosuch://me:secret@host/shop", table="orders").collect()
    with pytest.raises(TableError, match="cannot connect to jdbc:derby:memory:naysay_other; check the address"):
        spark_read.read(spark, "jdbc:derby:memory:naysay_other;user=me;password=secret", table="orders")
    with pytest.raises(TableError, match=r"jdbc:derby:memory:naysay_inputs: Spark failed: .*does not exist"):
        spark_read.read(spark, url, table="orders_5")


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs"])
def test_stores_that_spark_has_no_package_for(spark: Any, scheme: str) -> None:
    with pytest.raises(TableError, match=r"--packages.*or use --engine local, which needs none") as told:
        spark_read.read(spark, f"{scheme}://bucket/people.parquet")
    assert "\n" not in str(told.value)


def test_files_that_the_driver_reads(spark: Any, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.executescript("CREATE TABLE a (x); INSERT INTO a VALUES (1), (1); CREATE TABLE b (x);")
    connection.close()
    assert naysay.count(spark_read.read(spark, str(tmp_path / "shop.db"), table="a"), "key(x)") == 2
    with pytest.raises(TableError, match="has 2 tables"):
        spark_read.read(spark, str(tmp_path / "shop.db"))
    pa.feather.write_feather(pa.table({"x": [1, 1]}), tmp_path / "f.feather")
    assert naysay.count(spark_read.read(spark, str(tmp_path / "f.feather")), "key(x)") == 2
    (tmp_path / "f.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(TableError, match="is a spreadsheet"):
        spark_read.read(spark, str(tmp_path / "f.xlsx"))


def test_options_are_obeyed_or_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_text('{"a": 1, "b": "31.01.2024"}\n')
    with pytest.raises(UsageError, match="--table applies to DuckDB and SQLite files and JDBC sources"):
        spark_read.read(spark, str(tmp_path / "f.jsonl"), table="a")
    rows = spark_read.read(spark, str(tmp_path / "f.jsonl"), options={"primitivesAsString": "true"})
    assert rows.schema["a"].dataType.simpleString() == "string"
    (tmp_path / "f.csv").write_text("a\n1\n")
    with pytest.raises(UsageError, match="--option is for Spark's readers, which are not used for csv"):
        spark_read.read(spark, str(tmp_path / "f.csv"), options={"sep": ";"})


def test_a_running_session_is_not_stopped(spark: Any) -> None:
    """Not even if it is not active in this thread of Java, as after an interrupt."""
    spark._jvm.org.apache.spark.sql.SparkSession.clearActiveSession()
    with spark_session.session_for() as session:
        assert session.range(3).count() == 3
    assert spark.range(3).count() == 3


def test_settings_of_a_session_that_runs_already(spark: Any) -> None:
    with spark_session.session_for(conf={"spark.sql.caseSensitive": "true"}) as session:
        assert session.conf.get("spark.sql.caseSensitive") == "true"
    spark.conf.unset("spark.sql.caseSensitive")
    with pytest.raises(UsageError, match=r"--conf spark.sql.warehouse.dir=x"):
        spark_session.session_for(conf={"spark.sql.warehouse.dir": "x"}).__enter__()
    with pytest.raises(UsageError, match="--packages has no effect here"):
        spark_session.session_for(conf={"spark.jars.packages": "a:b:1"}).__enter__()


def test_delta_gets_the_settings_that_it_needs() -> None:
    settings = spark_session._settings_for({"spark.jars.packages": "io.delta:delta-spark_2.13:4.0.0"})
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert spark_session._settings_for({"spark.jars.packages": "a:b:1"}) == {}


def test_our_own_reader_agrees_with_the_small_route(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "f.csv", COLUMNS)
    table = read_table(str(tmp_path / "f.csv"), notation=GERMAN)
    small = spark_read.read(spark, str(tmp_path / "f.csv"), notation=GERMAN).toArrow()
    names = [
        field.name for field in table.schema if not pa.types.is_time(field.type) and not pa.types.is_null(field.type)
    ]
    assert small.select(names).to_pydict() == table.select(names).to_pydict()
