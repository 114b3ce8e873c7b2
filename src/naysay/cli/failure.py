"""What goes wrong, as one message and an exit code; never a traceback unless asked for."""

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
from naysay.report.version import installed_version


class Exit(IntEnum):
    """What the exit code of a command says."""

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
    """What one run of the command line knows beside the options of its command."""

    debug: bool = False


class ClosedPipe(Exception):
    """Whoever read our output has gone, as in `naysay check ... | head`."""


_OUT_OF = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def guarded(work: Callable[[], object], session: Session) -> int:
    """Do the work and return the exit code; say on the error output what went wrong."""
    try:
        result = work()
        sys.stdout.flush()
        return result if isinstance(result, int) else Exit.HOLDS
    except (KeyboardInterrupt, click.Abort):
        return Exit.INTERRUPTED
    except (ClosedPipe, BrokenPipeError):
        # The interpreter must not complain again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return Exit.CLOSED_PIPE
    except click.ClickException as error:
        return _usage(error)
    except Exception as error:
        if session.debug:
            traceback.print_exc()
        return _failed(error)


def _usage(error: click.ClickException) -> int:
    error.show(sys.stderr)
    return Exit.BAD_INPUT


def _failed(error: Exception) -> int:
    if isinstance(error, NaysayError):
        say(str(error))
        return error.exit_code
    if isinstance(error, MemoryError):
        say("out of memory; check and discover take --memory to refuse such work before it starts, and --engine spark")
        return Exit.RESOURCES
    if isinstance(error, OSError) and error.strerror:
        say(f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror)
        return Exit.RESOURCES if error.errno in _OUT_OF else Exit.BAD_INPUT
    say(_report(error))
    return Exit.INTERNAL


def say(message: str) -> None:
    """One message on the error output."""
    click.echo(f"naysay: {message}", err=True)


def _report(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({Path(where[0].filename).name}:{where[0].lineno})" if where else ""
    what = (str(error).strip().splitlines() or [""])[0]
    return (
        f"internal error: {type(error).__name__}: {what[:200]}{place}\n"
        "This is a fault of naysay, not of your data. Run the same command with --debug, and report what it prints\n"
        "on the project's issue tracker, with the rules and these versions: "
        f"naysay {installed_version()}, Python {platform.python_version()}, {platform.system()} {platform.machine()}."
    )
