"""Defaults of options: the variable NAYSAY_ENGINE, then naysay.toml or pyproject.toml in this folder or one above."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from naysay.errors import UsageError
from naysay.rule.scan import nearest_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ENGINES = ("auto", "spark", "local")
_VARIABLE = "NAYSAY_ENGINE"


@dataclass(frozen=True, slots=True)
class Settings:
    """The keys of a settings file. Where Spark runs is not among them: a file that somebody else left in a folder above
    must not decide where data is sent."""

    engine: str = "auto"
    memory: str | None = None


def load_settings() -> Settings:
    """The defaults that apply here. Errors name where a bad value comes from."""
    settings = next((_settings(place, table) for place, table in _tables()), Settings())
    engine = os.environ.get(_VARIABLE)
    return replace(settings, engine=_engine(_VARIABLE, engine)) if engine else settings


def _tables() -> Iterator[tuple[str, Any]]:
    """The settings of each file of this folder and of those above, the nearest first, each with the file's name."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        # The folder was deleted.
        return
    for folder in (here, *here.parents):
        if (table := _document(own := folder / "naysay.toml")) is not None:
            yield str(own), table
        tools = (_document(project := folder / "pyproject.toml") or {}).get("tool")
        if isinstance(tools, dict) and "naysay" in tools:
            yield f"{project}, [tool.naysay]", tools["naysay"]


def _document(path: Path) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return document
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"cannot read the settings in {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"cannot read the settings in {path}, which is not valid TOML: {error}") from None


def _settings(place: str, table: Any) -> Settings:
    if not isinstance(table, dict):
        raise UsageError(f'{place}: expected settings such as engine = "local", not {table!r}')
    known = [field.name for field in fields(Settings)]
    for key in table:
        if key not in known:
            meant = nearest_name(key, known)
            hint = f"did you mean {meant!r}?" if meant else f"the keys are {', '.join(known)}"
            raise UsageError(f"{place}: there is no setting {key!r}; {hint}")
    settings = Settings()
    if "engine" in table:
        settings = replace(settings, engine=_engine(place, table["engine"]))
    if "memory" in table:
        settings = replace(settings, memory=_memory(place, table["memory"]))
    return settings


def _engine(place: str, value: Any) -> str:
    if value not in ENGINES:
        raise UsageError(f"{place}: there is no engine {value!r}; choose one of {', '.join(ENGINES)}")
    return str(value)


def _memory(place: str, value: Any) -> str:
    from naysay.budget import memory_bytes

    try:
        memory_bytes(value)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None
    return str(value)
