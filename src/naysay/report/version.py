"""The version that is installed."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def installed_version() -> str:
    try:
        return version("naysay")
    except PackageNotFoundError:
        return "unknown"
