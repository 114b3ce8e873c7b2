"""The state of an evolver on disk: where it lies, and how its parts become bytes.

It is a journal like that of a watch: one transaction per batch, chained checksums, a seal next to the file. The first
event and every snapshot hold everything; a batch holds its rows, and what it changed in the evidence and the covers.
"""

from __future__ import annotations

import io
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from naysay.discovery.fields import Fields
from naysay.discovery.outcomes import CodeLayout, Field, FieldKind
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.space import Comparison, Space
from naysay.errors import StateError, UsageError
from naysay.evolve.method import Arrays, EvolveSettings
from naysay.rule.model import Column, Nulls, Row

if TYPE_CHECKING:
    from naysay.live.journal.journal import Journal, Payload

# The file in the folder of a state.
FILE = "evolve.duckdb"
LOCAL, ON_SPARK = "evolve", "evolve on Spark"
_VERSION = 1


class WrongPlace(StateError):
    """There is no state here, or one that must not be overwritten: a mistake of the caller, not damage."""

    exit_code = 2


def open_journal(state: str | os.PathLike[str], *, make: bool) -> Journal:
    """The journal in a folder, or the file itself if the path ends in .duckdb."""
    from naysay.live.journal.journal import Journal, journal_exists

    path = Path(state)
    if path.suffix != ".duckdb":
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is a file, but the state of an evolver is a folder")
        if make:
            if not path.parent.is_dir():
                raise UsageError(f"there is no folder {path.parent} to create the state {path.name} in")
            path.mkdir(exist_ok=True)
        path = path / FILE
    if not make and not journal_exists(path):
        raise WrongPlace(f"{path}: there is no evolver state here; create one with `naysay discover --state`")
    journal = Journal(path)
    if journal.is_new != make:
        journal.close()
        if make:
            raise WrongPlace(f"{path}: a state already exists here; use Evolver.open, or choose another path")
        raise StateError(f"{path}: there is no evolver state here")
    return journal


def is_on_spark(state: str | os.PathLike[str]) -> bool:
    """Whether the rows of a state are on Spark; StateError if there is no state."""
    journal = open_journal(state, make=False)
    try:
        return bool(journal.read_settings().get("what") == ON_SPARK)
    finally:
        journal.close()


def about(what: str, settings: EvolveSettings, space: Space) -> dict[str, Any]:
    """What a state says about itself; see `read_about`."""
    comparisons = [_comparison_to_json(pair) for pair in space.comparisons]
    return {
        "what": what,
        "evolve": _VERSION,
        "settings": settings.to_json(),
        "space": {"comparisons": comparisons, "notes": list(space.notes)},
    }


def read_about(journal: Journal, run: DiscoverRequest) -> tuple[str, EvolveSettings, Space]:
    what, version = journal.settings.get("what"), journal.settings.get("evolve")
    if what not in (LOCAL, ON_SPARK):
        raise StateError(f"{journal.path}: this is a naysay state, but not that of an evolver")
    if version != _VERSION:
        raise StateError(f"{journal.path}: the state has version {version}, not {_VERSION}")
    space = journal.settings["space"]
    comparisons = tuple(_comparison_from_json(pair) for pair in space["comparisons"])
    return what, EvolveSettings.from_json(journal.settings["settings"], run), Space(comparisons, tuple(space["notes"]))


def fields_to_bytes(fields: Fields) -> bytes:
    """The layout of codes bit by bit, so that old codes can be read however new ones are laid out."""
    layout = fields.layout
    document = {
        "nullable": sorted(fields.nullable),
        "chances": [[_comparison_to_json(pair), chance] for pair, chance in fields.chances.items()],
        "fields": [
            {**asdict(field), "comparison": _comparison_to_json(field.comparison), "kind": field.kind.value}
            for field in layout.fields
        ],
        "spans": layout.spans.tolist(),
        "n_bits": layout.n_bits,
    }
    return to_json(document)


def fields_from_bytes(data: bytes, space: Space, nulls: Nulls) -> Fields:
    given = json.loads(data)
    fields = tuple(
        Field(**{**field, "comparison": _comparison_from_json(field["comparison"]), "kind": FieldKind(field["kind"])})
        for field in given["fields"]
    )
    masks = np.array([[field.less for field in fields], [field.equal for field in fields]], np.int32)
    spans = np.array(given["spans"], np.int64).reshape(-1, 3)
    layout = CodeLayout(fields, masks.reshape(2, len(fields)), spans, given["n_bits"])
    chances = {_comparison_from_json(pair): chance for pair, chance in given["chances"]}
    return Fields(space, nulls, frozenset(given["nullable"]), chances, layout)


def _comparison_to_json(pair: Comparison) -> list[Any]:
    return [pair.left.row.value, pair.left.name, pair.right.row.value, pair.right.name, pair.ordered]


def _comparison_from_json(given: list[Any]) -> Comparison:
    left_row, left, right_row, right, ordered = given
    return Comparison(Column(Row(left_row), left), Column(Row(right_row), right), bool(ordered))


def arrays_to_parts(kind: str, arrays: Arrays) -> dict[str, bytes]:
    """Arrays by name: all of them ("whole"), or what a batch changed ("change")."""
    return {f"{kind} {name}": to_bytes(array) for name, array in arrays.items()}


def arrays_from_parts(kind: str, parts: Payload) -> Arrays:
    prefix = f"{kind} "
    return {name.removeprefix(prefix): from_bytes(data) for name, data in parts.items() if name.startswith(prefix)}


def to_bytes(array: NDArray[Any]) -> bytes:
    """An array with its type and shape, in numpy's own plain format."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return out.getvalue()


def from_bytes(data: bytes) -> NDArray[Any]:
    array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    return array


def to_json(value: Any) -> bytes:
    return json.dumps(value).encode()
