"""Which engine runs a command if the user leaves the choice to us, and why."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naysay.errors import INSTALL_SPARK, UsageError
from naysay.report.words import size

if TYPE_CHECKING:
    from naysay.plan.join import Join

# An address rather than a path: s3://bucket/key, dbfs:/folder. A drive letter is not a scheme.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_PATTERN = re.compile(r"[*?\[{]")
# The share of the free memory that we plan with: the estimate knows only the beginning of a file, and others need some.
_SHARE_OF_FREE = 0.8
# Spark does not start with less.
_LEAST_FOR_SPARK = 450 << 20
# Bytes of memory for each byte of a file whose beginning cannot be read.
_UNKNOWN = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """An engine, and the reason for it."""

    engine: str
    reason: str

    def __str__(self) -> str:
        return f"running {'on Spark' if self.engine == 'spark' else 'in-process'}: {self.reason}"


def choose_for_table(
    source: str,
    *,
    format: str | None = None,
    joins: Sequence[Join] | None = None,
    writes: bool = False,
    memory: int | None = None,
    **options: Any,
) -> Choice:
    """Choose the engine for the table of a file, folder, address or name.

    Args:
        source: What the user named.
        format: The format of the files, if it was given; `options` are the other options of `naysay.read`.
        joins: The rules to check; None to expect that all columns are needed.
        writes: Whether the rows in conflict are written out.
        memory: The bytes that the user allows; the free memory of the machine counts, too.
    """
    reason = _reason_for_spark(source, format)
    if reason:
        return Choice("spark", reason)
    from naysay.io.files import require_file

    require_file(source)
    if not os.path.isfile(source):
        return Choice("local", f"{source} is a pipe or a device of this machine")
    n_bytes = os.path.getsize(source)
    needed = _needed_bytes(source, n_bytes, joins, writes, format=format, **options)
    free = _free_bytes()
    if memory is not None and needed > memory:
        limit = f"--memory allows {size(memory)}"
        if memory < _LEAST_FOR_SPARK:
            # The refusal in-process says how much is needed.
            return Choice("local", f"{limit}, which is too little for Spark")
    elif free is not None and needed > free:
        limit = f"{size(free)} are available"
    else:
        return Choice("local", f"{source} is a local file of {size(n_bytes)}")
    return Choice("spark", f"{source} needs about {size(needed)} of memory in-process, and {limit}")


def _reason_for_spark(source: str, format: str | None) -> str:
    """Why only Spark reads what the user named; empty if this process may read it."""
    from naysay.io.files import FORMATS, format_by_name, refuse_address, source_shown

    refuse_address(source)
    if format == "table":
        return f"{source} is a table"
    if format is not None and format not in FORMATS:
        return f"only Spark reads the format {format}"
    if os.path.isdir(source):
        return f"{source} is a folder"
    if os.path.exists(source):
        return ""
    if _ADDRESS.match(source) or source.startswith("jdbc:"):
        return f"{source_shown(source)} is a remote address"
    if _PATTERN.search(source):
        return f"{source} may match several files"
    if "/" not in source and format_by_name(source) is None:
        return f"there is no file {source!r}, so it may be a table"
    return ""


def _needed_bytes(source: str, n_bytes: int, joins: Sequence[Join] | None, writes: bool, **options: Any) -> int:
    from naysay.io.size import expect_table, needed_bytes
    from naysay.plan.cost import process_bytes

    found = expect_table(source, **options)
    return process_bytes() + _UNKNOWN * n_bytes if found is None else needed_bytes(found, joins, writes=writes)


def _free_bytes() -> int | None:
    """What this process may use in all, with what it already uses."""
    from naysay.plan.cost import available_bytes, process_bytes

    free = available_bytes()
    return None if free is None else int(_SHARE_OF_FREE * free) + process_bytes()


def choose_for_changes(source: str, state: Path) -> Choice:
    """Choose the engine that follows change files: either can continue what the other began, unless it is in parts."""
    if (state / "parts").exists():
        return Choice("spark", f"the state in {state} is in parts")
    if not os.path.exists(source) and _ADDRESS.match(source) and not source.startswith("file:"):
        return Choice("spark", f"{source} is a remote address")
    return Choice("local", f"{source} is a local folder")


def require_pyspark() -> None:
    """Refuse to run on Spark without its package."""
    # A module that is already loaded may have no spec; None marks one that must not be loaded.
    if sys.modules["pyspark"] is None if "pyspark" in sys.modules else find_spec("pyspark") is None:
        raise UsageError(
            f"the Spark engine needs the package pyspark: {INSTALL_SPARK}; or use --engine local for a file that fits "
            "into memory"
        )
