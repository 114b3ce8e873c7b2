"""Processes to be killed: a nursery forks one for each job, so that a kill does not cost another import.

A feeder is a script that calls `serve`; a `Nursery` starts it and sends it jobs. Only the feeder kills, and it does so
before it has waited for the child, so that the process id cannot belong to another process by then.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Job = dict[str, Any]


class Nursery:
    """The process that forks feeders."""

    def __init__(self, script: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def run(self, job: Job, **more: Any) -> int:
        """How a feeder ended: 0, or minus the signal that killed it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({**job, **more}) + "\n")
        return int(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=600)


def serve(feed: Callable[[Job], None]) -> None:
    """Read jobs from standard input, one JSON object per line; run each in a child, and report how the child ended.

    `crash_at` names a point where the child ends itself; `kill_after` is the number of seconds after which it is
    killed.
    """
    for line in sys.stdin:
        job = json.loads(line)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                if job.get("crash_at"):
                    os.environ["NAYSAY_CRASH_AT"] = job["crash_at"]
                feed(job)
                status = 0
            except BaseException as error:
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
                sys.stderr.flush()
            finally:
                os._exit(status)
        if job.get("kill_after") is not None:
            time.sleep(job["kill_after"])
            os.kill(child, signal.SIGKILL)
        _, ended = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(ended)}\n")
        sys.stdout.flush()
