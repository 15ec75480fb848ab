"""What a run is asked to do, and the arrivals of single tuples."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.arrays import Records
from penstock.cluster import Cluster
from penstock.errors import InputError
from penstock.files import Text, suggest
from penstock.network import Network
from penstock.shedding.live import Shed
from penstock.simulation.state import FCFS, LONGEST, ROUND_ROBIN, STIMULUS
from penstock.steering import Observation
from penstock.units import number

Decide = Callable[[Observation], Sequence[tuple[str, str]]]
POLICIES = {"fcfs": FCFS, "stimulus": STIMULUS, "round-robin": ROUND_ROBIN, "longest-queue": LONGEST}
"""By name, the number that the kernel has for each."""


@attrs.frozen
class Failure:
    """A host fails at a time (s): what it holds, and what is sent to it until it recovers, is lost."""

    host: str
    at: float


@attrs.frozen
class Recovery:
    """A failed host serves again from a time (s) on, empty."""

    host: str
    at: float


@attrs.frozen
class Move:
    """An operator or replica moves to a host at a time (s), with its queue."""

    operator: str
    host: str
    at: float


class Steering(Protocol):
    """Moves operators of a run by what is observed; one value may steer many runs."""

    @property
    def tick(self) -> float:
        """Time between two looks (s)."""
        ...

    def begin(self, network: Network, cluster: Cluster, seed: int) -> Decide:
        """Return what each look of a run is given to, in order; it answers with operators and the hosts they go to."""
        ...


@attrs.frozen(kw_only=True)
class MicroBatch:
    """Hosts work in micro-batches instead of tuple by tuple.

    Attributes
    ----------
    trigger
        Batches start at multiples of it (s), or at the end of the last one if that is later.
    overhead
        Fixed time of every batch (s), one number or one per host, of which another host takes the median; None: that
        of the statistics given to `penstock.simulate`, or 0.
    progressive
        Whether outputs become visible evenly during the batch; else at its end.
    """

    trigger: float
    overhead: float | Mapping[str, float] | None = None
    progressive: bool = False


@attrs.frozen(kw_only=True)
class Options:
    """Options of a run; times in seconds.

    Attributes
    ----------
    policy
        Which waiting tuple a host serves next: ``fcfs``, ``stimulus`` (the earliest stimulus time;
        Chandramouli et al. definition 7), ``round-robin`` (one tuple per operator per turn) or ``longest-queue`` (of
        the operator at which most tuples wait; of equal ones the first in the order of the network).
    subinterval
        With ``stimulus``: tuples whose stimulus times lie in the same subinterval of this length (s) are served in the
        order in which they come (section VII-A); 0: only those of the same stimulus time.
    duration
        When the run ends; None: at the end of the input.
    warmup
        Sink tuples and services before it do not count in latency and waiting times.
    queue
        How many tuples may wait at an operator input; None: any number.
    keep
        Keep fractions by stream, 0..1.
    limits
        Most tuples/s that are read of a source; the others wait there, in order. A reader on a host that works in
        micro-batches reads at most so many a batch as come in a trigger (of 1 s, where batches follow each other at
        once). While a reader's host is down, or the reader moves, everything waits.
    failures, recoveries, moves
        What happens to hosts and operators.
    move_time, move_time_per_tuple
        How long a moving operator starts nothing: fixed, and per tuple in its queue.
    drain
        Go on after the end of the input until the system is empty.
    microbatch
        None: hosts serve tuple by tuple.
    shed
        A plan table whose keep fractions follow the measured rates; None: those of ``keep`` hold throughout.
    steer
        Who moves operators during the run, by what is observed at each of its looks. The queue of an operator that is
        moved so also has to cross the link between the two hosts.
    changing
        Whether the run is watched and changed from outside on the way, as ``steer`` does.
    seed
        Of everything random: same seed, same result.
    """

    policy: str = "fcfs"
    subinterval: float = 0.0
    duration: float | None = None
    warmup: float = 0.0
    queue: int | None = None
    keep: Mapping[str, float] = attrs.field(factory=dict)
    limits: Mapping[str, float] = attrs.field(factory=dict)
    failures: tuple[Failure, ...] = ()
    recoveries: tuple[Recovery, ...] = ()
    moves: tuple[Move, ...] = ()
    move_time: float = 0.0
    move_time_per_tuple: float = 0.0
    drain: bool = False
    microbatch: MicroBatch | None = None
    shed: Shed | None = None
    steer: Steering | None = None
    changing: bool = False
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise InputError(
                f"{self.policy!r} is no policy", at="--policy", hint=suggest(self.policy, POLICIES, "policies")
            )
        if self.queue is not None and self.queue < 0:
            raise InputError(f"expected a number of tuples >= 0, got {self.queue}", at="--queue")
        if self.duration is not None and not (math.isfinite(self.duration) and self.duration > 0):
            raise InputError(f"expected a duration > 0 s, got {self.duration:g}", at="--duration")
        if self.subinterval and self.policy != "stimulus":
            raise InputError(f"{self.policy} knows no subintervals", at="--subinterval", hint="use --policy stimulus")
        for name in ("subinterval", "warmup", "move_time", "move_time_per_tuple"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(
                    f"expected a finite number of seconds >= 0, got {value:g}", at="--" + name.replace("_", "-")
                )
        if self.shed is not None and self.steer is not None:
            raise InputError("a plan table is made for one placement: expected no moves by a policy", at="--plan")
        for stream, share in self.keep.items():
            if not 0 <= share <= 1:
                raise InputError(f"expected a keep fraction in 0..1, got {share:g}", at=f"keep.{stream}")
        for source, limit in self.limits.items():
            check_limit(source, limit)
        for option, events in (("--fail", self.failures), ("--recover", self.recoveries), ("--move", self.moves)):
            for event in events:
                if not (math.isfinite(event.at) and event.at >= 0):
                    raise InputError(f"expected a time >= 0 s, got {event.at:g}", at=option)
        if self.microbatch is not None:
            overheads = self.microbatch.overhead or 0.0
            fixed = overheads.values() if isinstance(overheads, Mapping) else (overheads,)
            for value, option in ((self.microbatch.trigger, "--trigger"), *((each, "--overhead") for each in fixed)):
                if not (math.isfinite(value) and value >= 0):
                    raise InputError(f"expected a finite number of seconds >= 0, got {value:g}", at=option)


def check_limit(source: str, limit: float) -> None:
    """Refuse what is no limit of a source."""
    if not (math.isfinite(limit) and limit > 0):
        raise InputError(f"expected a finite number of tuples/s > 0, got {limit:g}", at=f"limits.{source}")


@attrs.frozen(kw_only=True)
class Recording:
    """What a run keeps beside its counts.

    Attributes
    ----------
    trace
        Keep a row per sink tuple, or hand the rows on in parts.
    log
        Keep a row per event.
    sample
        Seconds between samples of the hosts' queues and load.
    most
        Samples at most: where there would be more, every second one is left out and twice as much time lies between
        them, again and again.
    progress
        Called now and then with the time that the run has reached (s).
    """

    trace: bool | Callable[[Records], None] = False
    log: bool = False
    sample: float | None = None
    most: int | None = None
    progress: Callable[[float], None] | None = None

    def __attrs_post_init__(self) -> None:
        if self.sample is not None and not self.sample > 0:
            raise InputError(f"expected a time > 0 s between samples, got {self.sample:g}", at="sample")


@attrs.frozen(eq=False)
class Arrivals:
    """Tuples that enter one by one.

    Attributes
    ----------
    times
        Array (tuples,), seconds, not falling.
    sources
        Name of each tuple's source.
    work
        Array (tuples,): factor on the cost of every service of the tuple and of what derives from it.
    """

    times: NDArray[np.float64]
    sources: tuple[str, ...]
    work: NDArray[np.float64]

    @classmethod
    def of(cls, times: ArrayLike, sources: str | tuple[str, ...] | list[str], work: ArrayLike = 1.0) -> Arrivals:
        """Check and freeze; one source or one factor stands for all tuples."""
        when = np.array(times, dtype=float, ndmin=1)
        factors = np.array(np.broadcast_to(np.asarray(work, dtype=float), when.shape))
        names = (sources,) * len(when) if isinstance(sources, str) else tuple(sources)
        if len(names) != len(when):
            raise InputError(f"expected {len(when)} sources, got {len(names)}", at="arrivals")
        if len(when) == 0:
            raise InputError("expected at least one arrival", at="arrivals")
        if not (np.isfinite(when).all() and (when >= 0).all()):
            raise InputError("expected finite times >= 0", at="arrivals")
        if (np.diff(when) < 0).any():
            row = int(np.argmax(np.diff(when) < 0)) + 1
            raise InputError(f"expected a time of at least {when[row - 1]:g}, got {when[row]:g}", at="arrivals")
        if not (np.isfinite(factors).all() and (factors >= 0).all()):
            raise InputError("expected finite work >= 0", at="arrivals")
        when.setflags(write=False)
        factors.setflags(write=False)
        return cls(when, names, factors)

    @classmethod
    def merged(cls, times: Mapping[str, NDArray[np.float64]]) -> Arrivals:
        """Return the tuples of several sources, by name, in order of time; at the same time in the order given."""
        when = np.concatenate(list(times.values()))
        order = np.argsort(when, kind="stable")
        source = np.repeat(np.arange(len(times)), [len(row) for row in times.values()])[order]
        names = list(times)
        return cls.of(when[order], [names[index] for index in source.tolist()])


def read_arrivals(path: str | os.PathLike[str]) -> Arrivals:
    """Read a file of arrivals: ``time,source[,work]``.

    Raises
    ------
    InputError
        Naming file, line and column.
    """
    text = Text(path)
    rows = text.rows()
    line, header = next(rows, (1, []))
    if header not in (["time", "source"], ["time", "source", "work"]):
        raise InputError(
            f"expected the columns time,source[,work], got {','.join(header)[:80] or 'nothing'}",
            file=text.name,
            line=line,
        )
    times: list[float] = []
    names: list[str] = []
    work: list[float] = []
    for line, row in rows:
        if len(row) != len(header):
            raise InputError(f"expected {len(header)} cells, got {len(row)}", file=text.name, line=line)
        time = number(row[0], "column time", text.name, line)
        if times and time < times[-1]:
            raise InputError(
                f"expected a time of at least {times[-1]:g}, got {time:g}",
                at="column time",
                file=text.name,
                line=line,
                hint="sort the rows by time",
            )
        times.append(time)
        names.append(row[1])
        work.append(number(row[2], "column work", text.name, line) if len(row) > 2 else 1.0)
    if not times:
        raise InputError("expected at least one arrival", file=text.name)
    return Arrivals.of(times, names, work)
