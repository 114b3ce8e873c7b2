"""The command line: one file per command, loaded when it is called."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line, and exit with one of the codes of `naysay.cli.failure.Exit`."""
    # Loading modules makes 160,000 objects and no garbage: to look every 700 takes a fifth of a short command.
    gc.set_threshold(100_000)
    for stream in (sys.stdout, sys.stderr):
        # Escape characters that the terminal cannot show instead of failing.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    from naysay.cli.group import naysay

    try:
        naysay.main(prog_name="naysay")
    except SystemExit as leaving:
        _leave(leaving.code if isinstance(leaving.code, int) else 1)
    _leave(0)


def _leave(code: int) -> NoReturn:
    """End the process without shutting the interpreter down.

    Threads may still be running kernels and libraries. An Arrow thread that frees memory of Python during the shutdown
    would abort the process and lose the exit code. After an interrupt, exit handlers are skipped too.
    """
    from naysay.cli.failure import Exit

    if code != Exit.INTERRUPTED:
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
