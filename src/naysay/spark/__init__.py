"""What the Spark forms of all features share. Importing it refuses a missing pyspark."""

from __future__ import annotations

from importlib.util import find_spec

from naysay.errors import INSTALL_SPARK, UsageError

if find_spec("pyspark") is None:
    raise UsageError(
        f"the Spark engine needs the package pyspark: {INSTALL_SPARK}; or use --engine local for a file that fits "
        "into memory"
    )
