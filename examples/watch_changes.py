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
    state = Path(tempfile.mkdtemp()) / "visits.duckdb"

    with naysay.Watch(RULES, key="visit", state=state) as watch:
        print("loaded:", watch.apply(inserts=visits))
        slip = visits.slice(0, 1).set_column(3, "city", pa.array(["Cambrigde"]))
        change = watch.apply(updates=slip, batch_id="monday")
        print("a typo:", change)
        print(" ", watch.explain(change, limit=1)[0])

    # The state has everything: after a crash, or the next day, the watch continues where it stopped.
    with naysay.Watch.open(state) as watch:
        print("monday again:", watch.apply(updates=slip, batch_id="monday"))
        print("put right:", watch.apply(updates=visits.slice(0, 1)))
        print("current violations:", watch.counts)


if __name__ == "__main__":
    main()
