"""Columns to 32-bit codes that stay: what a row is compared by, the same in every batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from naysay.arrays import Int32Array, Int64Array
from naysay.discovery.labels import NULL, Labels
from naysay.discovery.space import Space
from naysay.kernels.trees.zone_tree import NULL as NULL_CODE
from naysay.live.codes import Space as CodeSpace
from naysay.table.kind import Kind, kind_of

Codes = dict[str, Int32Array]


class Coding:
    """The codes of all columns that a space compares; columns that are compared with each other share theirs."""

    def __init__(self, schema: pa.Schema, space: Space) -> None:
        self.names = space.names
        self._families = [_Family(schema, names, space) for names in _families(space)]

    def encode(self, table: pa.Table) -> tuple[Codes, bool]:
        """The codes of a batch, NULL for null. The flag is True where codes given out before are void."""
        codes: Codes = {}
        void = False
        for family in self._families:
            void |= family.encode(table, codes)
        return codes, void


class _Family:
    """Columns in one code space."""

    def __init__(self, schema: pa.Schema, names: Sequence[str], space: Space) -> None:
        self._names = names
        types = [schema.field(name).type for name in names]
        self._schema_types = types
        ordered = any(pair.ordered for pair in space.comparisons if pair.left.name in names)
        is_text = any(kind_of(type_) is Kind.TEXT for type_ in types)
        self._space = CodeSpace(types, ordered=ordered or not is_text)
        # Texts that are only ever equal or not are numbered as they appear: those numbers need no labels.
        self._labels = Labels() if ordered or not is_text else None

    def encode(self, table: pa.Table, codes: Codes) -> bool:
        """Add the codes of these columns of a batch; says whether earlier ones are void."""
        before = self._version()
        wide = [self._space.encode(table.column(name)) for name in self._names]
        if self._space.version != before[0]:
            # Some of them may have been given out before the change.
            self._labels = Labels() if self._labels is not None else None
            wide = [self._space.encode(table.column(name)) for name in self._names]
        narrow = self._narrow(np.concatenate(wide))
        start = 0
        for name, part in zip(self._names, wide, strict=True):
            codes[name] = narrow[start : start + part.size]
            start += part.size
        return self._version() != before

    def _narrow(self, wide: Int64Array) -> Int32Array:
        valid = wide != NULL_CODE
        if self._labels is None:
            return np.where(valid, wide, NULL).astype(np.int32)
        narrow = np.full(wide.size, NULL, np.int32)
        narrow[valid] = self._labels.label(wide[valid])
        return narrow

    def _version(self) -> tuple[int, int]:
        return self._space.version, 0 if self._labels is None else self._labels.version


def _families(space: Space) -> list[list[str]]:
    """The columns of a space, those together that some comparison sets beside each other."""
    family = {name: [name] for name in space.names}
    for pair in space.comparisons:
        one, other = family[pair.left.name], family[pair.right.name]
        if one is not other:
            one += other
            for name in other:
                family[name] = one
    return list({id(names): names for names in family.values()}.values())
