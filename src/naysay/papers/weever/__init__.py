"""Weever's own method as indexes of a watch; see `index`."""

from naysay.papers.weever.index import Weever as index
from naysay.papers.weever.index import WeeverCounts as counting_index

__all__ = ["counting_index", "index"]
