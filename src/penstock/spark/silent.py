"""Hosts that run and do not answer: a process that stands still, a collection of garbage, a network that drops all.

Spark Connect waits for an answer as long as it takes. Whoever looks after several hosts does not: it asks beside
itself, and a host whose answer is late is passed over until it comes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Answer = TypeVar("Answer")

Ask = Callable[[Callable[[], Any]], Any]
"""Returns the answer to a question, or raises `Silent`."""

PATIENCE = 3.0
"""Seconds after which a host that looks are waiting for counts as silent."""


class Silent(RuntimeError):
    """A host has not answered in time; it may still."""


def waiting(question: Callable[[], Answer]) -> Answer:
    """Return the answer to a question, whenever it comes."""
    return question()


def within(patience: float, question: Callable[[], Answer]) -> Answer:
    """Return the answer to a question that comes within some seconds.

    Raises
    ------
    Silent
        If none does. The question stays asked.
    """
    return _answer(_asked(question), patience)


class Asker:
    """Asks hosts; one that has not answered a question yet is asked no other.

    Parameters
    ----------
    patience
        Seconds to wait for an answer.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._late: dict[str, Future[object]] = {}

    @property
    def silent(self) -> frozenset[str]:
        """Hosts that have not answered yet."""
        return frozenset(name for name, late in [*self._late.items()] if not late.done())

    def ask(self, host: str, question: Callable[[], Answer]) -> Answer:
        """Return a host's answer.

        Raises
        ------
        Silent
            If it does not come in time, or an earlier one has not come yet.
        """
        if host in self.silent:
            raise Silent(f"host {host!r} does not answer")
        asked = _asked(question)
        try:
            return _answer(asked, self._patience)
        except Silent:
            self._late[host] = asked  # type: ignore[assignment]  # only whether it is there counts
            raise


def _asked(question: Callable[[], Answer]) -> Future[Answer]:
    """Ask beside this thread; what is never answered keeps nobody from ending."""
    asked: Future[Answer] = Future()

    def ask() -> None:
        try:
            asked.set_result(question())
        except BaseException as error:
            asked.set_exception(error)

    threading.Thread(target=ask, name="penstock-ask", daemon=True).start()
    return asked


def _answer(asked: Future[Answer], patience: float) -> Answer:
    try:
        return asked.result(patience)
    except TimeoutError:
        if asked.done():
            # The question itself, or its answer a moment ago.
            return asked.result()
        raise Silent(f"no answer within {patience:g} s") from None
