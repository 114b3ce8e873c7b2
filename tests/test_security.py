"""Security by construction, as far as a scan of the source and of its entry points can tell.

tests/test_layers.py also looks for outside data that is run as code. Here is the rest: SQL and templates built from
text, the network, logs, and the cache of compiled code, whose files are pickles.
"""

from __future__ import annotations

import ast
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from naysay.kernels import compile as compiling
from test_layers import FILES, SOURCE, dotted, imported_modules, security_faults

NETWORK = {"socket", "http", "urllib", "requests", "ssl", "asyncio", "ftplib", "smtplib", "xmlrpc", "socketserver"}
# Whether the given cluster answers at all; parsing an address.
NETWORK_PLACES = {
    "socket": ("spark/session.py",),
    "urllib.parse": ("io/remote.py", "live/feed/follow.py", "spark/csv.py", "spark/partitions.py"),
}
LOGS = {"logging", "syslog", "loguru"}
# Keeps py4j's log off the terminal.
LOG_PLACES = ("spark/session.py",)
CALLS = {
    *("os.popen", "os.execv", "os.execve", "os.spawnv", "pty.spawn", "tempfile.mktemp", "warnings.warn", "print"),
    *("yaml.full_load", "yaml.load_all", "yaml.unsafe_load_all", "pandas.read_pickle", "numpy.fromfile", "compile"),
}
LOADERS = {"yaml.Loader", "yaml.UnsafeLoader", "yaml.FullLoader", "yaml.CLoader"}
# Text that runs as SQL or as a template must be a constant of the source, or one in which `with_names` quotes names, or
# pass through `own`, which refuses what no text of our own has.
RUNS_TEXT = {"execute", "executemany", "sql", "expr", "selectExpr", "from_string"}


def faults(file: str, source: str) -> list[str]:
    """What a file does although none of our files may."""
    tree = ast.parse(source)
    found = [f"{line}: {module}" for line, module in imported_modules(file, tree) if _is_kept_out(file, module)]
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in {"expr", "selectExpr"} and id(node) not in called:
            found.append(f"{node.lineno}: passes on {node.attr}")
        if isinstance(node, ast.Attribute) and dotted(node) in LOADERS:
            found.append(f"{node.lineno}: {dotted(node)}")
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        if name in CALLS:
            found.append(f"{node.lineno}: calls {name}")
        if isinstance(node.func, ast.Attribute) and node.func.attr in RUNS_TEXT and not _is_constant(node):
            found.append(f"{node.lineno}: {node.func.attr} runs a text that is made, not written")
        if name.endswith("Environment") and not _has(node, "autoescape", True):
            found.append(f"{node.lineno}: a template that does not escape")
    return found


def _is_kept_out(file: str, module: str) -> bool:
    if module.split(".")[0] in LOGS:
        return file not in LOG_PLACES
    if module.split(".")[0] not in NETWORK:
        return False
    return not any(module.startswith(name) and file in files for name, files in NETWORK_PLACES.items())


def _is_constant(call: ast.Call) -> bool:
    if not call.args:
        return False
    # Other calls take parameters behind the text.
    texts = call.args if isinstance(call.func, ast.Attribute) and call.func.attr == "selectExpr" else call.args[:1]
    return all(map(_is_written, texts))


def _is_written(text: ast.expr) -> bool:
    if isinstance(text, ast.Starred) and isinstance(text.value, ast.Call) and dotted(text.value.func) == "map":
        return dotted(text.value.args[0]) == "own"
    if isinstance(text, ast.Call) and dotted(text.func) == "with_names":
        return _is_constant(text)
    if isinstance(text, ast.Call) and dotted(text.func) == "own":
        return True
    return isinstance(text, ast.Constant)


def _has(call: ast.Call, name: str, value: object) -> bool:
    return any(
        keyword.arg == name and isinstance(keyword.value, ast.Constant) and keyword.value.value is value
        for keyword in call.keywords
    )


@pytest.mark.parametrize("file", FILES)
def test_nothing_but_data_comes_in_and_nothing_goes_out(file: str) -> None:
    assert faults(file, (SOURCE / file).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import logging",
        "import urllib.request",
        "from http import client",
        "connection.execute(f'select {name}')",
        "connection.execute('select ' + name)",
        "spark.sql(text)",
        "F.expr(f'{name} > 0')",
        "data.select(*map(F.expr, texts))",
        "data.selectExpr('a', text)",
        "data.selectExpr(*texts)",
        "connection.execute(with_names(text, name))",
        "connection.execute(other_names('select {}', name))",
        "yaml.load(text, Loader=yaml.Loader)",
        "jinja2.Environment(loader=loader)",
        "environment.from_string(text)",
        "print(value)",
        "warnings.warn(f'{value}')",
        "tempfile.mktemp()",
    ],
)
def test_the_scan_finds_faults(source: str) -> None:
    assert faults("api.py", source) or security_faults("api.py", source)


def test_the_scan_lets_the_rest_pass() -> None:
    source = (
        "connection.execute('select ?', [name])\nconnection.execute(with_names('select {}', name))\n"
        "jinja2.Environment(autoescape=True)\nimport json"
    )
    assert faults("api.py", source) == []


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NAYSAY_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NAYSAY_NO_CACHE", raising=False)
    return tmp_path


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077])
def test_compiled_code_is_kept_in_a_private_folder(base: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        folder = compiling._private_folder()
    finally:
        os.umask(before)
    assert folder is not None
    for place in (folder, folder.parent):
        assert place.is_relative_to(base / "naysay")
        assert stat.S_IMODE(place.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
@pytest.mark.parametrize("up", [0, 1])
def test_a_folder_that_others_can_write_to_is_not_used(base: Path, mode: int, up: int) -> None:
    folder = compiling._private_folder()
    assert folder is not None
    (folder, folder.parent)[up].chmod(mode)
    assert compiling._private_folder() is None


def test_a_link_is_not_used(base: Path) -> None:
    folder = compiling._private_folder()
    assert folder is not None
    folder.rename(base / "elsewhere")
    folder.symlink_to(base / "elsewhere")
    assert compiling._private_folder() is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_not_used(base: Path) -> None:
    folder = compiling._private_folder()
    assert folder is not None
    os.chown(folder, 12345, 12345)
    assert compiling._private_folder() is None


def test_no_folder_where_none_is_wanted(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAYSAY_NO_CACHE", "1")
    assert compiling._private_folder() is None


_MANY_THREADS = """
import sys, threading
import numba
from naysay.kernels import compile

sys.setswitchinterval(1e-6)
before, made = numba.config.CACHE_DIR, []

def work():
    for number in range(150):
        made.append(compile.kernel(lambda value: value + number))

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(made) == 600
assert all(kernel.stats.cache_path.startswith(str(compile._FOLDER)) for kernel in made)
assert numba.config.CACHE_DIR == before
"""


def test_compiled_code_stays_in_its_folder_when_threads_load_kernels_at_once(tmp_path: Path) -> None:
    """Cache files are pickles: one in the current folder would be loaded from there."""
    environment = {**os.environ, "NAYSAY_CACHE_DIR": str(tmp_path)}
    environment.pop("NUMBA_DISABLE_JIT", None)
    script = tmp_path / "many_threads.py"
    script.write_text(_MANY_THREADS, encoding="utf-8")
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
