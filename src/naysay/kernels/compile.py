"""How kernels are compiled: one decorator, and the only place that decides where compiled code is cached."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import threading
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def _sources_digest() -> str:
    """A digest of all kernels and of the versions that compile them: the name of the cache folder.

    To decide whether cached code is still valid numba looks only at a kernel's own file, not at the files of the
    kernels that it calls; so a change to any of them means another folder.
    """
    digest = hashlib.sha256(f"{sys.version} {version('numba')} {version('numpy')}".encode())
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _private_folder() -> Path | None:
    """A folder that only we can write to, or None: cache files are pickles, and loading one runs it.

    A folder that others could write to until now is not used either, as they may already have done so.
    """
    if os.environ.get("NAYSAY_NO_CACHE"):
        return None
    base = os.environ.get("NAYSAY_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        folder = Path(base).expanduser() / "naysay" / f"kernels-{_sources_digest()}"
        # The mode applies only to the last folder.
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
        if not all(_is_private(place) for place in (folder, folder.parent)):
            return None
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except (OSError, RuntimeError, AttributeError, PackageNotFoundError):
        return None
    return folder


def _is_private(folder: Path) -> bool:
    """Whether this is a folder of ours, not a link, that others can at most read."""
    status = folder.lstat()
    shared = stat.S_IMODE(status.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not shared


_FOLDER = _private_folder()
_DECORATING = threading.Lock()


def is_cache_empty() -> bool:
    """Whether no compiled code is cached yet, so that every kernel has to be compiled."""
    return _FOLDER is None or next(_FOLDER.rglob("*.nbi"), None) is None


def kernel(function: Function) -> Function:
    """Compile a module-level function over plain arrays and numbers: single-threaded, without the GIL.

    Compiled code is cached in a private folder if there is one; otherwise each process compiles again. Importing a
    kernel never fails for lack of a folder.
    """
    if _FOLDER is None:
        return _compile(function, cache=False)
    # numba reads the folder when it decorates; the process's own setting is restored for everybody else's functions.
    # One thread at a time, or one would restore it while another decorates.
    with _DECORATING:
        setting = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(_FOLDER)
        try:
            compiled = _compile(function, cache=True)
        finally:
            numba.config.CACHE_DIR = setting
    return compiled if _is_cached_in(compiled, _FOLDER) else _compile(function, cache=False)


def _compile(function: Function, *, cache: bool) -> Function:
    made: Function = numba.njit(nogil=True, cache=cache, error_model="numpy")(function)
    return made


def _is_cached_in(compiled: Callable[..., Any], folder: Path) -> bool:
    """Whether the code goes to our folder; somebody else may have changed the setting meanwhile."""
    stats = getattr(compiled, "stats", None)
    return stats is None or Path(stats.cache_path).parent == folder
