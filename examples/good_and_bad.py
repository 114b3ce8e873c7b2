"""Split a table: rows without conflicts are kept, rows in conflict go to quarantine.

python examples/good_and_bad.py [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as parquet

import naysay
from visits import read_visits

RULES = ["key(visit)", "not(t.copay > t.charge)", "no_overlap(begins, ends by clinic, room)"]


def main(folder: Path) -> None:
    good, bad = naysay.split(read_visits(), RULES)
    parquet.write_table(good, folder / "good.parquet")
    parquet.write_table(bad, folder / "quarantine.parquet")
    print(f"{good.num_rows:,} rows are good, {bad.num_rows:,} in quarantine")
    # The good rows cannot break any of the rules.
    assert naysay.count(good, RULES) == [0, 0, 0]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
