"""Errors as one message and an exit code; never a traceback unless --debug is given."""

from __future__ import annotations

import errno
import os
import platform
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import click

from naysay.errors import NaysayError
from naysay.version import __version__


class Exit(IntEnum):
    """The exit codes of all commands."""

    HOLDS = 0
    BROKEN = 1
    BAD_INPUT = 2
    DAMAGED_STATE = 3
    RESOURCES = 4
    INTERNAL = 5
    INTERRUPTED = 130
    CLOSED_PIPE = 141


@dataclass(slots=True)
class Session:
    """Settings of one run of the command line that apply to every command."""

    debug: bool = False


class ClosedPipe(Exception):
    """The reader of our output has gone, as in `naysay check ... | head`."""


_OUT_OF = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def guarded(work: Callable[[], object], session: Session) -> int:
    """Do the work and return the exit code; print errors to the error output."""
    try:
        result = work()
        sys.stdout.flush()
        return result if isinstance(result, int) else Exit.HOLDS
    except (KeyboardInterrupt, click.Abort):
        return Exit.INTERRUPTED
    except (ClosedPipe, BrokenPipeError):
        # Otherwise the interpreter would report the error again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return Exit.CLOSED_PIPE
    except click.ClickException as error:
        error.show(sys.stderr)
        return Exit.BAD_INPUT
    except Exception as error:
        if session.debug:
            traceback.print_exc()
        return _failed(error)


def _failed(error: Exception) -> int:
    if isinstance(error, NaysayError):
        say(str(error))
        return error.exit_code
    if isinstance(error, MemoryError):
        say("out of memory; use --memory SIZE to refuse such work before it starts, or --engine spark")
        return Exit.RESOURCES
    if isinstance(error, OSError) and error.strerror:
        say(f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror)
        return Exit.RESOURCES if error.errno in _OUT_OF else Exit.BAD_INPUT
    say(_report(error))
    return Exit.INTERNAL


def say(message: str) -> None:
    """Print one message to the error output."""
    click.echo(f"naysay: {message}", err=True)


def _report(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({Path(where[0].filename).name}:{where[0].lineno})" if where else ""
    what = (str(error).strip().splitlines() or [""])[0]
    return (
        f"internal error: {type(error).__name__}: {what[:200]}{place}\n"
        "This is a bug in naysay, not in your data. Run the same command with --debug, and report its output\n"
        "on the project's issue tracker, with the rules and these versions: "
        f"naysay {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}."
    )
