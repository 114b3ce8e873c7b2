"""Print how the source is laid out: files per folder, importers, class names with two meanings, lines, and how many
files each of four calls runs through.

Usage: bash scripts/house [--calls]. Without --calls the four calls, which take a minute, are left out.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "naysay"

# Each call runs in its own process, on a table small enough to run kernels uncompiled: compiled kernels call no Python
# functions, so the tracer would not see them.
TABLE = (
    'import naysay, pyarrow as pa\npeople = pa.table({"id": [1, 2, 3], "zip": [1, 1, 2], "city": ["a", "b", "c"]})\n'
)
CALLS = {
    "check in-process": TABLE + 'naysay.check(people, ["zip -> city"])',
    "check on Spark": TABLE
    + "from pyspark.sql import SparkSession\n"
    + "spark = SparkSession.builder.master('local[1]').getOrCreate()\n"
    + 'naysay.check(spark.createDataFrame(people.to_pandas()), ["zip -> city"])',
    "watch": TABLE + 'watch = naysay.Watch(["zip -> city"], key="id")\nwatch.apply(inserts=people)',
    "discover": TABLE + "naysay.discover(people).findings",
}

# Loaded by every Python process of a call, including Spark's workers. A file is recorded when one of its functions
# first runs.
TRACER = f"""
import os, sys, threading
seen = set()
def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename not in seen and code.co_name != "<module>":
        seen.add(code.co_filename)
        if code.co_filename.startswith({str(SOURCE)!r}):
            with open(os.environ["NAYSAY_TOUCHED"], "a") as log:
                log.write(code.co_filename + "\\n")
sys.setprofile(note)
threading.setprofile(note)
"""


def source_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = ("naysay", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers(files: list[Path]) -> dict[str, set[str]]:
    """For each module, the modules that import it."""
    found: dict[str, set[str]] = {module_name(path): set() for path in files}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [name if name in found else node.module for name in whole]
            for name in names:
                if name in found:
                    found[name].add(module_name(path))
    return found


def class_homes(files: list[Path]) -> dict[str, set[str]]:
    homes: dict[str, set[str]] = defaultdict(set)
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(module_name(path))
    return homes


def files_touched(script: str) -> int:
    """How many source files run a function during a call, on the driver and in Spark's workers."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(TRACER, encoding="utf-8")
        log = Path(folder, "touched")
        log.touch()
        path = os.pathsep.join(filter(None, (folder, str(SOURCE.parent), os.environ.get("PYTHONPATH", ""))))
        # Uncompiled, kernels that wrap around on purpose would warn of it.
        settings = {"NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore", "PYSPARK_PYTHON": sys.executable}
        environment = os.environ | settings | {"PYTHONPATH": path, "NAYSAY_TOUCHED": str(log)}
        subprocess.run([sys.executable, "-c", script], env=environment, check=True, stdout=subprocess.DEVNULL)
        return len(set(log.read_text(encoding="utf-8").split("\n")) - {""})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", action="store_true", help="also run the four calls and count the files they touch")
    arguments = parser.parse_args()

    files = source_files()
    folders = Counter(str(path.parent.relative_to(SOURCE)) for path in files)
    print("files per folder")
    for folder, count in folders.most_common():
        print(f"  {count:3d}  {folder}")
    print(f"largest folder: {max(folders.values())} files")
    print(f"files: {len(files)}")
    print(f"lines: {sum(len(path.read_text(encoding='utf-8').splitlines()) for path in files):,}")
    single = [name for name, users in importers(files).items() if len(users) == 1]
    print(f"modules with one importer: {len(single)}")
    shared = {name: homes for name, homes in class_homes(files).items() if len(homes) > 1}
    print(f"class names with two meanings: {len(shared)}")
    for name, homes in sorted(shared.items()):
        print(f"  {name}: {', '.join(sorted(homes))}")
    if arguments.calls:
        print("files touched by a call")
        for name, script in CALLS.items():
            print(f"  {files_touched(script):3d}  {name}")


if __name__ == "__main__":
    main()
