"""What is wanted of a running network, and what came of asking for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from penstock.cluster import Host, base_name
from penstock.files import Document
from penstock.network import Network

ADD, ATTACH, MOVE, KEEP, TABLES = "add", "attach", "move", "keep", "tables"
LIMIT, TRIGGER, RETIRE = "limit", "trigger", "retire"


SPAN = 1.0
"""Seconds whose tuples a batch may read where batches follow each other at once."""


@attrs.frozen(kw_only=True, eq=False)
class Plan:
    """What is to be different from now on; what it does not name stays as it is.

    A plan names what is wanted, not steps: to apply it twice is to apply it once.

    Attributes
    ----------
    placement
        The hosts of operators and replicas that are to run elsewhere, and of those that ``network`` adds. One whose
        host is down is started again on the host named here: what it can be started from is the engine's knowledge.
    keep
        Keep fractions by stream; streams that are not named let everything through. None: as it is.
    tables
        By host the document of the table (`penstock.shedding.HostTable`) from which it decides what to keep by itself,
        before each batch, until keep fractions are given again. Hosts that are not named keep everything. None: as it
        is.
    limits
        Most tuples/s to be read of a source; None as value: no limit any more.
    triggers
        Intervals of the micro-batches by host (s).
    network
        The whole network from now on: the present one and what is attached to it. None: as it is.
    add, retire
        Hosts that join, and names of hosts that leave once nothing runs there any more.
    """

    placement: Mapping[str, str] = attrs.field(factory=dict)
    keep: Mapping[str, float] | None = None
    tables: Mapping[str, Document] | None = None
    limits: Mapping[str, float | None] = attrs.field(factory=dict)
    triggers: Mapping[str, float] = attrs.field(factory=dict)
    network: Network | None = None
    add: tuple[Host, ...] = ()
    retire: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing is to be different."""
        some = self.placement or self.limits or self.triggers or self.add or self.retire
        return not some and self.keep is None and self.tables is None and self.network is None


@attrs.frozen
class Change:
    """One part of a plan that is done or refused as a whole.

    Attributes
    ----------
    kind
        ``add``, ``attach``, ``move``, ``keep``, ``tables``, ``limit``, ``trigger`` or ``retire``.
    name
        The host, operator or source; of ``attach`` all new operators, joined by commas; of ``keep`` and ``tables``
        empty: all streams change at once.
    to
        The host, the hosts by operator, keep fractions, tables by host, tuples/s or seconds.
    """

    kind: str
    name: str
    to: Any = None


@attrs.frozen
class Refused:
    """A change that an engine did not make, why, and whether it may soon: what it waits for is under way."""

    change: Change
    why: str
    soon: bool = False


@attrs.frozen
class Applied:
    """What came of a plan.

    Attributes
    ----------
    at
        When, in the engine's time (s).
    begun
        Changes that are in force, or, of moves, under way: an observation says when they have ended.
    refused
        Changes that were not made; nothing of them was.
    """

    at: float
    begun: tuple[Change, ...] = ()
    refused: tuple[Refused, ...] = ()


def changes(plan: Plan, network: Network) -> tuple[Change, ...]:
    """Return a plan's changes in the order in which an engine makes them.

    Hosts join before anything runs there, and leave last; keep fractions are in force before a move begins, since
    moving makes load.

    Parameters
    ----------
    network
        What runs now: operators that ``plan.network`` adds are attached together, all others move.
    """
    found = [Change(ADD, host.name, host) for host in plan.add]
    fresh: set[str] = set()
    if plan.network is not None:
        fresh = set(plan.network.operators) - set(network.operators)
        hosts = {name: host for name, host in sorted(plan.placement.items()) if base_name(name) in fresh}
        found.append(Change(ATTACH, ",".join(sorted(fresh)), {**dict.fromkeys(sorted(fresh)), **hosts}))
    if plan.keep is not None:
        found.append(Change(KEEP, "", dict(plan.keep)))
    if plan.tables is not None:
        found.append(Change(TABLES, "", dict(plan.tables)))
    found += [Change(LIMIT, source, rate) for source, rate in sorted(plan.limits.items())]
    found += [Change(TRIGGER, host, step) for host, step in sorted(plan.triggers.items())]
    found += [Change(MOVE, name, host) for name, host in sorted(plan.placement.items()) if base_name(name) not in fresh]
    found += [Change(RETIRE, host) for host in plan.retire]
    return tuple(found)


def rows_a_batch(limit: float, interval: float) -> int:
    """Return how many tuples a batch may read under a limit (tuples/s) where batches begin at an interval (s)."""
    return max(1, round(limit * (interval or SPAN)))
