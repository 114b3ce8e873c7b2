"""Tables as code arrays: a frame comes in as Arrow, and null, NaN, text, decimal and time are decided here, once."""

from naysay.table.column import Codes, Kind
from naysay.table.compatibility import check_comparable
from naysay.table.table import Table, from_frame

__all__ = ["Codes", "Kind", "Table", "check_comparable", "from_frame"]
