"""Evidence of a change from a GPU, simulated by a loop: the same rules, and a breaking pair for each removed rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from evolve_machine import run_program

from naysay.discovery import evidence as device
from naysay.discovery.evidence import Device
from naysay.errors import UsageError
from naysay.evolve import delta as cuda
from naysay.evolve.evolver import Evolver
from naysay.kernels.evidence import gpu as gpu_evidence


def count_in_a_loop(
    left: Any,
    right: Any,
    left_weights: Any,
    right_weights: Any,
    masks: Any,
    spans: Any,
    *,
    once: bool,
    is_stopped: Any = None,
) -> tuple[Any, Any]:
    """What `count_pairs` promises, pair by pair; nothing stops it."""
    n_fields, found = masks.shape[1], {}
    for i in range(left.shape[1]):
        for j in range(i + 1 if once else 0, right.shape[1]):
            code = []
            for word, (first, _, end) in enumerate(spans.tolist()):
                bits = left[n_fields + word, i] | right[n_fields + word, j]
                for field in range(first, end):
                    one, other = left[field, i], right[field, j]
                    bits |= masks[0, field] if one < other else masks[1, field] if one == other else 0
                code.append(int(bits))
            found[tuple(code)] = found.get(tuple(code), 0) + int(left_weights[i] * right_weights[j])
    codes = np.array(list(found), np.int32).reshape(-1, len(spans))
    return codes, np.array(list(found.values()), np.int64)


@pytest.fixture
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []

    def count(left: Any, right: Any, *rest: Any, **options: Any) -> tuple[Any, Any]:
        calls.append(left.shape[1] * right.shape[1])
        return count_in_a_loop(left, right, *rest, **options)

    monkeypatch.setattr(gpu_evidence, "count_pairs", count)
    monkeypatch.setattr(device, "_missing", lambda: None)
    monkeypatch.setattr(cuda, "missing", lambda: None)
    monkeypatch.setattr(cuda, "_FEW_ROWS", 1)
    return calls


@pytest.mark.parametrize("method", ["all-pairs", "selective"])
def test_programs_on_a_gpu(method: str, fake_gpu: list[int]) -> None:
    for seed in range(700_000, 700_025):
        run_program(seed, method=method, device="cuda")
    assert fake_gpu


def test_auto_takes_the_quicker_one(monkeypatch: pytest.MonkeyPatch) -> None:
    evolver = Evolver(pa.table({"a": [1, 2]}))
    layout = evolver._engine.relation.fields.layout
    monkeypatch.setattr(cuda, "missing", lambda: None)
    assert cuda.device_for(Device.AUTO, 10**6, layout, 2) is Device.CPU
    assert cuda.device_for(Device.AUTO, 10**12, layout, 2) is Device.CUDA
    assert cuda.device_for(Device.CPU, 10**12, layout, 2) is Device.CPU
    monkeypatch.setattr(cuda, "missing", lambda: "no device")
    assert cuda.device_for(Device.AUTO, 10**12, layout, 2) is Device.CPU


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_missing", lambda: "there is no device")
    with pytest.raises(UsageError, match="there is no device"):
        Evolver(pa.table({"a": [1, 2]}), device="cuda")
    with pytest.raises(UsageError, match="'auto', 'cpu' or 'cuda'"):
        Evolver(pa.table({"a": [1, 2]}), device="tpu")
