"""What earlier recorders left in a folder that is to stay bounded."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

LEFT = 300.0
"""Seconds after which a file that nobody has written to counts as left by a recorder that is no more."""


def sweep(folder: Path, mine: str, limit: int) -> None:
    """Remove the oldest files that earlier recorders left, while all files together are beyond a limit.

    Parameters
    ----------
    mine
        What the names of files begin with that stay.
    limit
        In bytes.
    """
    files = []
    for path in folder.glob("penstock-*-[0-9][0-9][0-9][0-9][0-9][0-9].jsonl"):
        with contextlib.suppress(FileNotFoundError):
            state = path.stat()
            files.append((state.st_mtime, state.st_size, path))
    total = sum(size for _, size, _ in files)
    for when, size, path in sorted(files):
        if total <= limit:
            return
        if not path.name.startswith(mine) and time.time() - when > LEFT:
            path.unlink(missing_ok=True)
            total -= size
