"""Tables as code arrays. What null, NaN, text, decimals and times mean is decided here, once."""

from naysay.table.column import Codes, Kind
from naysay.table.compatibility import check_comparable
from naysay.table.table import Table, from_frame

__all__ = ["Codes", "Kind", "Table", "check_comparable", "from_frame"]
