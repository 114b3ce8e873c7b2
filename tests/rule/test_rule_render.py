"""A rule that is written and read again is the same rule, including the type of each constant."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from drawn_rules import random_rule, rules
from hypothesis import given, settings

from naysay.errors import RuleError
from naysay.rule import (
    Column,
    Constant,
    Op,
    Predicate,
    Row,
    Rule,
    Severity,
    canonical,
    parse,
    parse_rules,
    render,
    render_file,
    simplify,
)


def types(rule: Rule) -> list[type]:
    return [type(predicate.right.value) for predicate in rule.predicates if isinstance(predicate.right, Constant)]


def same(one: Rule, two: Rule) -> bool:
    return one == two and types(one) == types(two)


@pytest.mark.parametrize("seed", range(20))
def test_twenty_thousand_rules_read_back(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(1000):
        rule = random_rule(draw)
        text = render(rule)
        assert "\n" not in text
        assert same(parse(text), rule), text


@settings(max_examples=500)
@given(rules())
def test_rules_read_back(rule: Rule) -> None:
    assert same(parse(render(rule)), rule)


def test_shorthands_mean_the_same() -> None:
    draw = random.Random(7)
    for _ in range(2000):
        rule = random_rule(draw)
        text = render(rule, short=True)
        assert canonical(parse(text)) == canonical(rule), text


@pytest.mark.parametrize(
    "text",
    [
        "key(A)",
        "key(A, B)",
        'key("Phone No.", B)',
        "A -> B",
        "A, B -> C",
        'key -> "not"',
        "ordered(A, B)",
        "ordered(A, B by C, D)",
        'ordered("by", B by C)',
        "no_overlap(A, B)",
        "no_overlap(A, B by C)",
    ],
)
def test_a_shorthand_is_written_as_it_was(text: str) -> None:
    assert render(parse(text), short=True) == text


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("not(t.B != s.B and s.A == t.A)", "A -> B"),
        ("not(t.B < s.B and t.A > s.A)", "ordered(A, B)"),
        ("not(t.End > s.Start and t.Start < s.End)", "no_overlap(Start, End)"),
        ("not(t.A == s.A and t.B == 1)", "not(t.A == s.A and t.B == 1)"),
        ("not(t.A == s.B)", "not(t.A == s.B)"),
        ("not(t.A == t.A)", "not(t.A == t.A)"),
        ("not(t.A == s.A and t.A != s.A)", "not(t.A == s.A and t.A != s.A)"),
        ("not(t.A == s.A and t.A > s.A and t.B < s.B)", "not(t.A == s.A and t.A > s.A and t.B < s.B)"),
        ("not(t.A > s.A and t.B > s.B)", "not(t.A > s.A and t.B > s.B)"),
        ("not(t.A >= s.A and t.B < s.B)", "not(t.A >= s.A and t.B < s.B)"),
        ("not(t.A <= s.B and t.B >= s.A)", "not(t.A <= s.B and t.B >= s.A)"),
    ],
)
def test_shorthands_are_found(text: str, short: str) -> None:
    assert render(parse(text), short=True) == short


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("short", [False, True])
def test_files_read_back(seed: int, short: bool) -> None:
    draw = random.Random(seed)
    for _ in range(20):
        drawn = [random_rule(draw, annotated=True) for _ in range(draw.randrange(12))]
        back = parse_rules(render_file(drawn, short=short))
        if short:
            assert [replace(canonical(rule), name=rule.name) for rule in back] == [
                replace(canonical(rule), name=rule.name) for rule in drawn
            ]
        else:
            assert back == drawn
            assert [types(rule) for rule in back] == [types(rule) for rule in drawn]


def test_files_of_lines_read_back() -> None:
    draw = random.Random(11)
    for _ in range(100):
        drawn = [random_rule(draw, annotated=True) for _ in range(9)]
        drawn = [Rule(rule.predicates, name=rule.name) for rule in drawn]
        text = render_file(drawn)
        assert len(text.splitlines()) == 9
        assert parse_rules(text) == drawn


def test_what_says_more_than_its_name_is_yaml() -> None:
    rule = parse("zip: ZipCode -> City")
    assert render_file([rule], short=True) == "zip: ZipCode -> City\n"
    annotated = replace(rule, severity=Severity.WARNING, max_fraction=0.001, description="one city a code")
    text = (
        "- name: zip\n  rule: ZipCode -> City\n  severity: warning\n  max_fraction: 0.001\n"
        "  description: one city a code\n"
    )
    assert render_file([annotated], short=True) == text
    assert parse_rules(text) == [annotated]
    assert render_file([]) == ""
    assert parse_rules("") == []


def test_simplified_rules_read_back() -> None:
    draw = random.Random(3)
    for _ in range(1000):
        rule = simplify(random_rule(draw)).rule
        assert same(parse(render(rule)), rule)


def test_what_no_text_can_say_is_refused() -> None:
    left = Column(Row.LEFT, "A")
    for value in (None, b"bytes", object()):
        with pytest.raises(RuleError, match="cannot be written"):
            render(Rule((Predicate(left, Op.EQ, Constant(value)),)))  # type: ignore[arg-type]
    with pytest.raises(RuleError, match="without predicates"):
        render(Rule(()))
