"""The command line: one file a command, each loaded when it is called."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and exit with one of the codes of `naysay.cli.failure.Exit`."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show is no reason to fail.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    from naysay.cli.group import naysay

    try:
        naysay.main(prog_name="naysay")
    except SystemExit as leaving:
        _leave(leaving.code if isinstance(leaving.code, int) else 1)
    _leave(0)


def _leave(code: int) -> NoReturn:
    """End the process without taking the interpreter apart.

    Threads may still be inside kernels and libraries. One of Arrow's that gives back memory of Python's while the
    interpreter is being taken apart aborts the process, and the exit code with it. After an interrupt nobody waits for
    what others want done at exit either.
    """
    from naysay.cli.failure import Exit

    if code != Exit.INTERRUPTED:
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
