"""Every code block of README and docs runs, or is marked as not runnable; every doctest of the package passes.

The word after the fence, and possibly a second one, says what a block is:

python    with prompts a doctest, else executed, one after the other per page; norun: only compiled
console   lines after `$ ` are naysay commands, run one after the other per page; other lines occur in their output, in
          order; norun: not run
rules     a file of rules; `rule` and `error` belong to the page about rules, which has its own tests
sql       runs in DuckDB on the visits of the examples; {{ ref('visits') }} is filled in as by dbt
yaml      is parsed
bash      names scripts that exist
text      is only shown

`spark` after python or console: runs only if Spark is available.
"""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
KINDS = {"python", "console", "rules", "rule", "error", "sql", "yaml", "bash", "text", "json"}
CLINICS = "examples/data/clinics.csv"
WORDS = {"", "norun", "spark"}
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
MODULES = sorted(
    ".".join(["naysay", *path.relative_to(ROOT / "src" / "naysay").with_suffix("").parts])
    for path in (ROOT / "src" / "naysay").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


def blocks(page: Path, language: str) -> Iterator[tuple[int, str, str]]:
    """Line, words after the language, and text of each block in a language."""
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        if found.group(1) == language:
            yield text.count("\n", 0, found.start()) + 2, found.group(2).strip(), found.group(3)


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that contains the examples, to run the blocks in."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page, "python"))], ids=named)
def test_python_of_a_page(page: Path, workshop: Path) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for line, words, text in blocks(page, "python"):
        if "norun" in words:
            compile(text, str(page), "exec")
            continue
        if "spark" in words:
            _run_apart(["-c", text])
            continue
        if ">>> " in text:
            test = doctest.DocTestParser().get_doctest(text, names, named(page), str(page), line)
            runner.run(test, clear_globs=False)
            names = test.globs
        else:
            exec(compile("\n" * (line - 1) + text, str(page), "exec"), names)  # noqa: S102
    assert runner.failures == 0


def _run_apart(arguments: list[str]) -> str:
    """Run Python in its own process, apart from the Spark sessions of other tests; does nothing without Spark."""
    if not _has_spark():
        return ""
    # To a file: a pipe would stay open as long as any process that Spark started.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=500,
            check=False,
        )
        output.seek(0)
        text = output.read()
    assert done.returncode in (0, 1), text
    assert "Traceback" not in text, text
    return text


def _has_spark() -> bool:
    has_java = shutil.which("java") is not None or "JAVA_HOME" in os.environ
    return has_java and importlib.util.find_spec("pyspark") is not None


def pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if any(blocks(page, language))]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_is_of_a_known_kind(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * len(BLOCK.findall(text))
    strange = [found[:2] for found in BLOCK.findall(text) if found[0] not in KINDS or found[1].strip() not in WORDS]
    assert strange == []


@pytest.mark.parametrize("page", pages_with("console"), ids=named)
def test_commands_of_a_page(page: Path, workshop: Path) -> None:
    for line, words, text in blocks(page, "console"):
        if "norun" in words or ("spark" in words and not _has_spark()):
            continue
        output = ""
        for shown in text.splitlines():
            if shown.startswith("$ "):
                output = _run(shown.removeprefix("$ "), workshop, apart="spark" in words)
            else:
                before, found, output = output.partition(shown.strip())
                assert found == shown.strip(), f"{named(page)}:{line}: {shown!r} is not in\n{before}"


def _run(command: str, workshop: Path, *, apart: bool) -> str:
    from naysay.cli.group import naysay

    command, _, target = command.partition(" > ")
    words = shlex.split(command)
    assert words[0] == "naysay", command
    if apart:
        return _run_apart(["-m", *words])
    done = CliRunner().invoke(naysay, words[1:], env={"COLUMNS": "100"})
    assert done.exit_code in (0, 1), f"{command}\n{done.output}"
    if target:
        (workshop / target).write_text(done.stdout, encoding="utf-8")
    return done.output


@pytest.mark.parametrize("page", [page for page in pages_with("rules") if page.name != "rules.md"], ids=named)
def test_rules_of_a_page(page: Path) -> None:
    from naysay.rule import parse_rules

    for _, _, text in blocks(page, "rules"):
        assert parse_rules(text)


@pytest.mark.parametrize("page", pages_with("sql"), ids=named)
def test_sql_of_a_page(page: Path) -> None:
    import duckdb

    con = duckdb.connect()
    con.execute("create table visits as from read_csv($1, types={'zip': 'varchar'})", [str(ROOT / CLINICS)])
    for _, _, text in blocks(page, "sql"):
        filled = text.replace("{{ ref('visits') }}", "visits")
        # This is how dbt counts the rows of a singular test.
        counted = con.execute(f"select count(*) from (\n{filled}\n) test").fetchone()
        assert counted
        assert counted[0] > 0


@pytest.mark.parametrize("page", pages_with("yaml"), ids=named)
def test_yaml_of_a_page(page: Path) -> None:
    for _, _, text in blocks(page, "yaml"):
        assert yaml.safe_load(text)


@pytest.mark.parametrize("page", pages_with("bash"), ids=named)
def test_scripts_of_a_page_exist(page: Path) -> None:
    for _, _, text in blocks(page, "bash"):
        for script in re.findall(r"bash (\S+/\S+)", text):
            assert (ROOT / script).is_file()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    broken = [
        target
        for target in LINK.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


@pytest.mark.parametrize("module", MODULES)
def test_doctests_of_a_module(module: str) -> None:
    if ".spark" in module or ".stream" in module:
        pytest.importorskip("pyspark")
    found = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0
    assert found.attempted > 0


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_source_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text))
    roots = (ROOT, ROOT / "src" / "naysay")
    assert [path for path in sorted(paths) if not any((root / path).is_file() for root in roots)] == []
