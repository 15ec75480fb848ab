"""Where the demo works: a folder that a dashboard finds, while the demo runs and afterwards."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from penstock.home import HOME
from penstock.own import private

MARK = "demo.lock"
"""The file that a demo holds; no folder without it is ever emptied."""


@contextlib.contextmanager
def workplace(home: Path = Path(HOME) / "demo") -> Iterator[Path]:
    """Give the demo an empty folder: ``.penstock/demo`` if it can be had, which stays until the next demo.

    Where the current folder cannot be written, another demo works there, or somebody else's files lie there, it is a
    temporary one, which goes when the demo ends.
    """
    with contextlib.ExitStack() as stack:
        try:
            if home.exists() and not (home / MARK).exists() and any(home.iterdir()):
                raise OSError
            home.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(open(home / MARK, "a", opener=private))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            scratch = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            yield scratch
            return
        for path in home.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != MARK:
                path.unlink()
        yield home.absolute()
