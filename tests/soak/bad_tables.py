"""Bad tables: each file of the corpus gives the expected table, or is refused with the expected message."""

from __future__ import annotations

import json
import random
import sys
import tempfile
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "corpus"))

from bad_tables import Case, Reads, Refuses, cases, write

import naysay
from naysay.errors import NaysayError
from naysay.io.files import read_table
from soak.row import FINE, Outcome

CASES = cases()


_SOUND = pa.table(
    {
        "a": list(range(300)),
        "b": [f"v{i % 7}" for i in range(300)],
        "c": [None if i % 3 else 1.5 * i for i in range(300)],
        "d": [f"é{i % 5}" for i in range(300)],
    }
)
_SUFFIXES = (".parquet", ".arrow", ".orc", ".csv", ".jsonl")


def trial(seed: int) -> Outcome:
    """The files of the corpus first; then a valid file with a few bytes changed, lost or doubled."""
    with tempfile.TemporaryDirectory() as folder:
        if seed < len(CASES):
            fault = fault_of(CASES[seed], Path(folder))
            return Outcome(failure=f"{CASES[seed].name}: {fault}") if fault else FINE
        rng = random.Random(seed)
        path = Path(folder) / f"f{rng.choice(_SUFFIXES)}"
        path.write_bytes(_damaged(rng, _sound_bytes(path.suffix)))
        try:
            naysay.check(read_table(str(path)), ["b -> a", "key(c)", "not(t.a < s.a and t.d > s.d)"])
        except NaysayError as error:
            return Outcome(notes=(f"damaged {path.suffix} refused",)) if str(error) else Outcome(failure="no message")
        return Outcome(notes=(f"damaged {path.suffix} read",))


@cache
def _sound_bytes(suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"f{suffix}"
        if suffix == ".csv":
            pyarrow.csv.write_csv(_SOUND, path)
        elif suffix == ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in _SOUND.to_pylist()), encoding="utf-8")
        else:
            write(_SOUND, path)
        return path.read_bytes()


def _damaged(rng: random.Random, data: bytes) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        place = rng.randrange(len(data))
        length = rng.choice((0, 1, 1, 4))
        new = rng.choice((b"", bytes([rng.randrange(256)]), bytes(4), b"\xff" * 4, data[place : place + 8] * 2))
        data = data[:place] + new + data[place + length :]
    return data


def fault_of(case: Case, folder: Path) -> str:
    """What is wrong with the result of a case; empty if it is as expected."""
    path = case.file if "://" in case.file else str(folder / case.file)
    if "://" not in case.file and "/" not in case.file:
        case.make(folder / case.file)
    wanted = case.wanted
    try:
        table = read_table(path, **case.options)
        count = naysay.count(table, wanted.rule) if wanted.rule else 0
    except NaysayError as error:
        if isinstance(wanted, Reads):
            return f"refused: {error}"
        missing = [part for part in wanted.parts if part not in str(error)]
        return f"the message has no {missing}: {error}" if missing else ""
    if isinstance(wanted, Refuses):
        return f"read as {table.num_rows} rows: {table.slice(0, 3).to_pylist()}, count {count}"
    types = {name: str(table.schema.field(name).type) for name in wanted.types}
    found = table.num_rows, table.num_columns, count, types
    expected = wanted.n_rows, wanted.n_columns, wanted.count, wanted.types
    return "" if found == expected else f"{found}, not {expected}"
