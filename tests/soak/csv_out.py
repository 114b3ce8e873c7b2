"""CSV output: a spreadsheet sees no cell or header of ours as a formula, unless raw output was requested."""

from __future__ import annotations

import csv
import random
import tempfile
from pathlib import Path

import pyarrow as pa

import naysay
from naysay.detect.request import CheckOptions
from naysay.report.results import ResultsFolder, write_results
from naysay.rule import parse
from naysay.table import from_frame
from soak.row import FINE, Outcome

_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r", "=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\t=1", "\r=1")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))


def trial(seed: int) -> Outcome:
    """Such cells, headers, keys and rule names in every text type; all files that a check writes."""
    rng = random.Random(seed)
    beginning = _BEGINNINGS[seed % len(_BEGINNINGS)]
    type_ = _TEXT_TYPES[seed // len(_BEGINNINGS) % len(_TEXT_TYPES)]
    name = beginning + rng.choice(("name", "x y", "1"))
    values = [beginning + text for text in ("a", "b", "a", "")]
    table = from_frame(pa.table({"key": pa.array(values, type_), name: pa.array(values, type_), "n": [1, 1, -1, -1]}))
    rule = parse(f"n -> {_quoted(name)}")
    rule = type(rule)(rule.predicates, name=name)
    options = CheckOptions(key=rng.choice(((), ("key",), ("key", name))))
    with tempfile.TemporaryDirectory() as folder:
        for neutral in (True, False):
            out = Path(folder) / f"{neutral}"
            write_results(
                table, naysay.check(table, [rule]), options, ResultsFolder(str(out), "csv", 100, neutral=neutral)
            )
            fault = _fault(out, neutral, values)
            if fault:
                return Outcome(failure=f"{beginning!r}, {type_}: {fault}")
    return FINE


def _fault(folder: Path, neutral: bool, values: list[str]) -> str:
    seen: set[str] = set()
    for path in sorted(folder.rglob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.reader(file):
                for cell in row:
                    seen.add(cell)
                    if neutral and cell.startswith(_FORMULA) and not _is_number(cell):
                        return f"{path.name} has the cell {cell!r}"
    wanted = {f"'{value}" for value in values} if neutral else set(values)
    return "" if seen >= wanted else f"cells are missing: {sorted(wanted - seen)}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\r", "\\r")
    return f'"{escaped}"'
