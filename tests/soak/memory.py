"""Memory: files of a tenth to twenty times the memory limit; the process stays within the limit, or refuses in advance.

The limit is 512 MiB, of which libraries and compiled code take more than half. Every other file is small, and its limit
is 1.05 times the memory that naysay itself asks for: that must be enough.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from soak.hostile import slowness
from soak.row import Outcome

CAP = 512 << 20
# So little that every check is refused with an estimate.
_TOO_LITTLE = 16 << 20
# The peak memory of the process as a multiple of the limit, and the seconds that a refusal may take (mostly imports).
_MOST, _REFUSAL_SECONDS = 1.15, 10.0
_BLOCK_ROWS = 100_000
_FORMATS = ("csv", "parquet", "arrow", "jsonl")
_RULES = (
    ("key(a, b)",),
    ("b -> c",),
    ("not(t.b == s.b and t.x < s.x and t.y > s.y)",),
    ("not(t.x < s.x)",),
    ("b -> c", "key(a)", "not(t.c == s.c and t.x < s.y)", "not(t.b == s.b and t.c != s.c and t.d != s.d)"),
    ("not(t.b == s.b and t.x < s.x and t.y > s.y and t.a < s.a)",),
    ("not(t.x > 5 and t.c == 'c3')",),
)
# A small process in between: the peak that the system reports for a process includes that of its parent.
_WATCHED = """
import os, resource, sys
child = os.fork()
if child == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.execv(sys.argv[1], sys.argv[1:])
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_maxrss * 1024, used.ru_utime + used.ru_stime)
"""


def trial(seed: int) -> Outcome:
    """`naysay check --memory` on one file: exit code 0, 1 or 4, and the peak memory reported by the system."""
    rng = random.Random(seed)
    low, high = (0.5, 20.0) if seed % 2 == 0 else (0.1, 0.5)
    size = int(CAP * low * (high / low) ** rng.random())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"data.{_FORMATS[seed // 2 % len(_FORMATS)]}"
        write(path, size, seed)
        options = [text for rule in rng.choice(_RULES) for text in ("--rule", rule)]
        options += rng.choice(([], ["--quick"], ["--out", str(Path(folder) / "out"), "--out-format", "csv"]))
        if seed % 2 == 0:
            return judged(path, size, options, CAP)
        refusal = _checked(path, options, _TOO_LITTLE)[3]
        needed = re.search(r"needs about ([\d,]+) MiB", refusal)
        if needed is None:
            return Outcome(failure=f"{path.suffix} of {size >> 20} MiB, {options}: no estimate: {refusal}")
        cap = int(1.05 * (int(needed[1].replace(",", "")) << 20))
        found = judged(path, size, options, cap)
        if not found.failure and not any("finished" in note for note in found.notes):
            return Outcome(failure=f"{path.suffix} of {size >> 20} MiB, {options}: refused with {cap >> 20} MiB")
        return found


def _checked(path: Path, options: list[str], cap: int) -> tuple[float, float, float, str]:
    """The exit code of a check, its peak memory in bytes, its CPU seconds, and its message."""
    command = [sys.executable, "-m", "naysay", "check", str(path), "--engine", "local", "--memory", str(cap)]
    done = subprocess.run(
        [sys.executable, "-S", "-c", _WATCHED, *command, *options], capture_output=True, text=True, check=True
    )
    code, peak, seconds = (float(word) for word in done.stdout.split())
    return code, peak, seconds, done.stderr


def judged(path: Path, size: int, options: list[str], cap: int = CAP) -> Outcome:
    code, peak, seconds, message = _checked(path, options, cap)
    peak /= cap
    what = f"{path.suffix} of {size >> 20} MiB, {options}: exit code {code:.0f}, peak {peak:.2f}, {message}"
    if code not in (0, 1, 4) or peak > _MOST:
        return Outcome(failure=what)
    if code != 4:
        within = "finished within 512 MiB" if cap == CAP else "finished with 1.05 times the estimate"
        return Outcome(notes=(within,), most=(("times the memory allowed, finished", peak),))
    if "this needs about" not in message and "listing" not in message:
        return Outcome(failure=f"refused without an estimate: {what}")
    if seconds > _REFUSAL_SECONDS * slowness() and "already" not in message:
        return Outcome(failure=f"refused after {seconds:.0f} s of processor time: {what}")
    when = "refused before the work" if "already" in message else "refused before reading"
    return Outcome(notes=(when,), most=(("times the memory allowed, refused", peak),))


def write(path: Path, size: int, seed: int) -> None:
    """A file of about this many bytes; beyond twice the limit its blocks repeat, to write it quickly."""
    blocks = _blocks(seed, distinct=max(1, min(2 * CAP, size) // 6_000_000))
    if path.suffix in (".csv", ".jsonl"):
        with path.open("wb") as file:
            for place, text in enumerate(_texts(blocks, path.suffix)):
                file.write(text if place == 0 or path.suffix == ".jsonl" else text[text.index(b"\n") + 1 :])
                if file.tell() >= size:
                    return
        return
    schema = next(blocks).schema
    with path.open("wb") as file:
        if path.suffix == ".arrow":
            with pyarrow.ipc.new_file(file, schema) as writer:
                for block in blocks:
                    writer.write_table(block)
                    if file.tell() >= size:
                        return
        with pyarrow.parquet.ParquetWriter(file, schema, compression="snappy") as writer:
            for block in blocks:
                writer.write_table(block)
                if file.tell() >= size:
                    return


def _texts(blocks: Iterator[pa.Table], suffix: str) -> Iterator[bytes]:
    known: dict[int, bytes] = {}
    for block in blocks:
        if id(block) not in known:
            known[id(block)] = _csv(block) if suffix == ".csv" else _json_lines(block)
        yield known[id(block)]


def _csv(block: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(block, sink)
    return sink.getvalue().to_pybytes()


def _json_lines(block: pa.Table) -> bytes:
    columns = [block[name].to_pylist() for name in block.column_names]
    return "".join(
        f'{{"a": {a}, "b": {b}, "c": "{c}", "d": "{d}", "x": {x}, "y": {y!r}}}\n'
        for a, b, c, d, x, y in zip(*columns, strict=True)
    ).encode()


def _blocks(seed: int, distinct: int) -> Iterator[pa.Table]:
    """Numbers, floats, short text with few values and longer text with many; endless, repeating after some blocks."""
    rng = np.random.default_rng(seed)
    words = np.array([f"c{i}" for i in range(1000)])
    made: list[pa.Table] = []
    while True:
        for place in range(distinct):
            if place == len(made) and len(made) < 40:
                first = place * _BLOCK_ROWS
                numbers = np.arange(first, first + _BLOCK_ROWS)
                made.append(
                    pa.table(
                        {
                            "a": numbers,
                            "b": rng.integers(0, 20_000, _BLOCK_ROWS),
                            "c": words[rng.integers(0, 1000, _BLOCK_ROWS)],
                            "d": [f"some text {number * 7919 % 1_000_003}" for number in numbers.tolist()],
                            "x": rng.integers(-(1 << 40), 1 << 40, _BLOCK_ROWS),
                            "y": rng.standard_normal(_BLOCK_ROWS),
                        }
                    )
                )
            yield made[place % len(made)]
