"""Order-keeping numbers for values that have none of their own: text, and numbers beyond 64 bits.

A new value gets a label between those of its neighbours. Where there is no room left all labels are given out anew, and
`version` says so. Values that come in ascending or descending runs, anywhere, take little room each: a new one is put
close to whichever neighbour is younger. So labels last for ages on most data, and some forty batches at worst.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

_LOW, _HIGH = -(1 << 61), 1 << 61
_STEP_AT_END = 1 << 32
_STEP_BETWEEN = 1 << 20
_BLOCK = 512


class Labels:
    """Values that compare with each other, each with a label in their order."""

    def __init__(self) -> None:
        self.version = 0
        self._labels: dict[Any, int] = {}
        self._ages: dict[Any, int] = {}
        self._order = SortedBlocks()

    def __len__(self) -> int:
        return len(self._labels)

    def label(self, values: Sequence[Any]) -> list[int]:
        """The label of each value. Where `version` has changed after the call, earlier labels are void."""
        fresh = sorted({value for value in values if value not in self._labels})
        if len(fresh) > len(self._labels):
            self._relabel(fresh)
        else:
            for place, value in enumerate(fresh):
                label = self._between(value)
                if label is None:
                    self._relabel(fresh[place:])
                    break
                self._enter(value, label)
        return [self._labels[value] for value in values]

    def _enter(self, value: Any, label: int) -> None:
        self._labels[value] = label
        self._ages[value] = len(self._ages)
        self._order.add(value)

    def _between(self, value: Any) -> int | None:
        """A label for a new value, or None where there is no room."""
        before, after = self._order.neighbours(value)
        low = _LOW - 1 if before is None else self._labels[before]
        high = _HIGH + 1 if after is None else self._labels[after]
        gap = high - low
        if gap < 2:
            return None
        if before is None and after is None:
            return 0
        if before is None or after is None:
            step = min(_STEP_AT_END, gap // 2)
            return high - step if before is None else low + step
        step = min(_STEP_BETWEEN, gap // 2)
        return low + step if self._ages[before] > self._ages[after] else high - step

    def _relabel(self, fresh: Sequence[Any]) -> None:
        """Give every value a label of its own place in the order, evenly spread."""
        if self._labels:
            self.version += 1
        ordered = sorted([*self._labels, *fresh])
        for value in fresh:
            self._ages[value] = len(self._ages)
        gap = (_HIGH - _LOW) // (len(ordered) + 1)
        self._labels = {value: _LOW + gap * place for place, value in enumerate(ordered, start=1)}
        self._order = SortedBlocks(ordered)


class SortedBlocks:
    """Distinct values in ascending order, in blocks, so that adding one moves few others."""

    def __init__(self, ordered: Sequence[Any] = ()) -> None:
        half = _BLOCK // 2
        self._blocks = [list(ordered[start : start + half]) for start in range(0, len(ordered), half)]
        self._lasts = [block[-1] for block in self._blocks]

    def __iter__(self) -> Iterable[Any]:
        for block in self._blocks:
            yield from block

    def neighbours(self, value: Any) -> tuple[Any, Any]:
        """The values right before and right after a value that is not there; None where there is none."""
        at = bisect_left(self._lasts, value)
        if at == len(self._blocks):
            return (self._lasts[-1] if self._lasts else None), None
        block = self._blocks[at]
        place = bisect_left(block, value)
        if place > 0:
            return block[place - 1], block[place]
        return (self._lasts[at - 1] if at > 0 else None), block[0]

    def add(self, value: Any) -> None:
        """Add a value that is not there."""
        if not self._blocks:
            self._blocks, self._lasts = [[value]], [value]
            return
        at = min(bisect_left(self._lasts, value), len(self._blocks) - 1)
        block = self._blocks[at]
        block.insert(bisect_left(block, value), value)
        if len(block) > _BLOCK:
            half = len(block) // 2
            self._blocks.insert(at + 1, block[half:])
            self._lasts.insert(at + 1, block[-1])
            del block[half:]
        self._lasts[at] = block[-1]
