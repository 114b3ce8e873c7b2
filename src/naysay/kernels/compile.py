"""How kernels are compiled: one decorator, and the one place that decides where compiled code is kept."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def _private_folder() -> Path | None:
    """A folder of ours that nobody else can write to, or None: cache files are pickles, and loading one runs it."""
    if os.environ.get("NAYSAY_NO_CACHE"):
        return None
    base = os.environ.get("NAYSAY_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(base).expanduser() / "naysay" / f"numba-{sys.version_info[0]}{sys.version_info[1]}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = folder.stat()
        if status.st_uid != os.getuid():
            return None
        if stat.S_IMODE(status.st_mode) & 0o077:
            folder.chmod(0o700)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except (OSError, RuntimeError, AttributeError):
        return None
    return folder


_folder = _private_folder()
if _folder is not None:
    os.environ.setdefault("NUMBA_CACHE_DIR", str(_folder))

import numba  # noqa: E402  (the cache folder must be known before numba reads its settings)

_CACHE = _folder is not None and os.environ.get("NUMBA_CACHE_DIR") == str(_folder)


def kernel(function: Function) -> Function:
    """Compile a module-level function over plain arrays and numbers: single-threaded, without the GIL.

    Compiled code is kept in a private folder where there is one; where there is none it is compiled again in
    each process. Importing a kernel never fails for want of a folder.
    """
    compiled: Function = numba.njit(nogil=True, cache=_CACHE, error_model="numpy")(function)
    return compiled
