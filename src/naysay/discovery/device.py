"""Where the evidence of all pairs is counted: on the CPU or on a GPU."""

from __future__ import annotations

from enum import Enum

from naysay.discovery.outcomes import Outcomes
from naysay.errors import UsageError


class Device(Enum):
    """`auto` takes a GPU if there is one and there are enough pairs to make it worthwhile."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


# Measured: comparisons per second on one core and on a data-centre GPU, and the seconds for loading a GPU's library.
_CPU_COMPARISONS = 4e9
_CUDA_COMPARISONS = 2e12
_CUDA_BEGIN_SECONDS = 3.0
# For less nobody looks for a GPU: just loading its library takes about a second.
_WORTH_SECONDS = 5.0


def parse_device(name: str | Device) -> Device:
    try:
        return Device(name)
    except ValueError:
        raise UsageError(f"device is 'auto', 'cpu' or 'cuda', not {name!r}") from None


def device_named(name: str | Device) -> Device:
    """The device of that name; UsageError if there is none, or if it is CUDA and cannot be used."""
    device = parse_device(name)
    if device is Device.CUDA:
        missing = _missing()
        if missing is not None:
            raise UsageError(f"device 'cuda' cannot be used: {missing}; 'cpu' works everywhere")
    return device


def cpu_seconds(outcomes: Outcomes, n_threads: int) -> float:
    """Roughly what comparing all pairs takes."""
    return _n_pairs(outcomes) * max(8, len(outcomes.layout.fields)) / _CPU_COMPARISONS / n_threads


def cuda_seconds(outcomes: Outcomes) -> float:
    return _CUDA_BEGIN_SECONDS + _n_pairs(outcomes) * max(8, len(outcomes.layout.fields)) / _CUDA_COMPARISONS


def choose_device(device: Device, outcomes: Outcomes, n_threads: int) -> Device:
    """The device for the evidence of all pairs; the one asked for, or the quicker one."""
    if device is not Device.AUTO:
        return device
    seconds = cpu_seconds(outcomes, n_threads)
    if seconds < _WORTH_SECONDS or cuda_seconds(outcomes) > seconds:
        return Device.CPU
    return Device.CUDA if _missing() is None else Device.CPU


def _missing() -> str | None:
    from naysay.kernels.evidence.gpu import is_available

    return is_available()


def _n_pairs(outcomes: Outcomes) -> float:
    return outcomes.n_rows * (outcomes.n_rows - 1) / 2
