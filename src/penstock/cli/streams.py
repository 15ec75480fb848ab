"""The standard streams of a command: what is wrong with them is told from what is wrong elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any


class Unwritten(Exception):
    """Standard output cannot be written; it says why, and its cause is what the system said.

    No `OSError`, which may be of any file, and with which Typer and rich end by themselves, as by an answer that is no.
    """


@contextmanager
def guarded() -> Iterator[None]:
    """Let standard output raise `Unwritten`, and standard error nothing: what nobody can be told changes nothing."""
    # Typed as what they stand in for, which has many more methods.
    out: Any = _Guarded(sys.stdout, _told_apart)
    err: Any = _Guarded(sys.stderr, lambda: suppress(OSError))
    with redirect_stdout(out), redirect_stderr(err):
        yield


class _Guarded:
    """A stream whose writes and flushes are guarded."""

    def __init__(self, stream: Any, guard: Callable[[], AbstractContextManager[object]]) -> None:
        self._stream, self._guard = stream, guard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._guard():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._guard():
            self._stream.flush()


@contextmanager
def _told_apart() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unwritten(error.strerror) from error
