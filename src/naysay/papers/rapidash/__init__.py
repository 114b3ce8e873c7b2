"""Rapidash's own methods (Liu, Deep, Fariha, Psallidas, Tiwari, Floratou: Rapidash, PVLDB 17, 2024)."""

from naysay.detect.strategy import Strategy
from naysay.papers.rapidash.strategies import RapidashKdTree, RapidashRangeTree, VanillaRangeTree

_STRATEGIES = {
    "rapidash-range-tree": RapidashRangeTree,
    "rapidash-kd-tree": RapidashKdTree,
    "rapidash-vanilla": VanillaRangeTree,
}


def strategy(name: str) -> Strategy:
    """The strategy of that name, for `naysay.detect`."""
    return _STRATEGIES[name]()


__all__ = ["RapidashKdTree", "RapidashRangeTree", "VanillaRangeTree", "strategy"]
