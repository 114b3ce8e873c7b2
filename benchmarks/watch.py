"""Violations under inserts, updates and deletes: time per batch, memory and file size, compared with other systems.

    python benchmarks/watch.py [--rows 100000,1000000] [--batches 1,100,1000,10000] [--rules c1,c2,c3,c4,all]
                               [--index auto,lt-tree] [--state] [--check] [--postgres] [--stream] [--json FILE]

The table is Tax. c1 is key(AreaCode, Phone), c2 ZipCode -> City, c3 State, HasChild -> ChildExemp, c4 State = & Salary
> & Rate <. For each number of rows, set of rules and batch size: the median time of a batch of inserts, of updates (of
the salaries of existing rows) and of deletes, with violations kept current. `lt-tree` is Weever's own index. `--state`
adds a watch with durable state, `--check` a count of all violations from scratch. `--postgres` adds the paper's
baseline: a trigger for each row that counts the violations it causes, and an index for each compared column; the server
is started in its own folder, listens only on a socket there, and is stopped at the end (as root it runs as user
postgres). `--stream` adds the rates of watch_stream.py (--rows '' for only these). After --limit seconds, fewer batches
are measured. With --json the figures of this run replace those of the same rows, rules, system and batch in the file.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv

import naysay
from tax import tax_table
from watch_stream import measure_all

RULES = {
    "c1": ["key(AreaCode, Phone)"],
    "c2": ["ZipCode -> City"],
    "c3": ["State, HasChild -> ChildExemp"],
    "c4": ["not(t.State == s.State and t.Salary > s.Salary and t.Rate < s.Rate)"],
}
RULES["all"] = [rule for rules in RULES.values() for rule in rules]
# The same rules as conditions between a new row and an existing one, in both directions if they differ.
SQL = {
    "c1": ['n."AreaCode" = s."AreaCode" AND n."Phone" = s."Phone"'],
    "c2": ['n."ZipCode" = s."ZipCode" AND n."City" <> s."City"'],
    "c3": ['n."State" = s."State" AND n."HasChild" = s."HasChild" AND n."ChildExemp" <> s."ChildExemp"'],
    "c4": [
        'n."State" = s."State" AND n."Salary" > s."Salary" AND n."Rate" < s."Rate"',
        'n."State" = s."State" AND n."Salary" < s."Salary" AND n."Rate" > s."Rate"',
    ],
}
SQL["all"] = [condition for conditions in SQL.values() for condition in conditions]
INDEXES = {
    "hash": ("AreaCode", "Phone", "ZipCode", "City", "State", "HasChild", "ChildExemp"),
    "btree": ("Salary", "Rate"),
}
SYSTEMS = ("auto", "auto, state", "from scratch", "lt-tree", "postgres")
N_SPARE = 200_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="100000,1000000")
    parser.add_argument("--batches", default="1,100,1000,10000")
    parser.add_argument("--rules", default="c1,c2,c3,c4,all")
    parser.add_argument("--index", default="auto")
    parser.add_argument("--state", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--dirty", type=float, default=0.000002, help="fraction of rows to break")
    parser.add_argument("--repeat", type=int, default=20, help="number of batches of each size and kind")
    parser.add_argument("--limit", type=float, default=20.0, help="maximum seconds per size and kind")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found: list[dict[str, Any]] = []
    for n_rows in numbers(args.rows):
        table = tax_table(n_rows + N_SPARE, dirty=args.dirty)
        table = table.append_column("id", pa.array(np.arange(table.num_rows)))
        for name in args.rules.split(","):
            found += measure_rules(table, n_rows, name, args)
            if args.json:
                keep(args.json, "batches", found, ("rows", "rules", "system", "batch"))
    if args.stream:
        rates = measure_all(min(args.limit, 8.0))
        if args.json:
            keep(args.json, "stream", rates, ("workload", "source", "parts"))


def keep(path: Path, name: str, found: list[dict[str, Any]], identity: Sequence[str]) -> None:
    """Write figures to the file, replacing those of the same identity."""
    document: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    document |= {"cores": os.cpu_count(), "date": datetime.date.today().isoformat()}
    kept = {tuple(str(row.get(part)) for part in identity): row for row in document.get(name, ())}
    kept |= {tuple(str(row.get(part)) for part in identity): row for row in found}
    document[name] = [row for _, row in sorted(kept.items(), key=lambda item: place_of(item[1]))]
    path.write_text(json.dumps(document, indent=1) + "\n")


def place_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Sort batches by rules, rows, system and size; others stay in the order in which they were measured."""
    if "system" not in row:
        return ()
    return list(RULES).index(row["rules"]), row["rows"], SYSTEMS.index(row["system"]), row["batch"]


def measure_rules(table: pa.Table, n_rows: int, name: str, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    systems: list[tuple[str, Callable[[], Any]]] = [
        (index, lambda index=index: measure_watch(table, n_rows, name, args, index=index))
        for index in args.index.split(",")
        if index
    ]
    if args.state:
        systems.append(("auto, state", lambda: measure_watch(table, n_rows, name, args, durable=True)))
    if args.check:
        systems.append(("from scratch", lambda: measure_check(table, n_rows, name)))
    if args.postgres:
        systems.append(("postgres", lambda: measure_postgres(table, n_rows, name, args)))
    for system, measure in systems:
        for row in apart(measure):
            shown = {"rows": n_rows, "rules": name, "system": system, **row}
            print(", ".join(f"{key} {value}" for key, value in shown.items()), flush=True)
            yield shown


def apart(measure: Callable[[], Iterator[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The figures of one system, from its own process: what others leave in memory would distort its memory use."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    worker = multiprocessing.get_context("fork").Process(target=lambda: sender.send(list(measure())))
    worker.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        raise SystemExit("the process of a measure ended without figures") from None
    finally:
        worker.join()


def measure_watch(
    table: pa.Table, n_rows: int, name: str, args: argparse.Namespace, *, index: str = "auto", durable: bool = False
) -> Iterator[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="naysay-watch-"))
    try:
        # A first small watch loads libraries and kernels, which are no part of what the rows take.
        with naysay.Watch(RULES[name], "id", state=folder / "first.duckdb" if durable else None, index=index) as watch:
            watch.apply(inserts=table.slice(0, 1000))
            watch.apply(deletes=table.slice(0, 1).select(["id"]))
        before = psutil.Process().memory_info().rss
        path = folder / "state.duckdb" if durable else None
        with naysay.Watch([], "id", state=path, index=index) as watch:
            start = time.perf_counter()
            watch.apply(inserts=table.slice(0, n_rows))
            for rule in RULES[name]:
                watch.add_rule(rule)
            loaded = time.perf_counter() - start
            watch.apply(deletes=table.slice(0, 1).select(["id"]))
            watch.apply(inserts=table.slice(0, 1))
            sizes = {"load": round(loaded, 2), "MiB": (psutil.Process().memory_info().rss - before) >> 20}
            if durable:
                sizes["file_MiB"] = sum(file.stat().st_size for file in folder.glob("state.*")) >> 20
            for n_batch in numbers(args.batches):
                yield {"batch": n_batch, **time_batches(watch, table, n_rows, n_batch, args), **sizes}
    finally:
        shutil.rmtree(folder)


def time_batches(
    watch: naysay.Watch, table: pa.Table, n_rows: int, n_batch: int, args: argparse.Namespace
) -> dict[str, float]:
    """Seconds of batches of inserts, of updates and of deletes; afterwards the rows are the same as before."""
    n_batches = min(args.repeat, N_SPARE // n_batch)
    places = [n_rows + n_batch * number for number in range(n_batches)]
    rng = np.random.default_rng(n_batch)
    chosen = [rng.choice(n_rows, n_batch, replace=False) for _ in range(n_batches)]
    olds = [table.take(pa.array(places)) for places in chosen]
    raised = [old.set_column(old.column_names.index("Salary"), "Salary", higher(old["Salary"])) for old in olds]
    inserted, seconds = [], {"insert": [], "update": [], "delete": []}
    begin = time.perf_counter()
    for place in places:
        seconds["insert"].append(stopwatch(lambda place=place: watch.apply(inserts=table.slice(place, n_batch))))
        inserted.append(place)
        if time.perf_counter() - begin > args.limit:
            break
    begin = time.perf_counter()
    for old, new in zip(olds, raised, strict=True):
        seconds["update"].append(stopwatch(lambda new=new: watch.apply(updates=new)))
        watch.apply(updates=old)
        if time.perf_counter() - begin > args.limit:
            break
    for place in inserted:
        keys = table.slice(place, n_batch).select(["id"])
        seconds["delete"].append(stopwatch(lambda keys=keys: watch.apply(deletes=keys)))
    return {kind: round(statistics.median(times), 7) for kind, times in seconds.items()}


def higher(salaries: pa.ChunkedArray) -> pa.Array:
    return pa.array(np.asarray(salaries) + 50)


def measure_check(table: pa.Table, n_rows: int, name: str) -> Iterator[dict[str, Any]]:
    frame = table.slice(0, n_rows)
    rules = RULES[name]
    naysay.count(frame.slice(0, 1000), rules)
    yield {"batch": n_rows, "insert": round(min(stopwatch(lambda: naysay.count(frame, rules)) for _ in range(3)), 5)}


def measure_postgres(table: pa.Table, n_rows: int, name: str, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Only inserts: the paper's baseline keeps counts, which a delete could not undo."""
    with postgres_server() as server:
        folder = server.folder
        columns = ", ".join(f'"{field.name}" {sql_type(field.type)}' for field in table.schema)
        server.run(f"CREATE UNLOGGED TABLE tax ({columns}); CREATE UNLOGGED TABLE spare ({columns});")
        pa.csv.write_csv(table.slice(0, n_rows), folder / "tax.csv")
        pa.csv.write_csv(table.slice(n_rows), folder / "spare.csv")
        for target in ("tax", "spare"):
            server.run(f"\\copy {target} FROM '{folder / target}.csv' WITH (FORMAT csv, HEADER)")
        used = set("".join(SQL[name]).split('"'))
        for method, names in INDEXES.items():
            for column in used & set(names):
                server.run(f'CREATE INDEX ON tax USING {method} ("{column}")')
        server.run("CREATE INDEX ON spare USING btree (id); ANALYZE tax; ANALYZE spare;")
        server.run(trigger(name))
        done = n_rows
        for n_batch in numbers(args.batches):
            times = []
            begin = time.perf_counter()
            while len(times) < args.repeat and done + n_batch <= table.num_rows:
                times.append(server.insert(done, n_batch))
                done += n_batch
                if time.perf_counter() - begin > args.limit:
                    break
            if times:
                yield {"batch": n_batch, "insert": round(statistics.median(times) / 1000, 7)}


def trigger(name: str) -> str:
    conditions = [condition.replace("n.", "NEW.") for condition in SQL[name]]
    counts = "\n".join(f"SELECT found + count(*) INTO found FROM tax s WHERE {part};" for part in conditions)
    return f"""
        CREATE UNLOGGED TABLE counted (id BIGINT, found BIGINT);
        CREATE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE found BIGINT := 0;
        BEGIN {counts} INSERT INTO counted VALUES (NEW.id, found); RETURN NEW; END $$;
        CREATE TRIGGER judge BEFORE INSERT ON tax FOR EACH ROW EXECUTE FUNCTION judge();
    """


def sql_type(type_: pa.DataType) -> str:
    if pa.types.is_floating(type_):
        return "DOUBLE PRECISION"
    return "BIGINT" if pa.types.is_integer(type_) else "TEXT"


class Server:
    """A PostgreSQL server on a socket in its own folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._client = ["psql", "-h", str(folder), "-U", "postgres", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-qAtX"]

    def run(self, statement: str) -> str:
        done = subprocess.run(self._client, input=statement, capture_output=True, text=True, check=True)
        return done.stdout

    def insert(self, first: int, n_rows: int) -> float:
        """The milliseconds that a batch takes in the server, by the client's clock."""
        shown = self.run(
            f"\\timing on\nINSERT INTO tax SELECT * FROM spare WHERE id >= {first} AND id < {first + n_rows};\n"
        )
        return float(shown.strip().splitlines()[-1].split(":")[1].split()[0])


@contextmanager
def postgres_server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="naysay-pg-"))
    data = folder / "data"
    as_user: list[str] = []
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
        as_user = ["runuser", "-u", "postgres", "--"]
    folder.chmod(0o755)
    quiet: dict[str, Any] = {"check": True, "capture_output": True, "cwd": folder}
    subprocess.run([*as_user, "initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8"], **quiet)
    settings = f"-k {folder} -c listen_addresses='' -c shared_buffers=1GB -c fsync=off"
    start = [*as_user, "pg_ctl", "-D", str(data), "-l", str(folder / "log"), "-o", settings, "-w", "start"]
    subprocess.run(start, check=True, stdout=subprocess.DEVNULL, cwd=folder)
    try:
        yield Server(folder)
    finally:
        subprocess.run([*as_user, "pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop"], **quiet)
        shutil.rmtree(folder)


def stopwatch(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


if __name__ == "__main__":
    main()
