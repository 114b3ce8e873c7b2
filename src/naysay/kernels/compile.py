"""How kernels are compiled: one decorator, and the one place that decides where compiled code is kept."""

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
    """A digest of all kernels and of who compiles them: the name of the folder that compiled code is kept in.

    numba looks only at a kernel's own file to tell whether kept code is still right, not at the kernels that it calls
    in other files; so any change to any of them means another folder.
    """
    digest = hashlib.sha256(f"{sys.version} {version('numba')} {version('numpy')}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _private_folder() -> Path | None:
    """A folder of ours that nobody else can write to, or None: cache files are pickles, and loading one runs it.

    A folder that others could write to until now is not used either: they may have.
    """
    if os.environ.get("NAYSAY_NO_CACHE"):
        return None
    base = os.environ.get("NAYSAY_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        folder = Path(base).expanduser() / "naysay" / f"kernels-{_sources_digest()}"
        # The mode is that of the last folder alone.
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
    """Whether the folder, which is no link, is ours and for others to read at most."""
    status = folder.lstat()
    shared = stat.S_IMODE(status.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not shared


_FOLDER = _private_folder()
_DECORATING = threading.Lock()


def nothing_kept() -> bool:
    """Whether no compiled code is kept yet, so that every kernel has to be compiled."""
    return _FOLDER is None or next(_FOLDER.rglob("*.nbi"), None) is None


def kernel(function: Function) -> Function:
    """Compile a module-level function over plain arrays and numbers: single-threaded, without the GIL.

    Compiled code is kept in a private folder where there is one; where there is none it is compiled again in
    each process. Importing a kernel never fails for want of a folder.
    """
    if _FOLDER is None:
        return _compiled(function, keep=False)
    # numba takes the folder when it decorates; the process's own setting is put back for everybody else's functions.
    # One thread at a time, or one would put it back while another decorates.
    with _DECORATING:
        setting = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(_FOLDER)
        try:
            compiled = _compiled(function, keep=True)
        finally:
            numba.config.CACHE_DIR = setting
    return compiled if _is_kept_in(compiled, _FOLDER) else _compiled(function, keep=False)


def _compiled(function: Function, *, keep: bool) -> Function:
    made: Function = numba.njit(nogil=True, cache=keep, error_model="numpy")(function)
    return made


def _is_kept_in(compiled: Callable[..., Any], folder: Path) -> bool:
    """Whether the code is kept in our folder; somebody else may have changed the setting meanwhile."""
    stats = getattr(compiled, "stats", None)
    return stats is None or Path(stats.cache_path).parent == folder
