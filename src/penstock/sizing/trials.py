"""Which placements on a number of hosts are worth an estimate, the most promising first."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import attrs
import numpy as np

from penstock.cluster import Cluster, Placement
from penstock.errors import Infeasible
from penstock.sizing.packing import Packing

LEAVES = 400
"""Divisions that a model slower than Mace weighs for one number of hosts."""

Place = Callable[[Cluster], Placement]
"""A placement algorithm on a given cluster; it may raise `Infeasible`."""


@attrs.frozen(eq=False, kw_only=True)
class Trials:
    """What is tried on a number of hosts.

    Attributes
    ----------
    work
        The operators, and how they can share hosts.
    exact
        Whether the model says what the packing says, so that one division tells.
    backlog
        Whether the model never answers less than the largest backlog of a host.
    place
        Algorithm that has to be used; None: the best of what is known here.
    improve
        Algorithm to try where no division is known to do.
    """

    work: Packing
    exact: bool
    backlog: bool
    place: Place | None = None
    improve: Place | None = None

    def on(self, made: Cluster, count: int) -> Iterator[Placement]:
        """Iterate over placements worth an estimate on so many hosts."""
        work = self.work
        if self.place is not None:
            yield from _by(self.place, made)
            return
        if not self.backlog:
            yield from self._uncut(made, count)
            return
        any_found = False
        for trial in itertools.islice(work.divisions(made, count, work.bound), 1 if self.exact else LEAVES):
            any_found = True
            yield trial
        if work.complete and not any_found:
            return
        if not (self.exact and any_found) and self.improve is not None:
            yield from _by(self.improve, made)

    def _uncut(self, made: Cluster, count: int) -> Iterator[Placement]:
        """Iterate over placements for a model that may wait less than the backlog says, so that nothing is cut off.

        Even ones come first: of many operators, the first divisions that fill one host after another differ by the
        lightest only, and each overloads a host.
        """
        work, tried = self.work, set[tuple[str, ...]]()
        improved = () if self.improve is None else _by(self.improve, made)
        even = itertools.islice(work.divisions(made, count, np.inf, even=True), LEAVES // 2)
        for trial in itertools.chain(improved, even, work.divisions(made, count, np.inf)):
            key = tuple(trial[name] for name in work.names)
            if key in tried:
                continue
            tried.add(key)
            yield trial
            if len(tried) == LEAVES:
                return


def _by(place: Place, made: Cluster) -> Iterator[Placement]:
    """Iterate over what an algorithm finds: one placement, or none."""
    try:
        placement = place(made)
    except Infeasible:
        return
    yield placement
