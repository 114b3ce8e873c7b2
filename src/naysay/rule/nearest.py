"""The known name that a mistyped one was most likely meant to be."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable

# difflib compares at some 20 microseconds a pair; the limits keep an error message below 50 ms.
_MAX_CANDIDATES = 500
_MAX_NAME = 80


def nearest_name(name: str, names: Iterable[str]) -> str:
    """Return the name among `names` nearest to `name`, or an empty text where none is near.

    >>> nearest_name("Zipcode", ["City", "ZipCode"])
    'ZipCode'
    """
    if len(name) > _MAX_NAME:
        return ""
    folded = _folded(name)
    near = {}
    begins = ""
    for candidate in names:
        other = _folded(candidate)
        if other == folded:
            return candidate
        if len(folded) > 2 and other.startswith(folded):
            begins = begins or candidate
        if abs(len(other) - len(folded)) <= 1 + len(folded) // 2:
            near[other] = candidate
    candidates: Iterable[str] = near
    if len(near) > _MAX_CANDIDATES:
        candidates = heapq.nsmallest(_MAX_CANDIDATES, near, key=lambda other: -_shared_letters(folded, other))
    found = difflib.get_close_matches(folded, candidates, n=1, cutoff=0.6)
    return near[found[0]] if found else begins


def _shared_letters(one: str, two: str) -> int:
    """How many letters both begin with: a cheap guess at which candidates are worth a real comparison."""
    return next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def _folded(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum()) or name.casefold()
