"""What the Spark forms of all features share. Importing it refuses a missing pyspark, and one that is too old."""

from __future__ import annotations

import re

from naysay.errors import INSTALL_SPARK, UsageError

try:
    import pyspark
except ImportError:
    raise UsageError(
        f"the Spark engine needs the package pyspark: {INSTALL_SPARK}; or use --engine local for a file that fits "
        "into memory"
    ) from None

OLDEST = (3, 5)
SUPPORTED = "3.5, 4.0, 4.1 or newer"


def require_supported(version: str, what: str) -> tuple[int, int]:
    """The first two numbers of a version of Spark; UsageError if it is too old."""
    found = re.match(r"(\d+)\.(\d+)", version)
    numbers = (int(found.group(1)), int(found.group(2))) if found else (0, 0)
    if numbers < OLDEST:
        raise UsageError(f"{what} {version} is not supported; naysay needs Spark {SUPPORTED}")
    return numbers


VERSION = require_supported(pyspark.__version__, "pyspark")
