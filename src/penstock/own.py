"""Files and folders of one user, where others may have been before."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from penstock.errors import InputError, writing


def private(path: str, flags: int) -> int:
    """Open a file for `open`, as its ``opener``: one that it makes is its owner's only, and no link is followed."""
    return unlinked(path, flags, 0o600)


def unlinked(path: str, flags: int, mode: int = 0o666) -> int:
    """Open a file for `open`, as its ``opener``: no link is followed."""
    return os.open(path, flags | os.O_NOFOLLOW, mode)


def write_private(path: Path, text: str) -> None:
    """Write a file as a whole, readable by its owner only."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with writing(path), contextlib.ExitStack() as stack:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        stack.callback(part.unlink, missing_ok=True)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path)


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
        if status.st_uid != os.getuid() and status.st_uid != _user_in(handle):
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
