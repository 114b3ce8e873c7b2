"""The layers of the source: imports go down only, and heavy libraries stay where they belong.

LAYERS and the tables below it are the declaration. The tests compare it with all imports of src/naysay, including those
inside functions and under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "naysay"
FILES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))

# From top to bottom: a file imports from its own folder and from those below. Folders on the same line are neighbours,
# which do not import each other. "naysay" is the public package, __init__.py.
LAYERS = (
    ("naysay",),
    ("cli",),
    ("api",),
    ("report",),
    ("papers",),
    ("evolve", "repairs"),
    ("detect", "discovery", "watch"),
    ("live",),
    ("spark",),
    ("io",),
    ("plan",),
    ("table",),
    ("rule", "kernels"),
    ("budget", "present", "published"),
    ("arrays", "errors", "version"),
)
HEIGHTS = {name: height for height, names in enumerate(LAYERS) for name in names}
# Libraries that may be imported only under folders with these names, at any depth.
PLACES = {"pyspark": ("spark",), "cupy": ("kernels",), "numba": ("kernels",), "pandas": (), "polars": ()}
KERNEL_LIBRARIES = {"numpy", "numba", "cupy"}
HEAVY = ("pyspark", "numba", "pandas", "polars")

FORBIDDEN_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}
FORBIDDEN_CALLS = {"eval", "exec", "__import__", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load"}
FORBIDDEN_FLAGS = {"shell", "allow_pickle"}


def layer_of(file: str) -> str:
    """The layer of a file: its folder or its own name; "naysay" for the package's own files."""
    first = file.split("/")[0].removesuffix(".py")
    return "naysay" if first in ("__init__", "__main__") else first


def imported_modules(file: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, anywhere in the file; for `from a import b` both `a` and `a.b`."""
    package = ["naysay", *file.split("/")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module != "naysay":
                yield node.lineno, module
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"
        elif isinstance(node, ast.Call) and dotted(node.func).endswith("import_module") and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield node.lineno, name.value


def dotted(node: ast.expr) -> str:
    """The dotted name that an expression spells, such as `os.system`; empty if it spells none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and dotted(node.value):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


def layer_faults(file: str, source: str) -> list[str]:
    """The imports of a file that are not allowed, one line each."""
    layer = layer_of(file)
    if layer not in HEIGHTS:
        return [f"{file}: there is no layer {layer!r}; declare it in LAYERS, at its height"]
    faults = {}
    for line, module in imported_modules(file, ast.parse(source)):
        fault = _own_fault(layer, module) if module.split(".")[0] == "naysay" else _library_fault(file, layer, module)
        if fault:
            faults[line, fault] = f"{file}:{line}: {fault}"
    return list(faults.values())


def _own_fault(layer: str, module: str) -> str:
    parts = module.split(".")
    target = parts[1] if len(parts) > 1 and parts[1] in HEIGHTS else "naysay"
    if target != layer and HEIGHTS[target] == HEIGHTS[layer]:
        return f"{layer} imports {target}, its neighbour"
    if HEIGHTS[target] < HEIGHTS[layer]:
        return f"{layer} imports {target}, which is above it"
    return ""


def _library_fault(file: str, layer: str, module: str) -> str:
    library = module.split(".")[0]
    if library in PLACES and not set(PLACES[library]) & set(file.split("/")[:-1]):
        return f"{library} may be named only in folders named {', '.join(PLACES[library]) or 'otherwise'}"
    if layer == "kernels" and library not in KERNEL_LIBRARIES | sys.stdlib_module_names:
        return f"kernels import {library}; they may use only {', '.join(sorted(KERNEL_LIBRARIES))}"
    return ""


def security_faults(file: str, source: str) -> list[str]:
    """Anything that could run outside data as code, or text as a command."""
    tree = ast.parse(source)
    faults = [
        f"{file}:{line}: imports {module}"
        for line, module in imported_modules(file, tree)
        if module.split(".")[0] in FORBIDDEN_MODULES
    ]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if dotted(node.func).removeprefix("builtins.") in FORBIDDEN_CALLS:
            faults.append(f"{file}:{node.lineno}: calls {dotted(node.func)}")
        for keyword in node.keywords:
            off = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            if keyword.arg in FORBIDDEN_FLAGS and not off:
                faults.append(f"{file}:{node.lineno}: passes {keyword.arg}=")
    return faults


@pytest.mark.parametrize("file", FILES)
def test_imports_go_down_only(file: str) -> None:
    assert layer_faults(file, (SOURCE / file).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("file", FILES)
def test_nothing_runs_outside_data(file: str) -> None:
    assert security_faults(file, (SOURCE / file).read_text(encoding="utf-8")) == []


def test_importing_naysay_loads_nothing_heavy() -> None:
    script = f"import sys, naysay; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("file", "source", "fault"),
    [
        ("plan/join.py", "from naysay.detect.violations import count", "plan imports detect, which is above it"),
        ("plan/join.py", "from naysay import api", "plan imports api, which is above it"),
        ("plan/join.py", "from ..spark import frame", "plan imports spark, which is above it"),
        ("plan/join.py", "import naysay", "plan imports naysay, which is above it"),
        ("cli/check.py", "from naysay import check", "cli imports naysay, which is above it"),
        ("table/table.py", "def f():\n    from naysay.plan import join", "table imports plan, which is above it"),
        ("rule/parse.py", "import naysay.kernels.sort", "rule imports kernels, its neighbour"),
        ("kernels/sort.py", "from ..rule import model", "kernels imports rule, its neighbour"),
        ("detect/count.py", "from naysay.discovery.engine import discover", "detect imports discovery, its neighbour"),
        ("discovery/x.py", "from naysay.evolve.method import Method", "discovery imports evolve, which is above it"),
        ("watch/state.py", "from naysay.papers.weever import index", "watch imports papers, which is above it"),
        ("live/rows.py", "from naysay.watch.state import State", "live imports watch, which is above it"),
        ("kernels/sort.py", "import pyarrow", "kernels import pyarrow; they may use only cupy, numba, numpy"),
        ("api.py", "import pyspark.sql", "pyspark may be named only in folders named spark"),
        (
            "detect/engine.py",
            "if TYPE_CHECKING:\n    from pyspark.sql import DataFrame",
            "pyspark may be named only in folders named spark",
        ),
        ("api.py", "importlib.import_module('pyspark')", "pyspark may be named only in folders named spark"),
        ("detect/count.py", "import cupy", "cupy may be named only in folders named kernels"),
        ("detect/count.py", "from numba import njit", "numba may be named only in folders named kernels"),
        ("table/frame.py", "import pandas", "pandas may be named only in folders named otherwise"),
        ("drawer/x.py", "", "there is no layer 'drawer'; declare it in LAYERS, at its height"),
    ],
)
def test_the_layer_check_finds_faults(file: str, source: str, fault: str) -> None:
    (found,) = layer_faults(file, source)
    assert found.endswith(fault)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("__init__.py", "from naysay.api import check"),
        ("cli/check.py", "from naysay import api\nfrom naysay.errors import NaysayError"),
        ("api.py", "from naysay.detect.violations import count\nfrom . import errors"),
        ("detect/spark/engine.py", "import pyspark\nfrom naysay.spark.frame import Frame"),
        ("spark/frame.py", "from pyspark.sql import functions"),
        ("evolve/method.py", "from naysay.discovery.problem import Problem"),
        ("papers/hydra/method.py", "from naysay.discovery.problem import Problem"),
        ("kernels/evidence/gpu.py", "import cupy\nimport math\nfrom naysay.kernels.compile import kernel"),
        ("rule/parse.py", "from naysay.rule import model\nfrom naysay.errors import RuleError"),
    ],
)
def test_the_layer_check_lets_the_rest_pass(file: str, source: str) -> None:
    assert layer_faults(file, source) == []


@pytest.mark.parametrize(
    "source",
    [
        "eval('1')",
        "builtins.exec(text)",
        "def f():\n    import pickle",
        "from marshal import loads",
        "yaml.load(text)",
        "os.system('ls')",
        "subprocess.run(text, shell=True)",
        "numpy.load(path, allow_pickle=flag)",
    ],
)
def test_the_security_scan_finds_faults(source: str) -> None:
    assert security_faults("api.py", source)


def test_the_security_scan_lets_the_rest_pass() -> None:
    calls = ("yaml.safe_load(text)", "subprocess.run(['ls'], shell=False)", "evaluate(x)", "cursor.execute(text)")
    assert [security_faults("api.py", call) for call in calls] == [[]] * len(calls)
