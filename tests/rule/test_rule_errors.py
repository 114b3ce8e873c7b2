"""Texts that are not rules: each is refused immediately with a RuleError that has its position and its own message."""

from __future__ import annotations

import math
import random
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from drawn_rules import random_rule

from naysay.errors import RuleError
from naysay.rule import Rule, parse, parse_rules, read_rules, render, render_file

CORPUS: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "corpus" / "bad_rules.yaml").read_text(encoding="utf-8")
)
SEEDS = (
    "not(t.A == s.A and t.B != s.B)",
    "zip: ZipCode, City -> State",
    "ordered(Salary, Rate by State)",
    "no_overlap(Start, End by Room)",
    'key(A, "Phone No.")',
    "∀ t, t' ∈ r: ¬(t.A = t'.A ∧ t.B ≥ 1.5e3 ∧ t.C < timestamp '2024-01-31 12:00:00+01:00')",
    't1&t2&EQ(t1.A,t2.A)&IQ(t1.B,"x")',
    "[DC: t0.A(String) == t1.A(String)  t0.B <> t1.B  ]",
    "not(t[\"a\\u0041\"] > decimal '0.10' and t.`b` = date '2024-01-31' and s.C <= -5)",
)
PIECES = (
    *"()[]{}<>=!&|~^.,:;'\"`\\#-+*/%$@?\n\t 0123456789tsABé∧¬≠≤≥→∀\0",
    "not",
    "and",
    "or",
    " t.A ",
    "s.B",
    "->",
    "''",
    '""',
    "date '",
    "nan",
    "by",
    "[DC:",
    "t1&t2&",
    "EQ(",
    "1e999",
    "\ud800",
)


BEGINNINGS = (
    "",
    "not(",
    "not(t.A ",
    "not(t.A == ",
    "not(t.A == s.A ",
    "not(t.A == s.A and ",
    "key(",
    "A ",
    "A -> ",
    "a b",
    "t1&t2&EQ(",
    "t1&t2&EQ(t1.A,",
    "t1&",
    "[DC: ",
    "[DC: t0.A ",
    "[DC: t0.A == ",
    "[DC: t0.A == t1.A ",
    "∀ t",
    "forall ",
    "not(t.A > timestamp '",
    "not(t.A > '",
    "not(t.",
    'not(t["',
    "name: ",
)
REPEATED = (
    *PIECES[:-1],
    "a ",
    " a",
    "a.",
    ". ",
    "= ",
    " =",
    "t0.A ",
    "t0.A == t1.B",
    " #",
    "#\n",
    "\\n",
    "a,",
    "a&",
    "()",
    "( ",
    " )",
    "t.A == 1 and ",
    "  ",
    "t'",
    "1,",
    "-1",
    "1.",
    "x(",
)


@pytest.mark.parametrize("case", CORPUS, ids=[str(index) for index in range(len(CORPUS))])
def test_corpus(case: dict[str, Any]) -> None:
    with pytest.raises(RuleError) as caught:
        parse(case["text"], source="rules.txt", line=7, columns=case.get("columns"))
    error = caught.value
    line, column = (int(part) for part in case["at"].split(":"))
    assert (error.line, error.column) == (line + 6, column)
    assert error.message == case["says"]
    assert error.hint == case.get("hint", "")
    assert str(error).startswith(f"rules.txt:{error.line}:{error.column}: {error.message}")


def test_the_corpus_is_large() -> None:
    assert len({(case["text"], str(case.get("columns"))) for case in CORPUS}) == len(CORPUS) >= 300


@pytest.mark.parametrize("case", CORPUS[::7], ids=[str(index) for index in range(0, len(CORPUS), 7)])
def test_the_corpus_in_a_file(case: dict[str, Any]) -> None:
    """A file with one bad rule has one error, unless the text itself has several lines or none."""
    text = case["text"]
    if "\n" in text or not text.strip() or text.strip().startswith("#"):
        pytest.skip("not one line")
    found = read_rules(f"good: ZipCode -> City\n{text}\nkey(City)\n", columns=case.get("columns"))
    bad = [error for error in found.errors if error.line == 2]
    assert [(error.message, error.column) for error in bad] == [(case["says"], int(case["at"].split(":")[1]))]


def test_the_caret_stands_under_the_place() -> None:
    with pytest.raises(RuleError) as caught:
        parse("not(t.Zipcode == s.ZipCode)", columns=["ZipCode", "City"])
    assert str(caught.value) == (
        "rule:1:7: there is no column 'Zipcode'\n    not(t.Zipcode == s.ZipCode)\n          ^\nDid you mean 'ZipCode'?"
    )


def test_the_caret_in_a_long_line() -> None:
    text = "not(" + " and ".join(f"t.column_{i} == s.column_{i}" for i in range(40)) + " and t.x = = 5)"
    with pytest.raises(RuleError) as caught:
        parse(text)
    _, shown, caret, _ = str(caught.value).split("\n")
    assert len(shown) < 130
    assert shown[caret.index("^") :].startswith("= 5)")
    assert shown[caret.index("^") - 4 :].startswith("x = = 5)")


def test_nothing_invisible_reaches_the_terminal() -> None:
    with pytest.raises(RuleError) as caught:
        parse("not(t.A\t==\x1b[31m s.A)")
    assert "\x1b" not in str(caught.value)
    assert str(caught.value).split("\n")[2].index("^") == 4 + 10


LONG = [
    "x" * 70_000,
    "x" * 60_000,
    "(" * 60_000,
    "[" * 60_000,
    "not(" * 15_000,
    "not(" + "(" * 60_000,
    "not(t.A == s.A" + " " * 60_000,
    "not(t.A == s.A and " * 3_000,
    "not(" + "t.A == s.A and " * 4_000 + "t.B == 1)",
    "not(t.A == '" + "x" * 60_000,
    "not(t.A == '" + "''" * 30_000,
    "not(t.A == '" + "\\n" * 30_000,
    "not(t.A == " + "9" * 60_000 + ")",
    "not(t.A == 1e" + "9" * 60_000 + ")",
    "not(t.A == ." + "0" * 60_000 + "x)",
    "not(t.A == decimal '" + "9" * 60_000 + "')",
    "not(t.A < timestamp '2024-01-31" + " " * 60_000 + "x')",
    "not(t.A == s.A) " + "a " * 30_000,
    "key(" + "A," * 30_000,
    "key(" + ", ".join(f"c{i}" for i in range(9_000)) + ")",
    "A " * 30_000,
    "A, " * 20_000,
    "a.b-c/d " * 8_000,
    "a" + " " * 60_000 + "b",
    "a" + " " * 60_000 + ":",
    ("a" + " " * 1_000) * 60,
    "# " * 30_000,
    " #" * 30_000,
    "∀ " + "t, " * 20_000,
    "forall " + "t'" * 30_000,
    "t" * 30_000 + "1.A == " + "t" * 30_000,
    "not(t" + "1" * 30_000 + ".A == t" + "2" * 30_000 + ".A and s.A == 1)",
    "t1&" * 20_000,
    "t1&t2&" + "EQ(" * 20_000,
    "t1&t2&EQ(t1.A," + ")" * 60_000,
    "t1&t2&EQ(t1.A," + "()" * 30_000,
    "t1&t2&EQ(t1.A," + " " * 60_000,
    "t1&t2&" + "EQ(t1.A,t2.A)&" * 4_000,
    "[DC:" + " " * 60_000,
    "[DC: t0.A == t1.A" + "  " * 30_000 + "x ]",
    "[DC: " + "t0.A == t1.A  " * 4_000 + "]",
    "[DC: " + " == " * 15_000 + "]",
    "[DC: t0.A == " + " t1." * 15_000 + "]",
    "\n" * 60_000,
    "not(t.A ==\n" + "\n" * 60_000 + "5",
    '"' * 60_001,
    "'" * 60_001,
    "`" * 60_001,
    "\\" * 60_000,
    "=" * 60_000,
    "not(t.A " + "=" * 60_000 + " 5)",
    "- " * 30_000,
    "->" * 30_000,
]


# At once: as long as it takes to look at four million characters one by one, now and on this machine. Long texts take a
# tenth of that; whatever takes quadratic time takes a hundred times as long.
AT_ONCE = 200.0
PAGE = "x" * 20_000


def refusal(text: str, columns: list[str] | None = None) -> tuple[float, str]:
    """The CPU time of a refusal, in times that a page takes to be read, best of three; and its message."""
    best, message = math.inf, ""
    for _ in range(3):
        start = time.thread_time()
        sum(map(ord, PAGE))
        middle = time.thread_time()
        try:
            parse(text, columns=columns)
        except RuleError as error:
            message = str(error)
        best = min(best, (time.thread_time() - middle) / (middle - start))
        if best < AT_ONCE:
            break
    return best, message


@pytest.mark.parametrize("text", LONG, ids=[str(index) for index in range(len(LONG))])
def test_long_texts_are_refused_at_once(text: str) -> None:
    pages, message = refusal(text, [f"c{i}" for i in range(2_000)] if "c8999" in text else None)
    assert pages < AT_ONCE
    assert 0 < len(message) < 1_000


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_whatever_is_repeated_is_refused_at_once(beginning: str) -> None:
    """No pattern takes more than linear time."""
    for piece in REPEATED:
        for ending in ("", "x", " ]", ")", ":"):
            text = beginning + piece * (8_000 // len(piece)) + ending
            pages, message = refusal(text)
            assert pages < AT_ONCE, f"{pages:.0f} pages for {beginning!r}, {piece!r} repeated, {ending!r}"
            assert len(message) < 1_000


def mutated(draw: random.Random) -> str:
    text = draw.choice(SEEDS) if draw.random() < 0.7 else render(random_rule(draw))
    for _ in range(draw.choice((1, 1, 2, 3, 6))):
        at = draw.randrange(len(text) + 1)
        stop = min(len(text), at + draw.choice((0, 0, 1, 1, 2, 5)))
        text = text[:at] + draw.choice((*PIECES, "", text[draw.randrange(len(text) + 1) :][:9])) + text[stop:]
    return text


def outcome(text: str) -> Rule | RuleError:
    try:
        return parse(text)
    except RuleError as error:
        return error


@pytest.mark.parametrize("seed", range(4))
def test_anything_else_is_a_rule_or_a_rule_error(seed: int) -> None:
    """Every mutated text is refused, or is a rule that can be written and read again."""
    draw = random.Random(seed)
    n_bad = 0
    for _ in range(10_000):
        text = mutated(draw)
        result = outcome(text)
        if isinstance(result, Rule):
            assert parse(render(result)).predicates == result.predicates, text
            continue
        n_bad += 1
        assert result.message
        assert 1 <= result.line <= text.count("\n") + 1
        assert 1 <= result.column <= len(text.split("\n")[result.line - 1]) + 1
    assert n_bad > 1_000


@pytest.mark.parametrize("seed", range(2))
def test_files_of_anything_are_rules_or_errors(seed: int) -> None:
    draw = random.Random(100 + seed)
    for _ in range(300):
        drawn = [random_rule(draw, annotated=draw.random() < 0.5) for _ in range(3)]
        text = render_file(drawn)
        for _ in range(draw.choice((1, 2, 4))):
            at = draw.randrange(len(text) + 1)
            text = text[:at] + draw.choice((*PIECES, "- ", "  ", ": ", "rule:", "&a ", "*a", "!!", "|\n")) + text[at:]
        found = read_rules(text)
        assert len(found.rules) == len(found.lines)
        for error in found.errors:
            assert error.message
        if not found.errors:
            assert len(parse_rules(text)) == len(found.rules)
