"""Files and folders of one user, where others may have been before."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from penstock.errors import InputError


def private(path: str, flags: int) -> int:
    """Open a file for `open`, as its ``opener``: one that it makes is its owner's only, and no link is followed."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def unlinked(path: str, flags: int) -> int:
    """Open a file for `open`, as its ``opener``: no link is followed."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


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
        if status.st_uid not in (os.getuid(), _user_in(handle)):
            raise InputError("belongs to another user", file=str(path), hint="name another --directory")
        if status.st_mode & 0o077:
            with contextlib.suppress(PermissionError):  # some file systems have no rights
                os.fchmod(handle, 0o700)
    finally:
        os.close(handle)


def _user_in(folder: int) -> int:
    """Return whose files this user makes in a folder: those of a network drive may be somebody else's."""
    name = f".{secrets.token_hex(8)}"
    file = os.open(name, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        return os.fstat(file).st_uid
    finally:
        os.close(file)
        os.unlink(name, dir_fd=folder)
