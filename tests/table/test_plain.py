"""Values as shown to people: every Arrow value can be displayed."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

import naysay
from naysay.report.html import to_html
from naysay.report.json_ import dumps
from naysay.table.frame import plain_records, plain_values


@pytest.mark.parametrize(
    ("type_", "number", "text"),
    [
        (pa.timestamp("s"), 10**15, "1000000000000000"),
        (pa.timestamp("us"), -(2**62), "-4611686018427387904"),
        (pa.timestamp("us"), 253_402_300_800_000_000, "10000-01-01"),
        (pa.date32(), 10**8, "100000000"),
        (pa.timestamp("us", "Mars/Phobos"), 5, "5 us since 1970-01-01"),
    ],
)
def test_times_that_python_does_not_have(type_: pa.DataType, number: int, text: str) -> None:
    storage = pa.int64() if type_.bit_width == 64 else pa.int32()
    table = pa.table({"a": pa.array([number, None, number], storage).view(type_)})
    (value, missing, _) = plain_values(table["a"])
    assert missing is None
    assert text in str(value)
    report = naysay.check(table, "key(a)", key="a")
    assert text in dumps(report)
    assert text in to_html(report)


def test_nanoseconds_need_no_pandas() -> None:
    program = (
        "import sys\n"
        "class NoPandas:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'pandas': raise ImportError(name)\n"
        "sys.meta_path.insert(0, NoPandas())\n"
        "import pyarrow as pa, naysay\n"
        "table = pa.table({'a': pa.array([1, 1], pa.timestamp('ns'))})\n"
        "print(naysay.check(table, 'key(a)').results[0].sample[0].reason)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "00:00:00.000000001" in done.stdout, done.stderr


def test_text_that_is_none() -> None:
    buffers = [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")]
    table = pa.table({"a": pa.Array.from_buffers(pa.string(), 1, buffers), "b": [1]})
    assert plain_records(table) == [{"a": "a\\xff", "b": 1}]
