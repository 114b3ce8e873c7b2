"""HyperLogLog: how many distinct codes a column has, from a few kilobytes (Flajolet et al., 2007)."""

from __future__ import annotations

import math

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.compile import kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(1)
_HALF = np.uint64(1 << 62)
_UNSEEN = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel
def sketch(codes: Int64Array, n_bits: int) -> Int64Array:
    """Fill 2^n_bits registers: each the most leading zeros, plus one, among the hashes that fall to it. O(n)."""
    registers = np.zeros(1 << n_bits, np.int64)
    # The least hash has the most leading zeros, and is kept without a branch.
    least = np.full(1 << n_bits, _UNSEEN)
    shift = np.uint64(64 - n_bits)
    for code in codes:
        # The finalizer of splitmix64: every bit of the code stirs every bit of the hash.
        mixed = np.uint64(code) + _GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
        mixed ^= mixed >> np.uint64(31)
        register = np.int64(mixed >> shift)
        least[register] = min(least[register], (mixed << np.uint64(n_bits)) >> _ONE)
    for register in range(registers.size):
        if least[register] != _UNSEEN:
            registers[register] = 1
            while registers[register] <= 64 - n_bits and least[register] < _HALF:
                least[register] <<= _ONE
                registers[register] += 1
    return registers


def estimate(registers: Int64Array) -> float:
    """The number of distinct codes that a sketch saw, with a standard error of 1.04 / sqrt(registers).

    Few codes leave registers empty and are counted by those (linear counting). Hashes have 64 bits, so that the
    correction for large counts of the paper is not needed.
    """
    n_registers = registers.size
    alpha = 0.7213 / (1 + 1.079 / n_registers)
    raw = alpha * n_registers**2 / float(np.sum(np.exp2(-registers.astype(np.float64))))
    n_empty = int(np.count_nonzero(registers == 0))
    if raw <= 2.5 * n_registers and n_empty > 0:
        return n_registers * math.log(n_registers / n_empty)
    return raw
