"""Sinks whose latency nobody knows, and which of them a new query may delay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import attrs

from penstock.latency.many import Many
from penstock.latency.unended import behind_windows
from penstock.network import Network
from penstock.sizing.bounds import Bounds

BEYOND = 1e6
"""Excess (s) that a search gives to placements which may delay a sink of unknown latency: any other one is better."""


@attrs.frozen(eq=False)
class Stakes:
    """Sinks that a new query may delay, of those behind windows.

    Attributes
    ----------
    many
        The model that follows windows, of the whole.
    new
        The new query.
    every
        Whether every sink is at stake, since the answer has to be sure.
    """

    many: Many
    new: Network
    every: bool

    @cached_property
    def ways(self) -> Mapping[str, frozenset[str]]:
        """The sinks behind windows, each with the operators before it."""
        return behind_windows(self.many.model)

    def among(self, quiet: Iterable[str], placement: Mapping[str, str]) -> tuple[str, ...]:
        """Return those of some sinks that the new query may delay: its own, and those that it shares hosts with.

        What is joined to it by no host, machine or stream is as late as it was.
        """
        touched = set[str]()
        for part in self.many.parts(placement):
            touched |= part.keys() if part.keys() & self.new.operators.keys() else set()
        return tuple(name for name in quiet if self.every or name in self.new.sinks or self.ways[name] & touched)

    def excess(self, bounds: Bounds, placement: Mapping[str, str]) -> float:
        """Return by how much (s) a placement exceeds bounds; far more where a sink of unknown latency is at stake.

        Such a sink has a worst latency of 0, since nothing reaches it.
        """
        worst = self.many.worst(placement)
        quiet = [name for name in self.ways if not worst.sinks[name]]
        return bounds.over(*worst) + (BEYOND if quiet and self.among(quiet, placement) else 0.0)
