"""What the pages of the papers name exists: places in the code, tests, experiments with their commands, and figures."""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path

import click
import pytest

from naysay.cli.group import naysay

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "papers"))

import common  # noqa: E402

PAPERS = ["facet", "hydra", "incdc", "rapidash", "weever"]
PAGES = sorted(page for page in (ROOT / "docs" / "papers").glob("*.md") if page.stem != "index")
# What a row of the table of experiments says, and how the section of these experiments begins its verdict.
VERDICTS = {"reproduced": "**Reproduced", "in part": "**Reproduced in part", "not reproduced": "**Not reproduced"}


@cache
def sources(folder: str) -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in (ROOT / folder).rglob("*.py")}


def is_file(name: str, folder: str) -> bool:
    return any(path.endswith(f"/{name}") or path == name for path in sources(folder))


def is_defined(name: str) -> bool:
    """Whether the code defines every part of a dotted name, or says a name with a dash such as rapidash-vanilla."""
    text = "\n".join(sources("src").values())
    if "-" in name:
        return f'"{name}"' in text
    return all(re.search(rf"\b(?:def|class) {part}\b|\b{part}\b\s*[:=]", text) for part in name.split("."))


def methods(page: Path) -> list[list[str]]:
    """The rows of the table of methods: what the paper has, its place, its test."""
    section = page.read_text().split("## Every method, its place and its test")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[1:]]


def listed_experiments(page: Path) -> list[list[str]]:
    """The rows of the table of experiments: what the paper has, what we have, whether its claim is reproduced."""
    table = page.read_text().split("| in the paper | here | claim |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table.splitlines()[2:]]


def sections(page: Path) -> dict[str, str]:
    """The text of the section of each experiment, by the experiment's name."""
    found: dict[str, str] = {}
    for section in page.read_text().split("\n### ")[1:]:
        found |= dict.fromkeys(re.findall(r"<!-- ((?!end )[\w-]+) -->", section), section)
    return found


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_paper_has_a_page() -> None:
    assert [page.stem for page in PAGES] == PAPERS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_method_has_a_place_and_a_test_that_exist(page: Path) -> None:
    rows = methods(page)
    assert len(rows) > 5
    for row in rows:
        assert len(row) == 3, row
        _, place, test = row
        # A claim about speed has no place of its own.
        names = [name.split("[")[0] for name in quoted(place) if not name.startswith("--")]
        missing = [name for name in names if not (is_file(name, "src") if name.endswith(".py") else is_defined(name))]
        assert not missing, f"{page.name} names {missing}, which src/naysay does not have"
        assert quoted(test) or test.startswith("the same"), f"no test: {row}"
        for name in quoted(test):
            path, is_test = name.rstrip("/"), name.split("[")[0]
            found = (
                is_file(path, "tests") or (ROOT / path).is_dir()
                if "/" in path or path.endswith(".py")
                else any(f"def {is_test}(" in text for text in sources("tests").values())
            )
            assert found, f"{page.name} names the test {name}, which does not exist"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_experiment_has_a_command_and_a_result(page: Path) -> None:
    text = page.read_text()
    script = (ROOT / "benchmarks" / "papers" / f"{page.stem}.py").read_text()
    named = re.findall(r'Experiment\(\s*"([\w-]+)"', script)
    # Several of one kind are made in a loop.
    begun = tuple(re.findall(r'Experiment\(\s*f"([\w-]+)\{', script))
    results = re.findall(r"<!-- ((?!end )[\w-]+) -->", text)
    assert len(named) > 3
    assert set(named) <= set(results)
    assert all(name in named or (begun and name.startswith(begun)) for name in results)
    commands = re.findall(r"`python benchmarks/papers/(\w+)\.py --only ([\w,-]+)(?: --rows \d+)?`", text)
    assert {paper for paper, _ in commands} == {page.stem}
    assert sorted(name for _, names in commands for name in names.split(",")) == sorted(results)
    for name in results:
        table = text.partition(f"<!-- {name} -->")[2].partition(f"<!-- end {name} -->")[0]
        assert table.count("\n| ") > 1, f"{page.name} has no result for {name}"
    for figure in re.findall(r"\]\(([\w-]+\.svg)\)", text):
        assert (page.parent / figure).exists(), figure
    unused = {path.name for path in page.parent.glob(f"{page.stem}-*.svg")} - set(re.findall(r"[\w-]+\.svg", text))
    assert not unused


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_results_are_those_of_the_figures(page: Path) -> None:
    text = page.read_text()
    figures = json.loads((ROOT / "docs" / "figures" / "papers" / f"{page.stem}.json").read_text())
    assert set(figures) == set(re.findall(r"<!-- ((?!end )[\w-]+) -->", text))
    for name, figure in figures.items():
        common.refuse_failures(name, figure["table"])
        result = f"With `--rows {figure['rows']}`:\n\n{common.table_text(figure['table'])}\n"
        assert result in text.partition(f"<!-- {name} -->")[2].partition(f"<!-- end {name} -->")[0], name


def test_a_benchmark_that_fails_is_no_result() -> None:
    common.refuse_failures("figure-1", [{"rows": 1, "FACET": 2.5, "Rapidash": "ResourceError", "default": "over 60 s"}])
    with pytest.raises(SystemExit, match="figure-1 failed with TypeError"):
        common.refuse_failures("figure-1", [{"rows": 1, "FACET": "TypeError"}])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_claim_has_a_verdict(page: Path) -> None:
    text_of, rows = sections(page), listed_experiments(page)
    named: set[str] = set()
    for row in rows:
        assert len(row) == 3, row
        what, here, verdict = row
        assert verdict in {*VERDICTS, "no claim", "left out"}, row
        assert ("left out:" in here) == (verdict == "left out"), f"{what}: say why it is left out"
        for name in set(quoted(here)) & set(text_of):
            named.add(name)
            said = [word for word, begin in VERDICTS.items() if re.search(re.escape(begin) + r"\.?\*\*", text_of[name])]
            assert said == [verdict] or (verdict == "no claim" and "Claim" not in text_of[name]), f"{what}: {said}"
    assert named == set(text_of), f"the table of {page.name} lacks {set(text_of) - named}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_says_how_to_run_its_experiments(page: Path) -> None:
    assert "index.md#how-to-run-an-experiment" in page.read_text()
    assert "requirements/bench.lock" in (page.parent / "index.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_call_has_options_and_arguments_that_exist(page: Path) -> None:
    calls = re.findall(r"^naysay (.+)$", page.read_text(), re.MULTILINE)
    assert calls
    for call in calls:
        name, *given = call.split()
        command = naysay.get_command(click.Context(naysay), name)
        assert command is not None, call
        _, left_over, _ = command.make_parser(click.Context(command)).parse_args(given)
        assert not left_over, f"{page.name}: naysay {call} has an argument too many: {left_over}"
