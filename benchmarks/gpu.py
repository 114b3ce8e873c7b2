"""Evidence on a GPU: how fast it is, and whether its counts equal the CPU's.

    python benchmarks/gpu.py --export FOLDER [TABLE.csv ...]     on any machine: tables and the CPU's evidence
    python benchmarks/gpu.py [--check FOLDER] [--json FILE]      needs only numpy, cupy and a device

Times include the transfer of the table and of the answer, but not the compilation in the first call. The table consists
of ranks like those of Tax: seven columns for equality, eight with order, 23 bits.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from naysay.kernels.evidence.gpu import count_pairs, is_available


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--export", type=Path)
    parser.add_argument("--check", type=Path)
    parser.add_argument("--largest", type=int, default=4_000_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.export:
        export(args.export, args.tables)
        return
    missing = is_available()
    if missing is not None:
        raise SystemExit(missing)
    document: dict[str, Any] = {"device": device_name(), "checks": [], "times": []}
    for path in sorted(args.check.glob("*.npz")) if args.check else []:
        document["checks"].append(check(path))
    for n_left, n_right in ((100_000, 0), (1_000_000, 0), (10_000, 1_000_000), (1_000, 1_000_000), (args.largest, 0)):
        document["times"].append(measure(n_left, n_right))
    if args.json:
        args.json.write_text(json.dumps(document, indent=2) + "\n")


def device_name() -> str:
    import cupy

    return str(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())


def ranks_like_tax(n_rows: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lines, masks and spans as `kernels.evidence.pairs` describes them, the bits that vary most lowest."""
    rng = np.random.default_rng(seed)
    state = rng.integers(0, 50, n_rows)
    zip_code = state * 600 + rng.integers(0, 600, n_rows)
    # Like the exemptions: zero for every other row, so that a quarter of all pairs are equal there.
    few = [rng.integers(0, 51, n_rows) * rng.integers(0, 2, n_rows) for _ in range(3)]
    ordered = [
        state * 10 + rng.integers(0, 10, n_rows),
        rng.permutation(n_rows),
        zip_code,
        rng.integers(0, 1900, n_rows),
        rng.integers(0, 11_087, n_rows),
        *few,
    ]
    equal = [rng.integers(0, n, n_rows) for n in (5000, 20_000, 2, 2, 2)] + [zip_code % 13_200, state]
    lines = np.stack([*ordered, *equal, np.zeros(n_rows, np.int64)]).astype(np.int32)
    varies = [(0.5, 0, field) for field in range(8)]
    for field in range(15):
        shares = np.unique(lines[field], return_counts=True)[1] / n_rows
        p = float(shares @ shares)
        varies.append((min(p, 1 - p), 1, field))
    masks = np.zeros((2, 15), np.int32)
    for bit, (_, which, field) in enumerate(sorted(varies, key=lambda entry: -entry[0])):
        masks[which, field] = 1 << bit
    return lines, masks, np.array([[0, 8, 15]], np.int64)


def measure(n_left: int, n_right: int) -> dict[str, Any]:
    lines, masks, spans = ranks_like_tax(max(n_left, n_right))
    weights = np.ones(lines.shape[1], np.int64)
    left = np.ascontiguousarray(lines[:, :n_left])
    small = np.ascontiguousarray(lines[:, :2000])
    count_pairs(small, small, weights[:2000], weights[:2000], masks, spans, once=not n_right)
    seconds = []
    for _ in range(3 if n_left <= 1_000_000 else 1):
        start = time.perf_counter()
        if n_right:
            _, counts = count_pairs(left, lines, weights[:n_left], weights, masks, spans, once=False)
        else:
            _, counts = count_pairs(left, left, weights, weights, masks, spans, once=True)
        seconds.append(time.perf_counter() - start)
    n_pairs = n_left * n_right if n_right else n_left * (n_left - 1) // 2
    assert int(counts.sum()) == n_pairs, "the counts do not add up"
    row = {
        "left": n_left,
        "right": n_right or n_left,
        "pairs": n_pairs,
        "seconds": min(seconds),
        "pairs_per_second": n_pairs / min(seconds),
        "distinct": len(counts),
    }
    print(row, flush=True)
    return row


def export(folder: Path, paths: list[Path]) -> None:
    """Write each table's lines and the evidence that the CPU counts, for `check` elsewhere."""
    from naysay.budget import Budget
    from naysay.discovery.evidence import count_blocks, triangle
    from naysay.discovery.outcomes import outcomes_of
    from naysay.discovery.space import build_space
    from naysay.io.files import read_table
    from naysay.rule.model import Nulls
    from naysay.table import from_frame
    from tax import tax_table

    folder.mkdir(parents=True, exist_ok=True)
    tables = {f"tax-{n}": tax_table(n) for n in (1_000, 20_000, 100_000)}
    tables |= {path.stem: read_table(str(path), encoding="latin-1") for path in paths}
    for name, arrow in tables.items():
        for nulls in Nulls:
            table = from_frame(arrow)
            outcomes = outcomes_of(table, build_space(table), nulls)
            evidence = count_blocks(outcomes, outcomes, list(triangle(outcomes.n_rows)), Budget(threads=2))
            assert evidence is not None
            np.savez_compressed(
                folder / f"{name}-{nulls.value}.npz",
                left=outcomes.left,
                right=outcomes.right,
                weights=outcomes.weights,
                masks=outcomes.layout.masks,
                spans=outcomes.layout.spans,
                codes=evidence.codes,
                counts=evidence.counts,
            )
            print(name, nulls.value, len(evidence), "codes", flush=True)


def check(path: Path) -> dict[str, Any]:
    with np.load(path) as kept:
        data = {name: kept[name] for name in kept.files}
    start = time.perf_counter()
    weights = data["weights"]
    codes, counts = count_pairs(data["left"], data["right"], weights, weights, data["masks"], data["spans"], once=True)
    seconds = time.perf_counter() - start
    wanted = {tuple(code): count for code, count in zip(data["codes"].tolist(), data["counts"].tolist(), strict=True)}
    found = {tuple(code): count for code, count in zip(codes.tolist(), counts.tolist(), strict=True)}
    row = {
        "table": path.stem,
        "rows": int(weights.sum()),
        "words": int(data["spans"].shape[0]),
        "codes": len(found),
        "equal": found == wanted,
        "seconds_with_compilation": seconds,
    }
    print(row, flush=True)
    return row


if __name__ == "__main__":
    main()
