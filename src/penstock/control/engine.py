"""What the loop needs of an engine: look, change, wait."""

from __future__ import annotations

from typing import Protocol

from penstock.files import Document
from penstock.steering import Applied, Event, Observation, Plan


class Engine(Protocol):
    """A running network that can be observed and changed while it runs.

    All times are the engine's: seconds since the run first began, virtual or real, going on over restarts of the
    controller. One engine belongs to one controller at a time.
    """

    @property
    def now(self) -> float:
        """The engine's time (s)."""
        ...

    def observe(self) -> Observation:
        """Return what was counted since the look before (the first: since the run, or this controller, began).

        It never waits for the network: what is not known yet is None or nan in the answer. Two looks never count the
        same tuple, and no tuple is counted by none.
        """
        ...

    def apply(self, plan: Plan) -> Applied:
        """Begin what a plan wants, change by change, in the order of `penstock.steering.changes`.

        Each change is made whole or refused whole, with a reason, and a refused one leaves everything as it was; the
        others are made all the same. What is wanted and already so is begun without effect. It returns as soon as all
        changes have begun: keep fractions, limits and triggers are then in force from the next batch (or tuple) on,
        moves and attached queries are under way, as `observe` tells by ``moving``. Operators that do not change go on.

        Refused are: strangers (operator, host, stream, source); a host that is down, as a target; an operator that is
        moving already; an operator that is pinned elsewhere; operators of one unit sent to different hosts where it
        cannot be split; a network that changes what runs, or lacks a part of it; a host that runs something, to be
        retired; what this engine cannot do.

        Raises
        ------
        EngineError
            If the engine itself has failed.
        """
        ...

    def wait(self, until: float) -> bool:
        """Let the network run until a time (s); return whether it goes on after it.

        False: the input has ended and all of it is delivered, or the run was stopped. A host that dies ends nothing.
        """
        ...

    def happen(self, event: Event) -> None:
        """Let an event of a scenario happen now.

        Raises
        ------
        InputError
            If it names a stranger, or this engine cannot do it.
        """
        ...

    def report(self) -> Document:
        """Return what came of the run so far, in the keys and units of ``penstock run``.

        These are ``placement``, ``latency``, ``sinks``, ``streams``, ``hosts`` and ``balanced``.
        """
        ...

    def close(self, *, stop: bool = True) -> None:
        """Let go of the run: stop its queries, or leave them running for the next controller (``stop=False``)."""
        ...
