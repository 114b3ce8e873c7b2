"""Shared by all tests: hypothesis profiles, and the folder of papers and data next to the checkout."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

_CHECKS = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

# No deadline: the first call of a kernel compiles it. `ci` repeats the same examples; `soak` generates new ones each
# time.
settings.register_profile("ci", max_examples=60, deadline=None, derandomize=True, suppress_health_check=_CHECKS)
settings.register_profile("soak", max_examples=3000, deadline=None, print_blob=True, suppress_health_check=_CHECKS)
# Uncompiled kernels are slow, and a mutant that was noticed needs no minimal example.
settings.register_profile(
    "mutation", settings.get_profile("ci"), max_examples=20, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile(os.environ.get("NAYSAY_PROFILE", "ci"))

# A shell starts background jobs with SIGINT ignored, and child processes inherit that; tests send interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of papers and data next to the checkout; tests that need it are skipped if it is missing."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("there is no ../shared next to this checkout")
    return folder
