"""CSV files that Spark reads itself mean what they mean to our own reader."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from naysay.engines import spark_read
from naysay.engines.local_files import read_table
from naysay.errors import TableError

COLUMNS = {
    "spaced": (" 10", "9 "),
    "tabbed zeros": ("\t007", "7"),
    "plus": ("+1", "-.5"),
    "names": ("NAN", "-Infinity"),
    "signed": ("-nan", "1e5"),
    "zones": ("2024-01-31 10:00+01:00", "2024-01-31T10:00:00.5Z"),
    "offsets": ("2024-01-31 10-0130", "2024-01-31T10:00:00+01"),
    "hours": ("2024-01-31 10", "2024-01-31"),
    "clock": (" 09:30", "10:00:30"),
    "day": (" 2024-01-31", "2024-02-01"),
    "wide": ("-" + "9" * 38, "1"),
    "wider": ("9" * 39, "1"),
    "empty": ('""', ""),
    "no number": ('""', "5"),
    "words": ("true", " false"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names, (first, second) = list(COLUMNS), zip(*COLUMNS.values(), strict=True)
    text = "".join(",".join(line) + "\n" for line in (names, first, second))
    (tmp_path / "all.csv").write_text(text, encoding="utf-8")
    (tmp_path / "all.csv.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path


def test_values_are_what_our_reader_makes_of_them(spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = _texts(spark_read.read(spark, str(folder / "all.csv")))
    packed = _texts(spark_read.read(spark, str(folder / "all.csv.gz")))
    monkeypatch.setattr(spark_read, "_WHOLE_BYTES", -1)
    assert _texts(spark_read.read(spark, str(folder / "all.csv"))) == packed == small
    assert read_table(str(folder / "all.csv")).column_names == list(small)


def _texts(frame: Any) -> dict[str, tuple[str, set[str]]]:
    rows = frame.collect()
    return {
        field.name: (field.dataType.simpleString(), {str(row[place]) for row in rows})
        for place, field in enumerate(frame.schema.fields)
    }


def test_files_with_other_columns_are_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    for header in ("b,a", "a,c"):
        (tmp_path / "2.csv").write_text(f"{header}\n2,1\n")
        with pytest.raises(TableError, match="the files have different columns"):
            spark_read.read(spark, str(tmp_path))
    (tmp_path / "2.csv").write_bytes(b"\xef\xbb\xbfa,b\n2,1\n")
    assert spark_read.read(spark, str(tmp_path)).count() == 2


def test_repeated_and_missing_names_stay(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_read, "_WHOLE_BYTES", -1)
    (tmp_path / "a.csv").write_text("a,a,\n1,2,3\n")
    frame = spark_read.read(spark, str(tmp_path / "a.csv"))
    assert (frame.columns, tuple(frame.collect()[0])) == (["a", "a", ""], (1, 2, 3))
