"""Threads that an interrupt does not wait for."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest

from naysay.budget import Stopped, check_stop, interruptibly, on_threads

# Only what never ends takes this long, however busy the machine is.
HANGS = 600


def test_answers_come_in_the_order_of_the_items() -> None:
    for n_threads in (1, 2, 7):
        assert on_threads(list(range(50)), lambda item: item * item, n_threads) == [item * item for item in range(50)]
    assert on_threads([], lambda item: item, 3) == []


def test_the_first_error_is_raised_and_nothing_new_is_begun() -> None:
    begun = []

    def work(item: int) -> None:
        begun.append(item)
        raise KeyError(item)

    with pytest.raises(KeyError):
        on_threads(list(range(100)), work, 2)
    assert len(begun) <= 2


def test_work_runs_elsewhere_and_only_from_the_main_thread() -> None:
    here = threading.current_thread()
    there = interruptibly(threading.current_thread)
    assert there is not here
    assert there.daemon
    assert interruptibly(lambda: interruptibly(threading.current_thread) is threading.current_thread())


def test_an_interrupt_is_raised_at_once_and_the_work_is_told() -> None:
    told = threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            while True:
                check_stop()
                time.sleep(0.01)
        except Stopped:
            told.set()
            raise

    with pytest.raises(KeyboardInterrupt):
        interruptibly(work)
    assert told.wait(HANGS)


# A rule with 32 predicates over one group, which takes four minutes of CPU time.
_PROGRAM = """
import numpy as np, pyarrow as pa, sys
import naysay
rng = np.random.default_rng(1)
table = pa.table({f"c{i}": rng.integers(0, 4, 1_000_000).astype("int8") for i in range(32)})
rule = "not(" + " and ".join(f"t.c{i} != s.c{i}" for i in range(32)) + ")"
print("begin", flush=True)
naysay.count(table, rule, max_seconds=float('inf'))
"""


def test_an_interrupt_ends_a_program_in_the_middle_of_a_kernel() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    running = subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stdout.readline() == b"begin\n"
    time.sleep(3)
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=HANGS)
    assert b"KeyboardInterrupt" in said
    # It did not finish its work first. CPU time, because a busy machine makes everything else take longer.
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime < 60
