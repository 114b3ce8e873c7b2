"""Rapidash's own methods (Liu, Deep, Fariha, Psallidas, Tiwari, Floratou: Rapidash, PVLDB 17, 2024)."""

from naysay.detect.strategy import Strategy
from naysay.papers.rapidash.strategies import RapidashKdTree, RapidashRangeTree


def strategy(name: str) -> Strategy:
    """The strategy of that name, for `naysay.detect`."""
    return RapidashRangeTree() if name == "rapidash-range-tree" else RapidashKdTree()


__all__ = ["RapidashKdTree", "RapidashRangeTree", "strategy"]
