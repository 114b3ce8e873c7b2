"""Keeping rules current: seconds per batch, compared with discovery from scratch on the same rows in the same run.

    python benchmarks/evolve.py [--tables airport,adult,tax] [--data FOLDER] [--rows 1000000]
                                [--deltas 1,10,100,1000,10000] [--method auto] [--device auto] [--repeat 3]
                                [--check] [--json FILE]

`airport` is the data of IncDC's authors: 30,000 rows, then 10,000, and all 14,418; read from FOLDER/airport. `adult`
has 24,000 rows and 10, 20 and 30% more, as in the paper's table 10; FOLDER/adult. If a file is missing, its table is
skipped. `tax` is generated. Each batch is inserted and deleted again, --repeat times after a first time that is not
counted (long ones only once in all). Times are medians; for inserts also the CPU seconds of all cores. `from_scratch`
is discovery on the rows including the batch, measured only once for all batches below 5% of the table. `--check`
compares the rules.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

import naysay
from naysay.discovery.engine import discover
from naysay.discovery.request import DiscoverRequest
from naysay.rule import canonical
from naysay.rule.model import Nulls
from naysay.table import from_frame
from tax import tax_table

N_AIRPORT, N_ADULT = 30_000, 24_000
LONG_SECONDS = 12.0


@dataclass(frozen=True)
class Case:
    """The initial table, batches of the rows that follow it, and what rules may compare."""

    name: str
    table: pa.Table
    n_first: int
    batches: tuple[int, ...]
    nulls: str = "sql"
    space: str = "naysay"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="airport,adult,tax")
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--deltas", default="1,10,100,1000,10000")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    load = f"{os.getloadavg()[0]:.1f}"
    for case in cases(args):
        for row in measure(case, args):
            print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
            rows.append(row)
            if args.json:
                # After each row, so that an interrupted run keeps what it has measured.
                document = {"naysay": naysay.__version__, "cores": os.cpu_count(), "load": load, "batches": rows}
                args.json.write_text(json.dumps(document, indent=2) + "\n")


def cases(args: argparse.Namespace) -> Iterator[Case]:
    for name in args.tables.split(","):
        if name == "tax":
            deltas = tuple(int(part) for part in args.deltas.split(","))
            yield Case("tax", tax_table(args.rows + max(deltas)), args.rows, deltas)
        elif name == "airport" and (args.data / "airport").is_dir():
            parts = [read(args.data / "airport" / f"airport_{part}.csv") for part in ("original", "incremental")]
            table = pa.concat_tables(parts).combine_chunks()
            yield Case("airport", table, N_AIRPORT, (10_000, table.num_rows - N_AIRPORT), "equal", "incdc")
        elif name == "adult" and (args.data / "adult").is_dir():
            table = read(args.data / "adult" / "adult.csv")
            sizes = tuple(N_ADULT * percent // 100 for percent in (10, 20, 30))
            yield Case("adult", table, N_ADULT, sizes, space="incdc")


def read(path: Path) -> pa.Table:
    """A CSV file with types in brackets in its header, as the authors' program reads it."""
    table = pyarrow.csv.read_csv(path, read_options=pyarrow.csv.ReadOptions(encoding="latin-1"))
    return table.rename_columns([name.split("(")[0] for name in table.column_names])


def measure(case: Case, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    first = case.table.slice(0, case.n_first)
    start = time.perf_counter()
    options: dict[str, Any] = {} if args.device == "auto" else {"device": args.device}
    evolver = naysay.Evolver(first, nulls=case.nulls, space=case.space, method=args.method, **options)
    make = time.perf_counter() - start
    scratch = 0.0
    for n_new in case.batches:
        new = case.table.slice(case.n_first, n_new)
        inserts, deletes, cores, checked = [], [], [], {}
        for turn in range(args.repeat + 1):
            begin, cpu = evolver._engine.relation.next_serial, time.process_time()
            seconds, change = timed(lambda new=new: evolver.apply(inserts=new))
            cpu = time.process_time() - cpu
            if turn == 0 and args.check:
                checked = {"equal": equals_scratch(case, evolver, n_new)}
            gone = list(range(begin, begin + n_new))
            back, _ = timed(lambda gone=gone: evolver.apply(deletes=gone))
            is_long = turn == 0 and seconds + back > LONG_SECONDS
            if turn or is_long:
                inserts.append(seconds)
                deletes.append(back)
                cores.append(cpu)
            if is_long:
                break
        if not scratch or 20 * n_new > case.n_first:
            scratch, _ = timed(lambda n_new=n_new: from_scratch(case, n_new))
        insert, delete = statistics.median(inserts), statistics.median(deletes)
        yield {
            "table": case.name,
            "rows": case.n_first,
            "batch": n_new,
            "method": evolver.method,
            "rules": len(evolver.rules),
            "added": len(change.added),
            "removed": len(change.removed),
            "insert": insert,
            "insert_all_cores": statistics.median(cores),
            "delete": delete,
            "from_scratch": scratch,
            "fraction_of_scratch": insert / scratch,
            "delete_per_insert": delete / insert,
            "first_discovery": make,
            **checked,
        }


def timed(work: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    made = work()
    return time.perf_counter() - start, made


def from_scratch(case: Case, n_new: int) -> Any:
    table = from_frame(case.table.slice(0, case.n_first + n_new))
    return discover(table, DiscoverRequest(nulls=Nulls(case.nulls), space=case.space))


def equals_scratch(case: Case, evolver: naysay.Evolver, n_new: int) -> bool:
    """Whether discovery finds the same rules; both must have the same predicate space."""
    found = from_scratch(case, n_new)
    assert found.space == evolver.space, "another space"
    return {canonical(rule) for rule in found.rules} == {canonical(rule) for rule in evolver.rules}


if __name__ == "__main__":
    main()
