"""What an engine saw of a running network between two looks: the input of every decision that is made on the way."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.cluster import Cluster
from penstock.network import Network


@attrs.frozen(kw_only=True)
class HostSeen:
    """One host in one period; None: not known yet, or not known of this kind of host.

    Attributes
    ----------
    busy
        Share of the period in which it worked, 0..1.
    batches, overhead
        Batches that ended, and the fixed time of one (s), where it works in batches; where each query has its own, that
        of one query.
    rest
        How long the batch that runs will still take (s), where what it has taken does not count as waiting.
    speed
        How fast it works, as a share of what its capacity promises.
    """

    busy: float | None = None
    batches: int | None = None
    overhead: float | None = None
    rest: float | None = None
    speed: float | None = None


@attrs.frozen(kw_only=True)
class LatencySeen:
    """Latencies (s) of the tuples that reached a sink in one period; None where there was none."""

    count: int = 0
    mean: float | None = None
    p99: float | None = None
    worst: float | None = None


@attrs.frozen(kw_only=True)
class UnitSeen:
    """One unit in one period: what an engine places, stops, moves and fences as a whole.

    Attributes
    ----------
    name, operators
        Its name, which never holds a host's, and the operators that it runs; of a replica ``operator#2``.
    host
        Where it runs; of one that moves, where to.
    generation
        How often it has been started anew on another host or in another shape.
    running
        Whether it works: not while it moves, and not once its host is down.
    waiting, behind
        Tuples that wait to be read by it, and the age of the oldest of them (s); None: not known.
    batches, work
        Batches that ended in the period, and what they worked on tuples (benchmark-core seconds, without overhead);
        None: not known.
    doubt
        Standard error of ``work`` (benchmark-core seconds).
    since
        How long the batch that runs has taken so far (s); None: none runs, or it does not work in batches.
    parts
        Its operators divided into what can go on as units of their own; empty where it is moved as a whole.
    real_time
        Whether it works row by row, where other units work in batches.
    """

    name: str
    operators: tuple[str, ...]
    host: str
    generation: int = 0
    running: bool = True
    waiting: int | None = None
    behind: float | None = None
    batches: int | None = None
    work: float | None = None
    doubt: float = 0.0
    since: float | None = None
    parts: tuple[tuple[str, ...], ...] = ()
    real_time: bool = False


@attrs.frozen(eq=False, kw_only=True)
class Observation:
    """What was counted between two looks, and how things stand; engines fill it, policies read it.

    Counts are those of the period. What an engine does not know, or not yet, is None, or nan inside an array.

    Attributes
    ----------
    at, period
        When it was made, in the engine's time, and the time since the one before (s).
    network, cluster
        What runs now, with queries that were attached and hosts that were added on the way.
    sources, entered
        Names, and array (sources,): tuples that entered.
    unsure
        Those of the sources of which too little was seen to tell how many entered.
    operators
        Names, with replicas, as the rows of the next six.
    served
        Array (operators,): tuples whose service ended.
    work
        Array (operators,): benchmark-core seconds that these took; nan where only the unit's work is known.
    tried, emitted
        Arrays (operators,): what the selectivity is a share of (tuples served, of a join pairs within its windows), and
        tuples put out.
    waiting, behind
        Arrays (operators,): tuples that wait for it, and the age of the oldest of them (s).
    coming
        Array (operators,): tuples for it that batches elsewhere have put out and show when they end; None where what
        these batches have taken still waits for their own operators.
    undecided
        Those of the operators where what waits is still before its drops, with what the batch that runs has taken: the
        fractions that hold when a batch takes it say what is kept. Elsewhere what waits was kept.
    streams, arrived, dropped
        Names as ``network.streams`` has them, and arrays (streams,): tuples put on each, and those that a keep
        fraction or a full queue took out.
    placement
        The host of each operator now; of one that is moving the host that it moves to.
    moving
        Operators that start nothing yet, because they move.
    down, silent
        Hosts that have failed, and those that run and do not answer.
    hosts, units, latency
        By host, by unit in the order of their names, and by sink.
    keep, limits, triggers
        In force: keep fractions by stream (1 where not named), most tuples/s that are read of a source (unlimited where
        not named), intervals of the micro-batches by host (s).
    tables
        By host the ``id`` of the table from which it decides by itself; then ``keep`` is what hosts decided last.
    """

    at: float
    period: float
    network: Network
    cluster: Cluster
    sources: tuple[str, ...]
    entered: NDArray[np.int64]
    operators: tuple[str, ...]
    served: NDArray[np.int64]
    work: NDArray[np.float64]
    tried: NDArray[np.int64]
    emitted: NDArray[np.int64]
    placement: Mapping[str, str]
    waiting: NDArray[np.float64] | None = None
    behind: NDArray[np.float64] | None = None
    coming: NDArray[np.float64] | None = None
    undecided: frozenset[str] = frozenset()
    unsure: frozenset[str] = frozenset()
    streams: tuple[str, ...] = ()
    arrived: NDArray[np.int64] | None = None
    dropped: NDArray[np.int64] | None = None
    moving: frozenset[str] = frozenset()
    down: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
    hosts: Mapping[str, HostSeen] = attrs.field(factory=dict)
    units: tuple[UnitSeen, ...] = ()
    latency: Mapping[str, LatencySeen] = attrs.field(factory=dict)
    keep: Mapping[str, float] = attrs.field(factory=dict)
    tables: Mapping[str, str] = attrs.field(factory=dict)
    limits: Mapping[str, float] = attrs.field(factory=dict)
    triggers: Mapping[str, float] = attrs.field(factory=dict)

    def sums(self) -> NDArray[np.float64]:
        """Return ``served``, ``work``, ``tried`` and ``emitted``, array (4, operators)."""
        return np.array([self.served, self.work, self.tried, self.emitted], np.float64)
