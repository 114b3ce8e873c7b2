"""Every minimal rule of a table: naysay's methods and Desbordante's FastADC, in one run.

    python benchmarks/discover.py [--tables tax,adult,airport,survey] [--rows 1000,20000,100000,1000000]
                                  [--methods auto,all-pairs,selective,hydra] [--device auto] [--peers desbordante]
                                  [--cross] [--error E] [--limit 60] [--data FOLDER] [--json FILE]

Each run has its own process, with kernels compiled, data loaded (Arrow for naysay, its own table for FastADC) and two
threads. Measured: the seconds from there to the last rule, the time of each step, the pairs compared per second if all
pairs are compared, and the peak memory of the process. A run that exceeds --limit seconds is stopped, and not repeated
on more rows of the table. `equal` says whether the set of rules is that of the first system. Tables: tax and survey
(few values per column) are generated; adult and airport are read from --data if they exist there. Without --cross each
column is compared only with itself. --keep keeps what the --json file has about other tables.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

import naysay
from gpu import device_name
from naysay.rule import Rule, canonical, parse, render
from tax import tax_table

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
# Larger sets of rules are not compared: reading them back would take longer than finding them.
MOST_COMPARED = 120_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="tax,adult,airport,survey")
    parser.add_argument("--rows", default="1000,20000,100000,1000000")
    parser.add_argument("--methods", default="auto,all-pairs,selective,hydra")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--peers", default="desbordante")
    parser.add_argument("--cross", action="store_true")
    parser.add_argument("--error", type=float, default=0.0)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which a run is stopped")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    kept = json.loads(args.json.read_text())["runs"] if args.json and args.keep and args.json.exists() else []
    found: list[dict[str, Any]] = []
    gave_up: set[tuple[str, str]] = set()
    for name, table in tables(args):
        for row in measured(name, table, args, gave_up):
            print(", ".join(f"{key} {shown(value)}" for key, value in row.items()), flush=True)
            found.append(row)
            if args.json:
                write(args, [other for other in kept if other["table"] not in {row["table"] for row in found}] + found)


def write(args: argparse.Namespace, runs: list[dict[str, Any]]) -> None:
    document = {"cross": args.cross, "error": args.error, "threads": args.threads, "runs": runs}
    if any(row.get("device") == "cuda" for row in runs):
        document = {"device": device_name()} | document
    args.json.write_text(json.dumps(document, indent=2) + "\n")


def warm_up(method: str, args: argparse.Namespace) -> None:
    """Load the kernels, in the process of the run: threads do not survive a fork."""
    for table in (tax_table(1_000), survey_table(1_000)):
        for each in ("all-pairs", "selective") if method == "auto" and not args.error else (method,):
            naysay.discover(table, method=each, cross=args.cross, error=args.error, max_seconds=60.0)


def shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def tables(args: argparse.Namespace) -> Iterator[tuple[str, pa.Table]]:
    sizes = [int(size) for size in args.rows.split(",")]
    for name in args.tables.split(","):
        if name == "tax":
            yield from ((name, tax_table(size)) for size in sizes)
        elif name == "survey":
            yield from ((name, survey_table(size)) for size in sizes)
        elif (path := args.data / name / FILES[name]).exists():
            table = read(path)
            yield from ((name, table.slice(0, size)) for size in sizes if size < table.num_rows)
            if max(sizes) >= table.num_rows:
                yield name, table
        else:
            print(f"{name}: not found, skipped", flush=True)


FILES = {"adult": "adult.csv", "airport": "airport_original.csv"}


def read(path: Path) -> pa.Table:
    """The table with plain column names: those of airport contain the types."""
    options = pcsv.ReadOptions(encoding="latin1")
    table = pcsv.read_csv(path, options, convert_options=pcsv.ConvertOptions(strings_can_be_null=False))
    names = [name.partition("(")[0].replace("-", "_") for name in table.column_names]
    return pa.table([_unquoted(column) for column in table.columns], names)


def _unquoted(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Remove the characters that CSV quotes, so that FastADC reads exactly what we read."""
    if not pa.types.is_string(column.type):
        return column
    return pc.replace_substring(pc.replace_substring(column, ",", ";"), '"', "'")


def survey_table(n_rows: int, seed: int = 3) -> pa.Table:
    """Answers to 13 questions: nine have two to seven choices, four are small numbers; two depend on others."""
    rng = np.random.default_rng(seed)
    answers = {f"q{place}": rng.integers(0, 2 + place % 6, n_rows) for place in range(8)}
    numbers = {f"n{place}": rng.integers(0, 4 + place, n_rows) for place in range(3)}
    columns: dict[str, Any] = {name: pa.array(np.char.add("c", values.astype(str))) for name, values in answers.items()}
    columns["group"] = pa.array(np.char.add("g", (answers["q1"] * 8 + answers["q2"]).astype(str)))
    return pa.table({**columns, **numbers, "total": numbers["n0"] + numbers["n1"]})


def measured(
    name: str, table: pa.Table, args: argparse.Namespace, gave_up: set[tuple[str, str]]
) -> Iterator[dict[str, Any]]:
    head = {"table": name, "rows": table.num_rows, "columns": table.num_columns}
    methods = [m for m in filter(None, args.methods.split(",")) if not (args.error and m == "hydra")]
    systems = [(f"naysay {method}", run_ours, (table, method, args)) for method in methods]
    if "desbordante" in args.peers.split(",") and not args.error:
        systems.append(("desbordante", run_desbordante, (table, args)))
    first = ""
    for system, work, arguments in systems:
        if (name, system) in gave_up:
            continue
        row = limited(work, arguments, args.limit)
        if not isinstance(row["seconds"], float):
            gave_up.add((name, system))
        digest = row.pop("digest", "")
        if digest and first:
            row["equal"] = digest == first
        first = first or digest
        yield {**head, "system": system, **row}


def limited(work: Any, arguments: tuple[Any, ...], limit: float) -> dict[str, Any]:
    """What the work reports from its own process."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(sender, work, arguments))
    process.start()
    # Preparation is not counted: the work says when it begins.
    begun = receiver.recv() if receiver.poll(300) else "begin"
    answer: dict[str, Any] = {"seconds": f"over {limit:g} s"} if begun == "begin" else begun
    if begun == "begin" and receiver.poll(limit):
        answer = receiver.recv()
        # Comparing sets of rules is not counted either.
        answer |= receiver.recv() if receiver.poll(300) else {}
    process.kill()
    process.join()
    return answer


def _report(sender: Any, work: Any, arguments: tuple[Any, ...]) -> None:
    try:
        for part in work(*arguments):
            sender.send(part)
    except BaseException as error:
        sender.send({"seconds": type(error).__name__})
        sender.send({})
        raise


def run_ours(table: pa.Table, method: str, args: argparse.Namespace) -> Iterator[Any]:
    wanted: dict[str, Any] = {
        "method": method,
        "device": args.device,
        "cross": args.cross,
        "error": args.error,
        "threads": args.threads,
    }
    warm_up(method, args)
    yield "begin"
    begin, cpu = time.perf_counter(), time.process_time()
    found = naysay.discover(table, **wanted)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    row = {"seconds": seconds, "cpu": cpu, "rules": len(found.rules), "method": found.method, "device": found.device}
    row |= {f"{phase} part": spent for phase, spent in found.seconds.items() if phase in PHASES}
    if found.method == "all-pairs":
        row["pairs_per_second"] = found.n_pairs / 2 / max(1e-9, found.seconds["evidence"])
    yield {**row, "MiB": most_memory()}
    yield {"digest": digest_of(found.rules) if len(found.rules) <= MOST_COMPARED else ""}


PHASES = ("encode", "evidence", "agreeing pairs", "covers", "verify", "ranking")


def run_desbordante(table: pa.Table, args: argparse.Namespace) -> Iterator[Any]:
    import desbordante

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "table.csv")
        pcsv.write_csv(table, path, pcsv.WriteOptions(quoting_style="none"))
        algorithm = desbordante.dc.algorithms.FastADC()
        algorithm.load_data(table=(path, ",", True))
        yield "begin"
        begin, cpu = time.perf_counter(), time.process_time()
        algorithm.execute(
            evidence_threshold=0.0,
            shard_length=min(350, table.num_rows),
            allow_cross_columns=args.cross,
            threads=args.threads,
        )
        rules = algorithm.get_dcs()
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        yield {"seconds": seconds, "cpu": cpu, "rules": len(rules), "MiB": most_memory()}
        small = len(rules) <= MOST_COMPARED
        yield {"digest": digest_of(parse(str(rule)) for rule in rules) if small else ""}


def digest_of(rules: Iterable[Rule]) -> str:
    """The same digest for the same set of rules, in whichever direction each is written."""
    texts = sorted(render(canonical(rule)) for rule in rules)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


if __name__ == "__main__":
    main()
