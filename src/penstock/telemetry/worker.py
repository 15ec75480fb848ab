"""Work that must not hold up who asks for it: a bounded queue and a thread of its own that never raises."""

from __future__ import annotations

import atexit
import queue
import sys
import threading
import warnings
from collections.abc import Callable

Task = Callable[[], None]


class Worker:
    """Does tasks in their order, on a thread of its own.

    Parameters
    ----------
    name
        Of the thread, and in the warning.
    limit
        Tasks that may wait; further ones are dropped and counted.
    """

    def __init__(self, name: str, limit: int = 10_000) -> None:
        self.name = name
        self.dropped = self.failed = 0
        self._tasks: queue.Queue[Task | None] = queue.Queue(limit)
        self._told = self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def put(self, task: Task) -> None:
        """Have a task done later; never waits and never raises."""
        if self._closed:
            return
        try:
            self._tasks.put_nowait(task)
        except queue.Full:
            self.dropped += 1
            self._tell("events come faster than they can be kept: some are left out")

    def close(self, wait: float = 5.0) -> None:
        """Do what waits, for so many seconds at most, and end the thread."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        try:
            self._tasks.put(None, timeout=wait)
        except queue.Full:
            return
        self._thread.join(wait)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception as error:  # whatever it is, the query must not feel it
                self.failed += 1
                self._tell(f"{type(error).__name__}: {error}")

    def _tell(self, why: str) -> None:
        """Warn once; the counts tell of the rest."""
        if self._told:
            return
        self._told = True
        try:
            warnings.warn(f"{self.name}: {why} (further problems are only counted)", RuntimeWarning, stacklevel=3)
        except RuntimeWarning as warning:  # where warnings are errors
            print(warning, file=sys.stderr)  # noqa: T201
