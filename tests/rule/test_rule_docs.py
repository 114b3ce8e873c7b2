"""Every example on the page about rules is true."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from naysay.errors import RuleError
from naysay.rule import parse, parse_rules, render

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
COLUMNS = ["ZipCode", "City", "State"]


def blocks(kind: str) -> list[str]:
    return [text for found, text in BLOCKS if found == kind]


def test_every_block_is_of_a_kind_that_runs() -> None:
    assert {kind for kind, _ in BLOCKS} == {"rule", "rules", "error", "python"}


@pytest.mark.parametrize("line", [line for text in blocks("rule") for line in text.splitlines()])
def test_rules(line: str) -> None:
    """A comment after a rule is the same rule in its long form."""
    text, _, meaning = line.partition("  # ")
    if not meaning:
        text, _, meaning = line.partition(" # ")
    assert render(parse(line)) == (meaning.strip() or render(parse(text)))


@pytest.mark.parametrize("text", blocks("rules"))
def test_files(text: str) -> None:
    assert parse_rules(text)


def test_the_column_file_is_the_rule_that_is_said() -> None:
    text = next(text for text in blocks("rules") if text.startswith("Category"))
    assert render(parse_rules(text)[0]) in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", blocks("error"))
def test_errors(text: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse(text.splitlines()[1].strip(), columns=COLUMNS)
    assert str(caught.value) == text.rstrip("\n")


@pytest.mark.parametrize("text", blocks("python"))
def test_python(text: str) -> None:
    test = doctest.DocTestParser().get_doctest(text, {}, "rules.md", str(PAGE), 0)
    assert doctest.DocTestRunner().run(test).failed == 0
    assert test.examples
