"""Every block of Python in README and docs runs, every example command works, every doctest of the package holds.

A block with prompts is a doctest; others are executed, one after the other a page. ```python norun is not run, and
```python spark only where Spark can run.
"""

from __future__ import annotations

import doctest
import importlib
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
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
    """A folder with the examples in it, to run the blocks in."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page, "python"))], ids=named)
def test_python_of_a_page(page: Path, workshop: Path) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for line, words, text in blocks(page, "python"):
        if "norun" in words or ("spark" in words and not _has_spark()):
            continue
        if ">>> " in text:
            test = doctest.DocTestParser().get_doctest(text, names, named(page), str(page), line)
            runner.run(test, clear_globs=False)
            names = test.globs
        else:
            exec(compile("\n" * (line - 1) + text, str(page), "exec"), names)  # noqa: S102
    assert runner.failures == 0


def _has_spark() -> bool:
    has_java = shutil.which("java") is not None or "JAVA_HOME" in os.environ
    return has_java and importlib.util.find_spec("pyspark") is not None


@pytest.mark.parametrize("page", [ROOT / "docs" / "cli.md", ROOT / "docs" / "tutorial.md"], ids=named)
def test_commands_of_a_page(page: Path, workshop: Path) -> None:
    from naysay.cli.group import naysay

    n_run = 0
    for _, _, text in blocks(page, "console"):
        for line in text.splitlines():
            command, _, target = line.removeprefix("$ ").partition(" > ")
            words = shlex.split(command)
            assert words[0] == "naysay", line
            done = CliRunner().invoke(naysay, words[1:])
            assert done.exit_code in (0, 1), f"{line}\n{done.output}"
            if target:
                (workshop / target).write_text(done.stdout, encoding="utf-8")
            n_run += 1
    assert n_run


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
