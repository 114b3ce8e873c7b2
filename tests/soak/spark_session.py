"""The Spark session of a long run: the one that the Spark tests use, with its settings."""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).resolve().parents[1] / "spark"


@cache
def session() -> Any:
    """A session on two local threads, created on first use."""
    sys.path.insert(0, str(_FOLDER))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Workers import test functions by name when they unpickle them.
    paths = dict.fromkeys([str(_FOLDER), str(_FOLDER.parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("naysay soak")
    for name, value in settings().items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def settings() -> dict[str, str]:
    """Those of the Spark tests. There is more than one module `conftest`, so it is found by its path."""
    spec = importlib.util.spec_from_file_location("spark_test_settings", _FOLDER / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, str] = module.SETTINGS
    return found
