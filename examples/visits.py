"""The table used in the examples: fictional visits to a few clinics, with deliberate errors. See make_clinics.py."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import csv

DATA = Path(__file__).parent / "data"
RULES = DATA / "clinics.yaml"


def read_visits() -> pa.Table:
    """Read the visits as an Arrow table; zip codes are text, so that they keep their leading zeros."""
    types = {"zip": pa.string()}
    return csv.read_csv(DATA / "clinics.csv", convert_options=csv.ConvertOptions(column_types=types))
