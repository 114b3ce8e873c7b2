"""Which of two row names is the left row.

By convention where there is one (t before s, t0 before t1, t before t', x before y), whichever the text mentions
first; otherwise the name mentioned first.
"""

from __future__ import annotations

from collections.abc import Sequence

from naysay.rule.model import Row

_PAIRS = frozenset(
    [
        ("t", "s"),
        ("a", "b"),
        ("i", "j"),
        ("l", "r"),
        ("p", "q"),
        ("u", "v"),
        ("x", "y"),
        ("α", "β"),
        ("left", "right"),
        ("first", "second"),
        ("old", "new"),
    ]
)


def assign_rows(names: Sequence[str]) -> dict[str, Row]:
    """Map one or two row names, in order of first mention, to LEFT and RIGHT."""
    if len(names) == 2 and _conventional(names[1], names[0]):
        names = (names[1], names[0])
    return dict(zip(names, (Row.LEFT, Row.RIGHT), strict=False))


def _conventional(left: str, right: str) -> bool:
    """The convention puts these two names in this order."""
    if (left.lower(), right.lower()) in _PAIRS:
        return True
    shared = _common_prefix(left, right).rstrip("0123456789")
    one, two = left[len(shared) :], right[len(shared) :]
    if one.isdecimal() and two.isdecimal():
        return _number(one) < _number(two)
    if not shared:
        return False
    return (one.lower(), two.lower()) in _PAIRS or (not one and (two.isdecimal() or not two.strip("'")))


def _common_prefix(one: str, two: str) -> str:
    length = next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    return one[:length]


def _number(digits: str) -> tuple[int, str]:
    significant = digits.lstrip("0")
    return len(significant), significant
