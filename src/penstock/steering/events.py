"""What happens to a running network by itself: what a scenario tells an engine to let happen."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from penstock.network import Network
from penstock.workload import Rates


@attrs.frozen
class Kill:
    """A host dies at once, with everything that it holds."""

    host: str


@attrs.frozen
class Recover:
    """A host that died comes back, empty."""

    host: str


@attrs.frozen
class Slow:
    """A host works at ``factor`` times the speed that its capacity promises."""

    host: str
    factor: float


@attrs.frozen(eq=False)
class NewRates:
    """Sources arrive at other rates from now on; the first period begins now."""

    rates: Rates


@attrs.frozen(eq=False)
class Admit:
    """Somebody asks to attach queries: a network of their own, whose sources may be those that run already.

    Attributes
    ----------
    network
        The queries.
    rates
        Those of its own sources from the moment it is attached, where they are known.
    most
        The highest rates of its own sources that are known otherwise.
    bound, sinks
        Latency (s) that no sink may exceed, and that single ones may not, where they are stricter than the
        controller's.
    """

    network: Network
    rates: Rates | None = None
    bound: float | None = None
    sinks: Mapping[str, float] = attrs.field(factory=dict)
    most: Mapping[str, float] = attrs.field(factory=dict)


Event = Kill | Recover | Slow | NewRates | Admit
