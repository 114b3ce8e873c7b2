"""The command line: one file a command, each loaded when it is called."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with one of the codes of `naysay.cli.failure.Exit`."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show is no reason to fail.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    from naysay.cli.group import naysay

    naysay.main(prog_name="naysay")
