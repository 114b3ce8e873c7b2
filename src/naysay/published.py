"""Load the method of a paper by name, so that no feature depends on `naysay.papers`."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from naysay.errors import UsageError


def published(paper: str) -> ModuleType:
    """The package `naysay.papers.PAPER`; UsageError if it is not part of this installation."""
    name = f"naysay.papers.{paper}"
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        raise UsageError(f"the method of {paper} is not installed: this copy of naysay has no {error.name}") from None
