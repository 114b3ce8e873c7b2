"""The known name that a mistyped one was most likely meant to be."""

from __future__ import annotations

import difflib
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
    for candidate in names:
        other = _folded(candidate)
        if other == folded:
            return candidate
        if abs(len(other) - len(folded)) <= 1 + len(folded) // 2:
            near[other] = candidate
    if len(near) > _MAX_CANDIDATES:
        near = {other: candidate for other, candidate in near.items() if other[:1] == folded[:1]}
    candidates = list(near)[:_MAX_CANDIDATES]
    found = difflib.get_close_matches(folded, candidates, n=1, cutoff=0.6)
    return near[found[0]] if found else ""


def _folded(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum()) or name.casefold()
