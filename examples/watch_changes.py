"""Watch a table that changes: each batch returns the violations that it added and removed.

python examples/watch_changes.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import naysay
from visits import read_visits

RULES = ["city: zip -> city", "room: no_overlap(begins, ends by clinic, room)"]


def main() -> None:
    visits = read_visits()
    visits = visits.filter(pc.equal(visits["clinic"], "Alder Street Clinic")).slice(0, 200)
    store = Path(tempfile.mkdtemp()) / "visits.duckdb"

    with naysay.Watch(RULES, key="visit", store=store) as watch:
        print("loaded:", watch.apply(inserts=visits))
        slip = visits.slice(0, 1).set_column(3, "city", pa.array(["Cambrigde"]))
        change = watch.apply(updates=slip, batch_id="monday")
        print("a typo:", change)
        print(" ", watch.explain(change, limit=1)[0])

    # Everything is in the state: after a crash, or on the next day, the watch resumes where it stopped.
    with naysay.Watch(store=store) as watch:
        print("monday again:", watch.apply(updates=slip, batch_id="monday"))
        print("corrected:", watch.apply(updates=visits.slice(0, 1)))
        print("current violations:", watch.counts)


if __name__ == "__main__":
    main()
