"""Evidence on a GPU: the twin of `evidence.pairs`, with the same plain arrays. Needs only numpy and cupy.

A block of threads keeps left rows in registers, a few per thread, and walks over tiles of right rows in shared memory;
each comparison is an instruction or two, unrolled for the fields of the layout. The bits that vary most are the lowest
of word 0, so most pairs have a code below _SHARED_SLOTS: those are counted in shared memory and added up when the block
ends; the others go straight to the table in device memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from naysay.arrays import Int32Array, Int64Array
from naysay.errors import INSTALL_GPU

# Up to this many bits a code is the index of its counter: 2 GiB of them.
DIRECT_BITS = 28
_THREADS = 256
_TILE = 128
# Counters in shared memory: as many as leave room for a few blocks on a processor, if it gives a block that much.
_SHARED_SLOTS = 16384
_FEWER_SHARED_SLOTS = 8192
# A block of threads counts in 32 bits before it adds up, so it must not see more pairs than that.
_MAX_RIGHT_PER_BLOCK = 1 << 20
_MIN_RIGHT_PER_BLOCK = 1 << 13
# Rows on each side between two looks at the clock: 2^34 pairs, 0.1 s on a data-centre GPU.
_ROWS_BETWEEN_LOOKS = 1 << 17

_SOURCE = r"""
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

__device__ __forceinline__ u64 spread(u64 x) {
    x ^= x >> 31; x *= 0x9E3779B97F4A7C15ULL; x ^= x >> 29; x *= 0xBF58476D1CE4E5B9ULL; x ^= x >> 32;
    return x;
}

#if DIRECT
__device__ __forceinline__ void add_global(const u32* code, u64 weight, u64* counts, u64* tags, u32* keys, u64 last,
                                           int* full) {
    atomicAdd(&counts[code[0]], weight);
}
#else
// Open addressing. A tag is never 0. Up to two words the tag is the code itself; beyond, a hash of it, and the words
// are compared once the thread that claimed the slot has published them in `keys`.
__device__ void add_global(const u32* code, u64 weight, u64* counts, u64* tags, u32* keys, u64 last, int* full) {
#if WORDS <= 2
    u64 tag = 1 + ((u64)code[0] | (WORDS == 2 ? (u64)code[WORDS - 1] << 31 : 0));
    u64 slot = spread(tag) & last;
#else
    u64 tag = code[0];
    for (int word = 1; word < WORDS; word++) tag = spread(tag) ^ code[word];
    tag = spread(tag) | 1;
    u64 slot = (tag >> 7) & last;
#endif
    for (int tries = 0; tries < 4096; tries++, slot = (slot + 1) & last) {
        u64 found = *(volatile u64*)&tags[slot];
        if (found == 0) found = atomicCAS(&tags[slot], 0ULL, tag);
#if WORDS <= 2
        if (found == 0 || found == tag) { atomicAdd(&counts[slot], weight); return; }
#else
        u32* own = keys + slot * (WORDS + 1);
        if (found == 0) {
            for (int word = 0; word < WORDS; word++) own[word] = code[word];
            __threadfence();
            *(volatile u32*)&own[WORDS] = 1;
            atomicAdd(&counts[slot], weight);
            return;
        }
        if (found == tag) {
            while (*(volatile u32*)&own[WORDS] == 0) {}
            __threadfence();
            bool same = true;
            for (int word = 0; word < WORDS; word++) same &= *(volatile u32*)&own[word] == code[word];
            if (same) { atomicAdd(&counts[slot], weight); return; }
        }
#endif
    }
    *full = 1;
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS) count_pairs(
    const int* __restrict__ left, i64 n_left, i64 left_offset,
    const int* __restrict__ right, i64 n_right, i64 right_offset,
    const i64* __restrict__ left_weights, const i64* __restrict__ right_weights,
    i64 right_per_block, int once, u64* counts, u64* tags, u32* keys, u64 last, int* full)
{
    __shared__ __align__(16) int tile[TILE][LINES_PADDED];
    extern __shared__ __align__(16) unsigned char lent[];
    COUNTER* shared_counts = (COUNTER*)lent;
#if WEIGHTED
    __shared__ i64 tile_weights[TILE];
#endif
    for (int slot = threadIdx.x; slot < SLOTS; slot += THREADS) shared_counts[slot] = 0;

    const i64 first = (i64)blockIdx.x * THREADS * ROWS;
    int own[ROWS][LINES];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const i64 i = first + r * THREADS + threadIdx.x;
#pragma unroll
        for (int line = 0; line < LINES; line++) own[r][line] = i < n_left ? left[line * n_left + i] : 0;
    }
    i64 start = (i64)blockIdx.y * right_per_block;
    const i64 stop = min(n_right, start + right_per_block);
    // With `once` only right rows behind the left row count: whole tiles before the block's first row are passed over.
    if (once) {
        const i64 from = first + left_offset - right_offset;
        if (from > start) start += (from - start) / TILE * TILE;
    }
    for (i64 base = start; base < stop; base += TILE) {
        __syncthreads();
        const int n_tile = (int)min((i64)TILE, stop - base);
        for (int place = threadIdx.x; place < TILE * LINES; place += THREADS) {
            const int line = place / TILE, k = place % TILE;
            tile[k][line] = k < n_tile ? right[line * n_right + base + k] : 0;
        }
#if WEIGHTED
        for (int k = threadIdx.x; k < n_tile; k += THREADS) tile_weights[k] = right_weights[base + k];
#endif
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROWS; r++) if (first + r * THREADS + threadIdx.x < n_left) {
            const i64 i = first + r * THREADS + threadIdx.x;
            int k = 0;
            if (once) {
                const i64 behind = i + left_offset + 1 - right_offset - base;
                k = behind <= 0 ? 0 : behind < n_tile ? (int)behind : n_tile;
            }
#if WEIGHTED
            const i64 own_weight = left_weights[i];
#endif
#pragma unroll UNROLL
            for (; k < n_tile; k++) {
                const int* other = tile[k];
                u32 code[WORDS];
COMPARE
#if WEIGHTED
                const COUNTER weight = (COUNTER)(own_weight * tile_weights[k]);
#else
                const COUNTER weight = 1;
#endif
                bool shared = code[0] < SLOTS;
#pragma unroll
                for (int word = 1; word < WORDS; word++) shared &= code[word] == 0;
                if (shared) { atomicAdd(&shared_counts[code[0]], weight); continue; }
                add_global(code, weight, counts, tags, keys, last, full);
            }
        }
    }
    __syncthreads();
    for (int slot = threadIdx.x; slot < SLOTS; slot += THREADS) if (shared_counts[slot]) {
        u32 code[WORDS] = {(u32)slot};
        add_global(code, shared_counts[slot], counts, tags, keys, last, full);
    }
}
"""


class CountStopped(Exception):
    """The caller stopped the count before its end."""


def is_available() -> str | None:
    """None if cupy and a device can be used; otherwise what is missing."""
    try:
        import cupy
    except ImportError:
        return f"the package cupy is not installed ({INSTALL_GPU})"
    try:
        if cupy.cuda.runtime.getDeviceCount() > 0:
            return None
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CUDA finds no device ({error})"
    return "CUDA finds no device"


def count_pairs(
    left: Int32Array,
    right: Int32Array,
    left_weights: Int64Array,
    right_weights: Int64Array,
    masks: Int32Array,
    spans: Int64Array,
    *,
    once: bool,
    max_bytes: int | None = None,
    is_stopped: Callable[[], bool] | None = None,
) -> tuple[Int32Array, Int64Array]:
    """Count the codes of all pairs; with `once`, left and right are the same rows and each unordered pair counts once.

    Arguments as described in `evidence.pairs`. Returns distinct codes int32[n, n_words] and their counts. Sides larger
    than `max_bytes` (default: a third of the device's free memory) are walked in blocks. `is_stopped` is asked after
    each block, which then takes about a tenth of a second; CountStopped is raised once it says so.
    """
    import cupy

    n_words = int(spans.shape[0])
    weighted = bool((left_weights != 1).any() or (right_weights != 1).any())
    n_bits = _n_bits(left, right, masks) if n_words == 1 else 63
    table = _DeviceTable(n_words, n_bits)
    budget = max_bytes or int(cupy.cuda.Device().mem_info[0]) // 3
    rows = max(_TILE, budget // (2 * 4 * (left.shape[0] + 4)))
    if is_stopped is not None:
        rows = min(rows, _ROWS_BETWEEN_LOOKS)
    while True:
        kernel = _compile(masks, spans, weighted, table.direct)
        for left_start in range(0, left.shape[1], rows):
            left_part = _upload(left, left_weights, left_start, rows, weighted)
            for right_start in range(left_start if once else 0, right.shape[1], rows):
                same = left is right and left_start == right_start and left_weights is right_weights
                right_part = left_part if same else _upload(right, right_weights, right_start, rows, weighted)
                _launch(kernel, left_part, right_part, (left_start, right_start), once, table)
                if is_stopped is not None:
                    # A launch returns at once: without waiting, all blocks would be under way before the first look.
                    cupy.cuda.Device().synchronize()
                    if is_stopped():
                        raise CountStopped
        if not bool(table.full[0]):
            return table.collect()
        table = _DeviceTable(n_words, n_bits, 8 * table.capacity)


def _n_bits(left: Int32Array, right: Int32Array, masks: Int32Array) -> int:
    n_fields = masks.shape[1]
    every = int(np.bitwise_or.reduce(masks, axis=None, initial=0))
    for side in (left, right):
        every |= int(np.bitwise_or.reduce(side[n_fields:], axis=None, initial=0))
    return every.bit_length()


def _upload(side: Int32Array, weights: Int64Array, start: int, rows: int, weighted: bool) -> tuple[Any, Any]:
    import cupy

    part = np.ascontiguousarray(side[:, start : start + rows])
    return cupy.asarray(part), cupy.asarray(weights[start : start + rows] if weighted else weights[:1])


def _launch(
    kernel: tuple[Any, int, int],
    left: tuple[Any, Any],
    right: tuple[Any, Any],
    starts: tuple[int, int],
    once: bool,
    table: _DeviceTable,
) -> None:
    n_left, n_right = int(left[0].shape[1]), int(right[0].shape[1])
    if n_left == 0 or n_right == 0:
        return
    function, rows_per_thread, shared_bytes = kernel
    n_blocks = -(-n_left // (_THREADS * rows_per_thread))
    # Enough blocks to fill the device a few times over, none so small that adding up its counts would show.
    wanted = -(-n_right * n_blocks // 4096)
    right_per_block = min(_MAX_RIGHT_PER_BLOCK, max(_MIN_RIGHT_PER_BLOCK, -(-wanted // _TILE) * _TILE))
    sides = (left[0], np.int64(n_left), np.int64(starts[0]), right[0], np.int64(n_right), np.int64(starts[1]))
    counting = (table.counts, table.tags, table.keys, np.uint64(table.capacity - 1), table.full)
    function(
        (n_blocks, -(-n_right // right_per_block)),
        (_THREADS,),
        (*sides, left[1], right[1], np.int64(right_per_block), np.int32(once), *counting),
        shared_mem=shared_bytes,
    )


class _DeviceTable:
    """Counts by code: a counter for each code of one word if that has few bits, else a hash table."""

    def __init__(self, n_words: int, n_bits: int, capacity: int = 1 << 20) -> None:
        import cupy

        self.n_words, self.direct = n_words, n_bits <= DIRECT_BITS
        self.capacity = 1 << n_bits if self.direct else capacity
        self.counts = cupy.zeros(self.capacity, cupy.uint64)
        self.tags = self.keys = self.counts
        if not self.direct:
            self.tags = cupy.zeros(capacity, cupy.uint64)
            self.keys = cupy.zeros((capacity, n_words + 1) if n_words > 2 else 1, cupy.uint32)
        self.full = cupy.zeros(1, cupy.int32)

    def collect(self) -> tuple[Int32Array, Int64Array]:
        import cupy

        used = cupy.flatnonzero(self.counts)
        counts = cupy.asnumpy(self.counts[used]).astype(np.int64)
        if self.direct:
            return cupy.asnumpy(used).astype(np.int32).reshape(-1, 1), counts
        if self.n_words > 2:
            return cupy.asnumpy(self.keys[used, : self.n_words]).astype(np.int32), counts
        tags = cupy.asnumpy(self.tags[used]) - np.uint64(1)
        words = [tags & np.uint64(0x7FFFFFFF), tags >> np.uint64(31)][: self.n_words]
        return np.stack(words, axis=1).astype(np.int32), counts


def _compile(
    masks: Int32Array, spans: Int64Array, weighted: bool, direct: bool, rows: int = 0, slots: int = 0, unroll: int = 4
) -> tuple[Any, int, int]:
    """The kernel for a layout, its fields unrolled; the left rows per thread; the bytes of counters per block."""
    import cupy

    n_fields, n_words = int(masks.shape[1]), int(spans.shape[0])
    lines = n_fields + n_words
    rows = rows or (2 if lines <= 48 else 1)
    slots = slots or _most_slots() // (2 if weighted else 1) // (1 if n_words == 1 else 4)
    shared_bytes = slots * (8 if weighted else 4)
    defines = {
        "DIRECT": int(direct),
        "WEIGHTED": int(weighted),
        "WORDS": n_words,
        "LINES": lines,
        # An odd number of 16-byte steps from row to row: wide loads, and tiles are written without bank conflicts.
        "LINES_PADDED": (-(-lines // 4) | 1) * 4,
        "ROWS": rows,
        "THREADS": _THREADS,
        "TILE": _TILE if lines <= 64 else 32,
        "SLOTS": slots,
        "COUNTER": "u64" if weighted else "u32",
        "UNROLL": unroll,
    }
    head = "".join(f"#define {name} {value}\n" for name, value in defines.items())
    source = head + _SOURCE.replace("COMPARE", _comparisons(masks, spans))
    function = cupy.RawKernel(source, "count_pairs", options=("-std=c++17",))
    function.max_dynamic_shared_size_bytes = shared_bytes
    return function, rows, shared_bytes


def _most_slots() -> int:
    import cupy

    lent = cupy.cuda.Device().attributes.get("MaxSharedMemoryPerBlockOptin", 0)
    return _SHARED_SLOTS if lent >= 3 * 4 * _FEWER_SHARED_SLOTS else _FEWER_SHARED_SLOTS


def _comparisons(masks: Int32Array, spans: Int64Array) -> str:
    n_fields = int(masks.shape[1])
    lines = []
    for word, (first, with_order, end) in enumerate(spans.tolist()):
        terms = [f"(u32)own[r][{n_fields + word}]", f"(u32)other[{n_fields + word}]"]
        for field in range(first, end):
            pair = f"own[r][{field}] {{}} other[{field}] ? {{}}u : 0u"
            if field < with_order:
                terms.append(f"({pair.format('<', int(masks[0, field]))})")
            terms.append(f"({pair.format('==', int(masks[1, field]))})")
        lines.append(f"                code[{word}] = {' | '.join(terms)};")
    return "\n".join(lines)
