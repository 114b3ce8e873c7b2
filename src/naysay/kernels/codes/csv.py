"""The structure of comma-separated text: whether every row has its fields and every quote its end."""

from __future__ import annotations

import numpy as np

from naysay.arrays import FLOAT_EXACT, Int64Array, UInt8Array
from naysay.kernels.compile import kernel

# What is wrong, if anything.
FINE, UNCLOSED, AFTER_QUOTE, RAGGED, NUL = 0, 1, 2, 3, 4

# How many numbers describe a fault: see `scan_csv`.
FAULT_SIZE = 5
# As the number of columns: no row has that few, so the first row is a fault, which has its fields and its end.
FIRST_ROW = -1

# What the fields of a column look like; a column has the bits of all its fields.
LEADING_ZERO = 1
LONG_INTEGER = 2

_QUOTE, _NEWLINE, _RETURN, _ZERO, _NINE = 34, 10, 13, 48, 57
_MINUS, _PLUS, _SPACE, _TAB, _LOWER_X, _UPPER_X, _POINT = 45, 43, 32, 9, 120, 88, 46
# Numbers of at most this many digits are below FLOAT_EXACT.
_EXACT_DIGITS = 15


@kernel
def scan_csv(data: UInt8Array, delimiter: int, n_columns: int, looks: Int64Array, fault: Int64Array) -> int:
    """Walk over rows of comma-separated text, stop at the first fault, and return the number of whole rows before it.

    Rows end with \\n, \\r\\n or \\r; blank lines are skipped. Quotes are double, doubled inside. `looks` gets the bits
    of each column's fields. `fault` gets what is wrong, where (a byte), in which line (from 1; for RAGGED that of the
    row's first byte), how many fields the row has, up to the fault, and for RAGGED where the next row begins. O(bytes).
    """
    ends_field = np.zeros(256, np.bool_)
    for byte in (0, _NEWLINE, _RETURN, delimiter):
        ends_field[byte] = True
    # Of a fixed type from the start, or the kernels called would be compiled twice.
    n_rows, line, position = 0, 1, np.int64(0)
    while position < data.size:
        n_ends = _line_end(data, position)
        if n_ends:
            position += n_ends
            line += 1
            continue
        row_start, row_line, n_fields = position, line, 0
        while True:
            start = position
            quoted = np.int64(position < data.size and data[position] == _QUOTE)
            if quoted:
                position, n_lines = _skip_quoted(data, position, fault)
                if fault[0] != FINE:
                    fault[2], fault[3] = line + n_lines, n_fields + 1
                    return n_rows
                line += n_lines
                if position < data.size and data[position] != delimiter and not _line_end(data, position):
                    fault[0], fault[1], fault[2], fault[3] = AFTER_QUOTE, position, line, n_fields + 1
                    return n_rows
            else:
                while position < data.size and not ends_field[data[position]]:
                    position += 1
                if position < data.size and data[position] == 0:
                    fault[0], fault[1], fault[2], fault[3] = NUL, position, line, n_fields + 1
                    return n_rows
            if n_fields < n_columns:
                looks[n_fields] |= _look(data, start + quoted, position - quoted)
            n_fields += 1
            if position >= data.size or data[position] != delimiter:
                break
            position += 1
        if position < data.size:
            position += _line_end(data, position)
            line += 1
        if n_fields != n_columns:
            fault[0], fault[1], fault[2], fault[3], fault[4] = RAGGED, row_start, row_line, n_fields, position
            return n_rows
        n_rows += 1
    return n_rows


@kernel
def _line_end(data: UInt8Array, position: int) -> int:
    """The number of bytes of the line end at this position."""
    if data[position] == _NEWLINE:
        return 1
    if data[position] != _RETURN:
        return 0
    return 2 if position + 1 < data.size and data[position + 1] == _NEWLINE else 1


@kernel
def _skip_quoted(data: UInt8Array, opening: int, fault: Int64Array) -> tuple[int, int]:
    """The place after the closing quote, and the line ends passed; a fault if there is none, or a NUL inside."""
    n_lines = 0
    position = opening + 1
    while position < data.size:
        byte = data[position]
        if byte == _QUOTE:
            if position + 1 >= data.size or data[position + 1] != _QUOTE:
                return position + 1, n_lines
            position += 1
        elif byte == 0:
            fault[0], fault[1] = NUL, position
            return position, n_lines
        elif byte == _NEWLINE or (byte == _RETURN and _line_end(data, position) == 1):
            n_lines += 1
        position += 1
    fault[0], fault[1] = UNCLOSED, opening
    return position, 0


@kernel
def _look(data: UInt8Array, start: int, stop: int) -> int:
    """What a float would lose of a number: zeros before its digits, or the last of the digits before its point."""
    while start < stop and (data[start] == _SPACE or data[start] == _TAB):
        start += 1
    if start < stop and (data[start] == _MINUS or data[start] == _PLUS):
        start += 1
    if stop - start < 2:
        return 0
    second = data[start + 1]
    if data[start] == _ZERO and (_ZERO <= second <= _NINE or second in (_LOWER_X, _UPPER_X)):
        return LEADING_ZERO
    if stop - start <= _EXACT_DIGITS:
        return 0
    while stop > start and (data[stop - 1] == _SPACE or data[stop - 1] == _TAB):
        stop -= 1
    whole, n_points = np.int64(0), 0
    for position in range(start, stop):
        if data[position] == _POINT and n_points == 0:
            n_points = 1
        elif not _ZERO <= data[position] <= _NINE:
            return 0
        elif n_points == 0 and whole <= FLOAT_EXACT:
            whole = 10 * whole + (np.int64(data[position]) - _ZERO)
    return LONG_INTEGER if whole > FLOAT_EXACT else 0
