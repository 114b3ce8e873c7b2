"""Paths and pickles: everything is written inside its folder, and no planted pickle is ever loaded."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "corpus"))

import pyarrow as pa
from path_names import PATH_NAMES

import naysay
from naysay.detect.request import CheckOptions
from naysay.errors import NaysayError, StateError, UsageError
from naysay.io.files import read_table
from naysay.report.results import ResultsFolder, write_results
from naysay.rule import parse
from naysay.rule.model import Rule
from naysay.table import from_frame
from soak.row import FINE, Outcome

_ROWS = pa.table({"id": [1, 2, 3, 4], "a": [1, 1, 2, 2], "b": [1, 2, 3, 3]})
_WRITTEN = ("violations", "violations/01-x.csv", "conflict_rows.csv", "cells.csv", "report.json", ".naysay-results")
_STORES = ("state.duckdb", "state.duckdb.seal", "state.duckdb.wal")
_INPUTS = (".parquet", ".arrow", ".orc", ".csv", ".jsonl")
_FOLDERS = ("for all to write", "for the group to write", "of somebody else", "a link")


@dataclass(frozen=True)
class Planted:
    """An object that would create the file `path` if it were unpickled."""

    path: str

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (self.path, "w"))


def trial(seed: int) -> Outcome:
    """One case, in its own folder with a witness outside the output folder."""
    name, case = CASES[seed % len(CASES)]
    with tempfile.TemporaryDirectory() as folder:
        outside = Path(folder) / "outside"
        (outside / "inner").mkdir(parents=True)
        (outside / "witness").write_text("as it was")
        (outside / "inner" / "01-x.csv").write_text("as it was")
        before = _contents(outside)
        fault = case(Path(folder))
        if _contents(outside) != before:
            fault = f"something outside has changed; {fault}"
        if (Path(folder) / "unpickled").exists():
            fault = f"a planted pickle was loaded; {fault}"
    return Outcome(failure=f"{name}: {fault}") if fault else FINE


def _name_of_a_rule(text: str, folder: Path) -> str:
    """All results of a rule with that name are inside the output folder."""
    _check(folder / "out", Rule(parse("a -> b").predicates, name=text))
    entries = sorted(path.name for path in folder.iterdir())
    if entries != ["out", "outside"]:
        return f"there is {entries}"
    found = sorted(path.name for path in (folder / "out" / "violations").iterdir())
    return "" if len(found) == 1 and found[0].startswith("01") and found[0].endswith(".csv") else f"{found}"


def _link_in_the_output(place: str, target: str, folder: Path) -> str:
    """An output folder of an earlier run in which a link replaces a file: never followed."""
    rule = Rule(parse("a -> b").predicates, name="x")
    _check(folder / "out", rule)
    path = folder / "out" / place
    if path.is_dir():
        for inner in path.iterdir():
            inner.unlink()
        path.rmdir()
    else:
        path.unlink()
    path.symlink_to(folder / "outside" / target)
    try:
        _check(folder / "out", rule)
    except UsageError as error:
        return "" if "--out" in str(error) else f"refused otherwise: {error}"
    return f"{place} is still a link" if path.is_symlink() else ""


def _output_is(what: str, folder: Path) -> str:
    """An output path that is not a folder, or not ours: refused and left unchanged."""
    out = folder / "out"
    if what == "a link":
        out.symlink_to(folder / "outside")
    elif what == "a dangling link":
        out.symlink_to(folder / "outside" / "nothing")
    elif what == "a file":
        out.write_text("x")
    elif what == "another's folder":
        out = folder / "outside"
    else:
        _check(out, parse("a -> b"))
        (out / what).write_text("mine")
    try:
        _check(out, parse("a -> b"))
    except UsageError as error:
        return "" if "--out" in str(error) else f"refused otherwise: {error}"
    return "written to"


def _pickle_as_input(suffix: str, protocol: int, folder: Path) -> str:
    path = folder / f"data{suffix}"
    path.write_bytes(_pickle(folder, protocol))
    try:
        naysay.count(read_table(str(path)), "key(a)")
    except NaysayError:
        return ""
    except Exception as error:
        return repr(error)
    # A text of one line is a header without rows.
    return "" if suffix == ".csv" else "read as a table"


def _pickle_in_a_store(verb: str, file: str, protocol: int, folder: Path) -> str:
    """A planted pickle in place of a state file of a watch or an evolver: reported as damage, or no effect."""
    store = folder / "state.duckdb"
    if verb == "watch":
        with naysay.Watch("a -> b", "id", state=store) as watch:
            watch.apply(inserts=_ROWS, batch_id="1")
            wanted: Any = watch.counts
    else:
        with naysay.Evolver(_ROWS, key="id", state=store) as evolver:
            wanted = sorted(map(str, evolver.rules))
    (folder / file).write_bytes(_pickle(folder, protocol))
    try:
        if verb == "watch":
            with naysay.Watch.open(store) as watch:
                found: Any = watch.counts
        else:
            with naysay.Evolver.open(store) as evolver:
                found = sorted(map(str, evolver.rules))
    except StateError as error:
        return "" if "state.duckdb" in str(error) else f"no file is named: {error}"
    return "" if found == wanted else f"{found}, not {wanted}"


_KERNEL = "import numpy; from naysay.kernels.sort import sorted_places as k; k(numpy.arange(3), numpy.arange(3))"


def _pickle_in_the_cache(what: str, folder: Path) -> str:
    """Compiled code is cached as pickles: a folder that others can write to is not used."""
    base = folder / "cache"
    base.mkdir(mode=0o700)
    _run_kernel(base, "import naysay.kernels.compile")
    (kept,) = (base / "naysay").iterdir()
    # numba derives the name of the index file from the kernel's name; every such file is planted here.
    _run_kernel(base, _KERNEL)
    planted = list(kept.rglob("*.nb?"))
    if not planted:
        return "nothing was kept"
    for path in planted:
        path.write_bytes(_pickle(folder, 4))
    if what == "for all to write":
        kept.chmod(0o777)
    elif what == "for the group to write":
        kept.chmod(0o770)
    elif what == "of somebody else":
        if os.getuid() != 0:
            return ""
        os.chown(kept, 12345, 12345)
    else:
        kept.rename(folder / "elsewhere")
        kept.symlink_to(folder / "elsewhere")
    return _run_kernel(base, _KERNEL)


def _run_kernel(base: Path, program: str) -> str:
    environment = {**os.environ, "NAYSAY_CACHE_DIR": str(base)}
    environment.pop("NAYSAY_NO_CACHE", None)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    return done.stderr if done.returncode else ""


def _cases() -> list[tuple[str, Callable[[Path], str]]]:
    cases: list[tuple[str, Callable[[Path], str]]] = []
    cases += [(f"a rule named {text!r}", partial(_name_of_a_rule, text)) for text in PATH_NAMES]
    for place in _WRITTEN:
        for target in ("witness", "inner", "nothing"):
            cases.append((f"{place} is a link to {target}", partial(_link_in_the_output, place, target)))
    for what in ("a link", "a dangling link", "a file", "another's folder", "mine.txt", "report", ".hidden"):
        if what != "report":
            cases.append((f"the output is {what}", partial(_output_is, what)))
    for suffix in _INPUTS:
        for protocol in (0, 2, 5):
            cases.append((f"a pickle as {suffix}", partial(_pickle_as_input, suffix, protocol)))
    for verb in ("watch", "evolve"):
        for file in _STORES:
            for protocol in (0, 2, 5):
                cases.append((f"a pickle as {file} of {verb}", partial(_pickle_in_a_store, verb, file, protocol)))
    cases += [(f"a cache that is {what}", partial(_pickle_in_the_cache, what)) for what in _FOLDERS]
    return cases


CASES = _cases()


def _check(out: Path, rule: Rule) -> None:
    table = from_frame(_ROWS)
    write_results(table, naysay.check(table, [rule]), CheckOptions(), ResultsFolder(str(out), "csv"))


def _pickle(folder: Path, protocol: int) -> bytes:
    return pickle.dumps(Planted(str(folder / "unpickled")), protocol)


def _contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }
