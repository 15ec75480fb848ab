"""Threads that look at something again and again."""

from __future__ import annotations

import threading


class Looking(threading.Thread):
    """A thread that looks until it is told to end; its ``run`` leaves in ``error`` what ended it before."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(daemon=True, name=name)
        self.error: BaseException | None = None
        self._ended = threading.Event()

    def end(self) -> None:
        """Stop looking.

        Raises
        ------
        BaseException
            What ended it before.
        """
        self._ended.set()
        if self.ident is not None:
            self.join()
        if self.error is not None:
            raise self.error
