"""Every verb on a cluster of four workers that loses one of them, or all its shuffle files, at random moments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from soak.row import Outcome

ROOT = Path(__file__).resolve().parents[2]
# Four workers are killed, then all shuffle files deleted, on one cluster.
N_ROUNDS = 5
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def trial(seed: int) -> Outcome:
    """Speculation and dynamic allocation are on; the answers before, during and after are those of this process."""
    job = ROOT / "tests" / "spark" / "cluster_job.py"
    command = ["bash", str(ROOT / "scripts" / "cluster"), sys.executable, str(job), str(seed), str(N_ROUNDS)]
    settings = {"WORKERS": "4", "WORKER_CORES": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    # Ten Java processes that live for minutes: the optimising compiler would take most of their time.
    settings |= dict.fromkeys(("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"), QUICK_JAVA)
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, timeout=3600, check=False)
    if done.returncode:
        return Outcome(failure=done.stdout[-2000:] + done.stderr[-4000:])
    lost = ("worker killed", "shuffle files deleted")
    return Outcome(notes=tuple(line for line in done.stdout.splitlines() if line in lost))
