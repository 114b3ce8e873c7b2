"""The folder that `check --out` writes: safe names, nothing outside of it, nothing of anybody else overwritten."""

from __future__ import annotations

import re
from pathlib import Path

from naysay.errors import UsageError
from naysay.rule.model import Rule

# The file that marks a folder as ours, so that a later run may replace what is in it.
MARK = ".naysay-results"
_PARTS = ("violations", "conflict_rows", "report", "cells")
_UNSAFE = re.compile(r"[^a-z0-9_]+")
_LONGEST_NAME = 60


def file_name(place: int, rule: Rule) -> str:
    """A name for the file of a rule: its place among the rules and what is harmless of its name.

    >>> from naysay.rule import parse
    >>> file_name(2, parse("'../../etc/passwd': A -> B"))
    '03-etc-passwd'
    """
    words = _UNSAFE.sub("-", rule.name.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    return f"{place + 1:02d}-{words}" if words else f"{place + 1:02d}"


def prepare(folder: Path) -> Path:
    """Make the folder, or empty it of an earlier run's results; UsageError where it holds anything else."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"--out {folder} is not a folder; name a new one")
    if folder.exists():
        _empty(folder)
    (folder / "violations").mkdir(parents=True, exist_ok=True)
    # As a new file: through a link that stands in its place the text would go elsewhere.
    (folder / MARK).unlink(missing_ok=True)
    with (folder / MARK).open("x", encoding="utf-8") as mark:
        mark.write("Results of naysay check; the next run with this --out replaces them.\n")
    return folder


def _empty(folder: Path) -> None:
    entries = sorted(folder.iterdir())
    if not entries:
        return
    if not (folder / MARK).is_file() or (folder / MARK).is_symlink():
        raise UsageError(f"--out {folder} is not empty and not of naysay; name a new folder, or empty this one")
    strange = [entry.name for entry in entries if entry.name != MARK and entry.name.split(".")[0] not in _PARTS]
    if strange:
        raise UsageError(f"--out {folder} holds {strange[0]!r}, which naysay did not write; name another folder")
    for entry in entries:
        if entry.name != MARK:
            _remove(entry)


def _remove(path: Path) -> None:
    """Delete a file, or a folder of files; a link is deleted, never followed."""
    if path.is_dir() and not path.is_symlink():
        for inner in path.iterdir():
            _remove(inner)
        path.rmdir()
    else:
        path.unlink()
