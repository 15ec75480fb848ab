"""The folders of embedded hosts: private to the user, locked while in use, removed when nobody holds them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

PREFIX = "penstock-host-"
LONGEST_SOCKET = 100
"""Longest path of a Unix domain socket in bytes (108 on Linux, 104 on macOS, with its terminator)."""
SHORT = Path("/tmp")  # noqa: S108 - a short path; the folders in it are private
YOUNG = 5.0
"""A folder younger than this (s) may be one that is just being made."""


@contextlib.contextmanager
def host_folders(base: Path) -> Iterator[tuple[list[Path], list[int]]]:
    """Make the folder of a host, and a second one for sockets where the first one's path is too long for them.

    Yields
    ------
    tuple
        The folders, the first for files and the last for sockets, and the descriptors of their locks. Whoever is to
        hold the folders inherits the descriptors inside the block; they are closed at its end. A block that fails
        leaves no folder.
    """
    folders: list[Path] = []
    locks: list[int] = []
    try:
        _add(base, folders, locks)
        if len(os.fsencode(folders[0])) + len(f"/.{uuid.uuid4()}.sock") > LONGEST_SOCKET:
            _add(SHORT, folders, locks)
        yield folders, locks
    except BaseException:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        for lock in locks:
            os.close(lock)


def _add(base: Path, folders: list[Path], locks: list[int]) -> None:
    """Sweep a place, make a folder there that only this user can enter, and take its lock."""
    sweep(base)
    base.mkdir(parents=True, exist_ok=True)
    # Its mode is 0700, whatever the user mask says.
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    folders.append(folder)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    locks.append(lock)
    fcntl.flock(lock, fcntl.LOCK_EX)


def sweep(base: Path) -> None:
    """Remove host folders whose supervisor is gone, killed before it could do so.

    A folder belongs to whoever holds the lock on its file ``lock``.
    """
    for lock in base.glob(f"{PREFIX}*/lock"):
        try:
            handle = os.open(lock, os.O_RDWR)
        except OSError:
            continue
        try:
            if time.time() - os.fstat(handle).st_mtime > YOUNG and os.fstat(handle).st_uid == os.getuid():
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue
        finally:
            os.close(handle)
