"""The command line: one file a command, each loaded when it is called."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit with one of the codes of `naysay.cli.failure.Exit`."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show is no reason to fail.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    from naysay.cli.failure import Exit
    from naysay.cli.group import naysay

    try:
        naysay.main(prog_name="naysay")
    except SystemExit as leaving:
        if leaving.code == Exit.INTERRUPTED:
            # Threads may still be inside kernels and libraries: nobody waits for them.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(Exit.INTERRUPTED)
        raise
