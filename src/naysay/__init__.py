"""naysay: what must never be true of two rows of a table."""
