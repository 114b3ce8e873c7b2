"""Rules of every kind to write and read back: a fast seeded generator, and a hypothesis strategy on top of it."""

from __future__ import annotations

import datetime
import random
import struct
from decimal import Decimal

from hypothesis import strategies as st

from naysay.rule import (
    Between,
    Column,
    Constant,
    Domain,
    Missing,
    OneOf,
    Op,
    Pattern,
    Predicate,
    Row,
    Rule,
    Severity,
    Value,
)

NAMES = (
    "A",
    "B",
    "ZipCode",
    "Phone No.",
    "a.b",
    "t",
    "s",
    "not",
    "and",
    "by",
    "key",
    "date",
    "1st",
    "2",
    "_",
    "Straße",
    "住所",
    "it's",
    'q"uote',
    "back\\slash",
    "`tick`",
    "new\nline",
    "tab\t",
    " lead",
    "trail ",
    "#",
    "a#b",
    "x: y",
    "municipality(String)",
    "[DC: x]",
    "😀",
    "a->b",
    "->",
    "nul\0",
    "\u2028",
    "\x85",
    "\ufeffbom",
    "é",
    "null",
)
TEXTS = ("", "'", '"', "\\", "\n", "a''b", 'a""b', " # no", "date '2024-01-31'", "{{x}}", "\x1b[31m", "\u202e", "-")
OPS = tuple(Op)
_ZONES = tuple(datetime.timezone(datetime.timedelta(seconds=s)) for s in (0, 3600, -16200, 45296, -86399, 86399))


def random_name(draw: random.Random) -> str:
    return draw.choice(NAMES) if draw.random() < 0.9 else random_text(draw) or "x"


def random_text(draw: random.Random) -> str:
    if draw.random() < 0.4:
        return draw.choice(TEXTS)
    points = (draw.choice((0x80, 0x800, 0xD800, 0x110000)) for _ in range(draw.randrange(8)))
    return "".join(chr(draw.randrange(limit)) for limit in points).encode("utf-8", "ignore").decode("utf-8")


def random_float(draw: random.Random) -> float:
    if draw.random() < 0.3:
        return draw.choice((0.1, -0.0, 1e300, 5e-324, float("nan"), float("inf"), float("-inf"), 2.0**53))
    value: float = struct.unpack("<d", struct.pack("<Q", draw.getrandbits(64)))[0]
    return value


def random_int(draw: random.Random) -> int:
    return draw.choice((draw.randrange(-9, 10), draw.getrandbits(64) - 2**63, draw.getrandbits(250)))


def random_decimal(draw: random.Random) -> Decimal:
    return Decimal(random_int(draw)).scaleb(draw.randrange(-40, 9))


def random_date(draw: random.Random) -> datetime.date:
    return datetime.date.fromordinal(draw.randrange(1, datetime.date.max.toordinal() + 1))


def random_time(draw: random.Random) -> datetime.time:
    part = draw.choice((0, draw.randrange(1_000_000), 500_000))
    return datetime.time(draw.randrange(24), draw.randrange(60), draw.choice((0, draw.randrange(60))), part)


def random_timestamp(draw: random.Random) -> datetime.datetime:
    zone = draw.choice((None, *_ZONES))
    day = datetime.date.fromordinal(draw.randrange(3, datetime.date.max.toordinal() - 1))
    return datetime.datetime.combine(day, random_time(draw), zone)


def random_value(draw: random.Random) -> Value:
    kind = draw.randrange(8)
    if kind == 0:
        return draw.random() < 0.5
    makers = (random_int, random_float, random_text, random_decimal, random_date, random_time, random_timestamp)
    return makers[kind - 1](draw)  # type: ignore[return-value]


PATTERNS = (
    "",
    r"\d{5}",
    r"[^\s'\"]+",
    r"a\\b|\n",
    r"\x41\.\u00e9",
    "(?:x|y)*z?",
    "é\u2028",
    "`.`",
    r"\'\"",
    r"[\]\-a-f]",
)


def random_domain(draw: random.Random) -> Domain:
    form = draw.randrange(4)
    if form == 0:
        return Missing()
    if form == 1:
        return Pattern(draw.choice(PATTERNS))
    if form == 2:
        low, high = sorted(draw.randrange(-9, 10) for _ in range(2))
        return Between(Constant(low), Constant(high + draw.choice((0, 0.5))))
    values = (Constant(random_value(draw)) for _ in range(draw.choice((1, 2, 5))))
    return OneOf(tuple(dict.fromkeys(values)))


def random_predicate(draw: random.Random, rows: tuple[Row, ...] = tuple(Row)) -> Predicate:
    left = Column(draw.choice(rows), random_name(draw))
    op = draw.choice(OPS)
    if draw.random() < 0.2:
        return Predicate(left, draw.choice((Op.EQ, Op.NE)), random_domain(draw))
    if draw.random() < 0.35:
        return Predicate(left, op, Constant(random_value(draw)))
    return Predicate(left, op, Column(draw.choice(rows), left.name if draw.random() < 0.5 else random_name(draw)))


def random_rule(draw: random.Random, *, annotated: bool = False) -> Rule:
    """A rule of one to six predicates. Its columns are not all of the right row: no text gives such a rule."""
    rows = (Row.LEFT,) if draw.random() < 0.2 else tuple(Row)
    predicates = [random_predicate(draw, rows) for _ in range(draw.choice((1, 1, 2, 2, 3, 4, 6)))]
    if all(column.row is Row.RIGHT for predicate in predicates for column in predicate.columns):
        predicates = [predicate.swapped() for predicate in predicates]
    rule = Rule(tuple(predicates))
    return annotate(draw, rule) if annotated else rule


def annotate(draw: random.Random, rule: Rule) -> Rule:
    return Rule(
        rule.predicates,
        name=draw.choice(("", "zip", "a b", "rule 1/2", "forall x", "yes", "1", random_name(draw))),
        severity=draw.choice(tuple(Severity)),
        max_violations=draw.choice((None, None, 0, 7, 10**15)),
        max_fraction=draw.choice((None, None, 0.0, 1e-9, 0.1 + 0.2, 1.0)),
        min_rows=draw.choice((None, None, 0, 1000)),
        max_rows=draw.choice((None, None, 0, 7)),
        max_rows_fraction=draw.choice((None, None, 0.0, 0.25)),
        max_remove=draw.choice((None, None, 0, 3)),
        tags=draw.choice(((), (), ("a",), ("monthly", "two words"))),
        owner=draw.choice(("", "", "data-team@example.org")),
        description=draw.choice(("", "", "why", "two\nlines\n", " # no comment: - x", random_text(draw))),
    )


def rules() -> st.SearchStrategy[Rule]:
    return st.randoms(use_true_random=False).map(random_rule)
