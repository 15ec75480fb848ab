"""Files and folders of one user, where others may have been before."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.errors import InputError


def private(path: str, flags: int) -> int:
    """Open a file for `open`, as its ``opener``: one that it makes is its owner's only, and no link is followed."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def own_folder(path: Path) -> None:
    """Make a folder that only this user enters; one that is there is closed to others.

    Raises
    ------
    InputError
        If it is another user's.
    """
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(handle)
        if status.st_uid != os.getuid():
            raise InputError("belongs to another user", file=str(path), hint="name another --directory")
        if status.st_mode & 0o077:
            os.fchmod(handle, 0o700)
    finally:
        os.close(handle)
