"""What goes wrong inside Spark's Python tasks, in the words of the error that was raised there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from naysay import errors
from naysay.errors import UsageError

_RAISED = re.compile(r"^naysay\.errors\.(\w+): (.*)$", re.MULTILINE)
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(naysay|numba|numpy|pyarrow)")


@contextmanager
def errors_of_tasks() -> Iterator[None]:
    """Raise again what a task raised on purpose; say what to do where the workers lack naysay."""
    try:
        yield
    except PySparkException as error:
        text = str(error)
        raised = _RAISED.search(text)
        if raised is not None and isinstance(getattr(errors, raised.group(1), None), type):
            raise getattr(errors, raised.group(1))(raised.group(2)) from error
        missing = _MISSING.search(text)
        if missing is not None:
            raise UsageError(
                f"Spark's workers have no {missing.group(1)}: install naysay where the executors run (pip install PATH "
                "with the path of its checkout or wheel), or ship an environment that has it (spark.archives="
                "env.tar.gz#env in spark-defaults.conf, or --archives of spark-submit) and set PYSPARK_PYTHON to the "
                "Python in it"
            ) from error
        if "PYTHON_VERSION_MISMATCH" in text:
            raise UsageError(
                "Spark's workers run another version of Python than this process; set PYSPARK_PYTHON to one of the "
                "same version, with naysay in it"
            ) from error
        raise
