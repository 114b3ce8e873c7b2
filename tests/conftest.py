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

# A test's JVM lives for seconds or minutes: the optimising compiler would take two fifths of its time, and a parallel
# collector threads that the other process needs. Without that compiler Java keeps only 48 MB of compiled code, which a
# few minutes of plans fill: from then on it would compile the same again and again. Its classes fill so much memory
# that it would collect all garbage several times before it makes more room. Every JVM that Spark starts takes these,
# those of examples too.
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"
os.environ.setdefault("SPARK_SUBMIT_OPTS", _QUICK_JAVA)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", _QUICK_JAVA)

# Rough CPU seconds of the files that take longest; only their order matters. With two processes the heaviest go first,
# so that neither process is left with one of them at the end.
_SECONDS = {
    "test_spark_elsewhere.py": 200,
    "test_spark_large.py": 130,
    "test_spark_bounds.py": 120,
    "test_spark_differential.py": 120,
    "test_spark_discover.py": 90,
    "test_spark_real.py": 90,
    "test_stream.py": 80,
    "test_spark_csv.py": 70,
    "test_spark_parity.py": 70,
    "test_docs.py": 60,
    "test_spark_meaning.py": 60,
    "test_spark_plans.py": 60,
    "test_kill.py": 50,
    "test_against_oracle.py": 45,
    "test_damage.py": 45,
    "test_doses.py": 40,
    "test_spark_mirror.py": 35,
    "test_discover_clock.py": 30,
    "test_discover_small.py": 30,
    "test_examples.py": 30,
    "test_partition.py": 30,
    "test_machine.py": 25,
    "test_mirror.py": 25,
    "test_spark_cli.py": 25,
    "test_spark_workers.py": 20,
}

# A shell starts background jobs with the interrupt ignored, and so would all that they start; tests send interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: -_SECONDS.get(item.path.name, 0))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of papers and data next to the checkout; tests that need it are skipped if it is missing."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("there is no ../shared next to this checkout")
    return folder
