"""Weever's own method as an index of a watch; see `index`."""

from naysay.papers.weever.index import Weever as index

__all__ = ["index"]
