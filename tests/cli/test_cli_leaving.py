"""How a command ends: with its exit code, even if threads of libraries are still running."""

from __future__ import annotations

import subprocess
import sys

# An object that is only deleted when the interpreter shuts down; by then, an Arrow thread that frees Python's memory
# aborts the process: `naysay check` on a refused file did so once in eight runs on a busy machine.
_PROGRAM = """
import atexit, os, sys

class Last:
    def __del__(self):
        os.write(1, b"taken apart")

sys.kept = Last()
atexit.register(lambda: os.write(1, b"at exit"))
from naysay.cli import main
main()
"""


def test_the_interpreter_is_not_taken_apart_and_what_waits_for_the_exit_is_done() -> None:
    command = [sys.executable, "-c", _PROGRAM, "lint", "no such file"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (2, "at exit")
    assert "no such file" in done.stderr
