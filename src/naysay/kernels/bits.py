"""Counting and finding bits of 64-bit words, as one machine instruction each where code is compiled."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

if numba.config.DISABLE_JIT:

    def popcount(word: Any) -> Any:
        """How many bits are set."""
        return np.uint64(int(word).bit_count())

    def lowest(word: Any) -> Any:
        """The number of the lowest bit that is set; the word is not zero."""
        return np.uint64((int(word) & -int(word)).bit_length() - 1)

else:

    @intrinsic  # type: ignore[untyped-decorator]
    def popcount(_context: Any, _word: Any) -> Any:
        """How many bits are set."""

        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.ctpop(arguments[0])

        return types.uint64(types.uint64), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def lowest(_context: Any, _word: Any) -> Any:
        """The number of the lowest bit that is set; the word is not zero."""

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

        return types.uint64(types.uint64), generate
