"""The thread that looks again and again, and tells all pages what is new."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor

from penstock.errors import PenstockError
from penstock.files import Document, compact
from penstock.monitor import Question, View

PERIOD = 1.0
"""Seconds between two looks."""

FAILURES = 3
"""Looks that fail one after the other before the pages are told: a file may vanish while it is read, once."""

WAITING = 8
"""Messages that wait for a page at most; a page that is slower gets everything anew."""
ANEW = ""
"""What waits for such a page instead."""


class Watcher(threading.Thread):
    """Looks at a view every second, and hands messages to the pages that listen.

    Parameters
    ----------
    view
        What is looked at; None while there is nothing.
    newer
        Asked now and then for a view of something newer; None: there is nothing newer. It raises an InputError where
        there is, and cannot be read.
    period
        Seconds between two looks.
    clock
        Tells the time (s since the epoch).
    """

    def __init__(
        self,
        view: View | None,
        newer: Callable[[View | None], View | None] = lambda _: None,
        *,
        period: float = PERIOD,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(name="penstock watcher", daemon=True)
        self.view, self.clock = view, clock
        self._newer, self._period = newer, period
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(1, "penstock expecting")
        self._expecting: Future[object] | None = None
        self._pages: dict[asyncio.Queue[str], asyncio.AbstractEventLoop] = {}
        self._lock = threading.Lock()
        self._warmed: View | None = None
        self._told: tuple[View | None, int] = (None, -1)
        self._failed, self._trouble = 0, ""
        self._reported: set[str] = set()
        self.unread: str | None = None
        """Why something newer than is seen cannot be shown."""

    @property
    def trouble(self) -> str | None:
        """Why nothing new is seen; None while all is well."""
        if self._failed >= FAILURES:
            return self._trouble
        return self.unread if self.view is None else None

    @property
    def alert(self) -> str | None:
        """What the pages say above all else; None while all is well."""
        if self.trouble is not None:
            return f"The dashboard cannot read the run and tries again: {self.trouble}"
        return (
            None
            if self.unread is None
            else f"You see an older run, since what is there now cannot be read: {self.unread}"
        )

    def run(self) -> None:
        """Look until the end, whatever goes wrong."""
        count = 0
        while not self._ended.is_set():
            try:
                if count % 3 == 0:
                    self._find()
                self.look()
                self._recovered()
            except Exception as error:
                self._fail(error)
            count += 1
            self._ended.wait(self._period)
        # Not before the last look is over: it may still have work to hand in.
        self._pool.shutdown(wait=False)

    def _find(self) -> None:
        """Look for something newer."""
        before = self.unread
        with contextlib.suppress(OSError):  # folders come and go
            try:
                self.view, self.unread = self._newer(self.view) or self.view, None
            except PenstockError as error:
                self.unread = str(error)
        if self.unread != before:
            self._tell(event("trouble", self.alert))

    def _fail(self, error: Exception) -> None:
        """Take in that a look failed; tell the pages when it goes on, and the terminal what nobody foresaw."""
        self._failed += 1
        self._trouble = f"{type(error).__name__}: {error}"
        if self.trouble is not None:
            self._tell(event("trouble", self.alert))
        if not isinstance(error, PenstockError | OSError | ValueError | KeyError):
            self._report(error)

    def _recovered(self) -> None:
        failed, self._failed = self._failed, 0
        if failed >= FAILURES:
            self._tell(event("trouble", self.alert))

    def _report(self, error: BaseException) -> None:
        """Write an error that is ours to standard error, each once."""
        text = "".join(traceback.format_exception(error))
        if text not in self._reported:
            self._reported.add(text)
            sys.stderr.write(f"penstock dashboard: this is a fault of ours, please report it:\n{text}")

    def look(self) -> None:
        """Look once, and tell the pages."""
        view = self.view
        if view is None:
            self._tell(event("beat", {"now": self.clock()}))
            return
        now = self.clock()
        with view.lock:
            view.look(now)
            if self._told != (view, view.revision):
                self._told = (view, view.revision)
                self._tell(event("about", view.about()))
                view.board.mark()
                message = event("live", view.live(now))
            else:
                message = event("live", view.live(now, view.board.mark()))
        self._tell(message)
        if self._expecting is not None and self._expecting.done() and (wrong := self._expecting.exception()):
            self._report(wrong)
        if self._expecting is None or self._expecting.done():
            work = view.needs_expecting(now)
            if work is None and self._warmed is not view and view.usual_rates():
                # The first question loads the model's kernels: nobody shall wait for that.
                self._warmed, work = view, self._warm
            self._expecting = None if work is None else self._pool.submit(work)

    def _warm(self) -> None:
        with contextlib.suppress(PenstockError):
            if self.view is not None:
                self.view.ask(Question(duration=10.0, shed=True))

    def end(self) -> None:
        """Look no more, and let all pages go."""
        self._ended.set()
        self._tell(ANEW)

    async def listen(self) -> AsyncIterator[str]:
        """Yield messages for one page: first everything, then what is new."""
        queue: asyncio.Queue[str] = asyncio.Queue()
        with self._lock:
            self._pages[queue] = asyncio.get_running_loop()
        try:
            fresh = ANEW
            while not self._ended.is_set():
                if fresh == ANEW:
                    _empty(queue)
                for message in await asyncio.to_thread(self.everything) if fresh == ANEW else [fresh]:
                    yield message
                fresh = await queue.get()
        finally:
            with self._lock:
                self._pages.pop(queue, None)

    def everything(self) -> list[str]:
        """Return the messages that tell all there is."""
        view, wrong = self.view, self.alert
        last = [] if wrong is None else [event("trouble", wrong)]
        if view is None:
            return [event("about", None), event("beat", {"now": self.clock()}), *last]
        with view.lock:
            return [event("about", view.about()), event("live", view.live(self.clock())), *last]

    def _tell(self, message: str) -> None:
        with self._lock:
            for queue, loop in self._pages.items():
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(_put, queue, message)


def _put(queue: asyncio.Queue[str], message: str) -> None:
    """Put a message where it waits for a page, which may read none of them."""
    if queue.qsize() >= WAITING:
        _empty(queue)
        message = ANEW
    queue.put_nowait(message)


def _empty(queue: asyncio.Queue[str]) -> None:
    while not queue.empty():
        queue.get_nowait()


def event(kind: str, document: Document | str | None) -> str:
    """Return a document as a server-sent event."""
    return f"event: {kind}\ndata: {compact(document)}\n\n"
