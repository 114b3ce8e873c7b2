"""Work shared between the rules of one check: what was made of the same arrays is made once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from naysay.arrays import Int64Array

Made = TypeVar("Made")


class Memo:
    """Values by what they are and by the identity of the arrays they were made from. Safe to use from threads.

    Keeps the arrays too, so that an identity stays taken. Rules with the same key share the grouping, rules with the
    same key and first order share the sort.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[tuple[Int64Array, ...], Any]] = {}
        self._making: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, what: Hashable, arrays: tuple[Int64Array, ...], make: Callable[[], Made]) -> Made:
        """The value made before, or the one that `make` gives now; threads that want the same wait for it."""
        key = (what, *map(id, arrays))
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            if key not in self._made:
                self._made[key] = (arrays, make())
            value: Made = self._made[key][1]
        return value


class NoMemo(Memo):
    """Remembers nothing, for a single rule."""

    def get(self, what: Hashable, arrays: tuple[Int64Array, ...], make: Callable[[], Made]) -> Made:
        return make()
