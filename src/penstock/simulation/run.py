"""Running the kernel: room for tuples, controls, and the sinks' rows."""

from __future__ import annotations

import bisect
import copy
import math
from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Records
from penstock.cluster import Cluster, with_copies
from penstock.errors import InputError
from penstock.network import Network
from penstock.shedding.live import Shedder
from penstock.simulation import state as layout
from penstock.simulation.busy import busy
from penstock.simulation.compile import FAIL, MOVE, PAUSE, RECOVER, Compiled, Control, compile_run
from penstock.simulation.control import apply, set_keep
from penstock.simulation.gates import entered, held, set_limit, settle
from penstock.simulation.maps import Maps, linked
from penstock.simulation.options import Arrivals, Options, Recording
from penstock.simulation.result import Latencies, Series, SimulationResult, assemble
from penstock.simulation.room import copied, grown
from penstock.simulation.transplant import transplanted
from penstock.simulation.watch import Watch, everywhere
from penstock.steering import Observation
from penstock.workload import Rates

_STRIDE = 5_000_000
_LOOKS = 100
"""So often somebody who steers may look at a drained run in which nothing happens any more, before it is over."""


def simulate(
    network: Network,
    cluster: Cluster,
    placement: Mapping[str, str],
    arrivals: Rates | Arrivals,
    options: Options | None = None,
    *,
    record: Recording | None = None,
) -> SimulationResult:
    """Run a placed network in virtual time.

    Parameters
    ----------
    network
        Every operator needs a cost; a missing selectivity is 1.
    cluster, placement
        Where each operator, and each replica ``operator#2``, runs.
    arrivals
        Rates of the sources (from time 0, whatever ``arrivals.start`` says), or single tuples.
    options
        Policy, bounds, drops, failures, moves, seed.
    record
        What to keep beside the counts.

    Raises
    ------
    InputError
        If the parts do not fit each other.
    """
    run = Simulation(network, cluster, placement, arrivals, options, record=record)
    looks, steer, shedder = 0, run.options.steer, run.shedder
    if steer is not None:
        if with_copies(placement):
            raise InputError("operators with copies cannot be moved by a policy", at="--rebalance")
        decide = steer.begin(network, cluster, run.options.seed)
        while run.go((looks := looks + 1) * steer.tick):
            moves = decide(run.observe(steer.tick))
            for name, host in moves if run.at < run.end else ():
                run.move(name, host)
    elif shedder is not None:
        # Nothing enters after the end of the input, so there is nothing to look up.
        while run.at < run.input_end and run.go((looks := looks + 1) * shedder.plan.period):
            run.keep(shedder.look(run.entered()))
    run.go()
    return run.result()


class Simulation:
    """A run in virtual time that goes on from stop to stop; in between it can be looked at and changed.

    Parameters are those of `simulate`; ``options.steer`` and ``options.shed`` are for whoever drives it.
    """

    def __init__(
        self,
        network: Network,
        cluster: Cluster,
        placement: Mapping[str, str],
        arrivals: Rates | Arrivals,
        options: Options | None = None,
        *,
        record: Recording | None = None,
    ) -> None:
        from penstock.simulation.native import advance as compiled

        self._advance = compiled()
        self.options, record = options or Options(), record or Recording()
        self.network, self.cluster, self.arrivals = network, cluster, arrivals
        self.changing = self.options.changing or self.options.steer is not None
        made = compile_run(network, cluster, placement, arrivals, self.options, log=1 << 16 if record.log else 0)
        self.run = everywhere(made) if self.changing else made
        self.watch = Watch(self.run, network, cluster, self.changing)
        self.pending = sorted(self.run.controls, key=lambda control: (control.at, control.rank))
        self._latencies = Latencies(len(self.run.sinks))
        self._trace = record.trace
        self._rows: list[Records] = []
        self._logged: list[Records] = []
        self._log, self._progress = record.log, record.progress
        self._final = float(self.run.state.g["end"][0])
        self._step = math.inf if record.sample is None else record.sample
        self._most = math.inf if record.most is None else record.most
        self._samples: list[tuple[float, NDArray[np.int64], NDArray[np.float64]]] = []
        self.run.state.g["end"] = min(self._final, self._step)
        self.at, self.over, self._looks = 0.0, False, 0

    def fork(self) -> Simulation:
        """Return a copy that goes on by itself, so that several futures share what was before them.

        Raises
        ------
        ValueError
            If a plan table is followed, or rows are handed on: their receivers cannot be copied.
        """
        if self.shedder is not None or callable(self._trace):
            raise ValueError("a run whose plan or rows are in other hands cannot fork")
        other = copy.copy(self)
        other.run = attrs.evolve(self.run, state=copied(self.run.state), links=dict(self.run.links))
        other.watch, other._latencies = self.watch.fork(), copy.deepcopy(self._latencies)
        other.pending, other._samples = list(self.pending), list(self._samples)
        other._rows, other._logged = [rows.copy() for rows in self._rows], list(self._logged)
        return other

    @property
    def shedder(self) -> Shedder | None:
        """Who looks up the plan table of ``options.shed``, if there is one."""
        return self.run.shedder

    @property
    def end(self) -> float:
        """When the run ends (s), unless it drains."""
        return self._final

    @property
    def input_end(self) -> float:
        """When the last tuple may enter (s)."""
        return float(self.run.state.g["input_end"][0])

    def entered(self) -> NDArray[np.int64]:
        """Return how many tuples of each source have entered and been read, array (sources,)."""
        s = self.run.state
        return np.asarray(entered(s) - held(s)[1], np.int64)

    def go(self, until: float = math.inf) -> bool:
        """Run up to a time (s), before what happens at it; return whether there is anything after it.

        Without a time it runs to the end.
        """
        if math.isfinite(until):
            self._later(Control(until, 5, PAUSE, -1))
        while not self.over:
            s = self.run.state
            s.g["control"] = self.pending[0].at if self.pending else np.inf
            s.g["budget"] = _STRIDE
            status = self._advance(s.g)
            if s.g["heaped"][0] > s.heap.size:
                raise RuntimeError("more events to come than there is room for")
            if status == layout.DONE or (status == layout.CONTROL and self._spent()):
                self.over = self._ended()
            elif status == layout.CONTROL:
                if self.pending[0].kind == PAUSE:
                    self._looks = self._looks + 1 if s.g["heaped"][0] == 0 else 0
                    self.at = self.pending.pop(0).at
                    s.g["now"] = self.at
                    self._flush()
                    return True
                self.run = apply(self.run, self.pending, self.watch)
            elif status == layout.ROWS:
                self._flush()
            elif status == layout.LOG:
                self._logged.append(s.log[: int(s.g["logs"][0])].copy())
                s.g["logs"] = 0
            if self._progress is not None:
                self._progress(float(s.g["now"][0]))
            self.run = grown(self.run, status)
        return False

    def arrived(self) -> dict[str, int]:
        """Return how many tuples have been put on each stream, before anything was dropped there."""
        s, total = self.run.state, np.zeros(len(self.run.streams), np.int64)
        np.add.at(total, s.inputs["stream"], s.inputs["arrived"])
        return dict(zip(self.run.streams, total.tolist(), strict=True))

    def observe(self, period: float) -> Observation:
        """Return what was counted in the period (s) since the look before."""
        return self.watch.look(self.run, self.pending, self.at, period)

    def move(self, name: str, host: str) -> bool:
        """Let an operator move with its queue; return whether it was elsewhere."""
        unit, target = self.run.units.index(name), self.run.hosts.index(host)
        if int(self.run.state.units["host"][unit]) == target:
            return False
        self._later(Control(self.at, 2, MOVE, target, unit))
        return True

    def keep(self, shares: Mapping[str, float]) -> None:
        """Let each stream keep a share of its tuples from now on, all of them where it is not named."""
        self.run, self.watch.keep = set_keep(self.run, shares, self.at), dict(shares)

    def speed(self, host: str, factor: float) -> None:
        """Let a host work at a share of the speed that its capacity promises, from the next tuple or batch on."""
        self.watch.settle(self.run)
        machine = self.cluster.hosts[host]
        self.run.state.hosts["speed"][self.run.hosts.index(host)] = machine.capacity / machine.cores * factor

    def trigger(self, host: str, step: float) -> None:
        """Let a host's micro-batches start at multiples of another time (s)."""
        self.run.state.hosts["trigger"][self.run.hosts.index(host)] = step
        settle(self.run.state)

    def limit(self, source: str, rate: float | None) -> None:
        """Let no more than so many tuples/s of a source be read from now on; None: any number."""
        set_limit(self.run.state, [*self.network.sources].index(source), math.inf if rate is None else rate)

    def fail(self, host: str) -> None:
        """Let a host fail now."""
        self._later(Control(self.at, 0, FAIL, self.run.hosts.index(host)))

    def recover(self, host: str) -> None:
        """Let a failed host serve again from now on."""
        self._later(Control(self.at, 1, RECOVER, self.run.hosts.index(host)))

    def become(self, network: Network, cluster: Cluster, placement: Mapping[str, str], rates: Rates) -> None:
        """Go on with another network, cluster or rates; what is in both goes on as it was.

        Parameters
        ----------
        network, cluster
            With everything that is in the present ones.
        placement
            Of the operators that are new; the others are where they are.
        rates
            Of all sources from time 0 on; what they say of the past is what was.

        Raises
        ------
        InputError
            If the parts do not fit each other; nothing has changed then.
        """
        here = {name: self.run.hosts[h] for name, h in zip(self.run.units, self.run.state.units["host"], strict=True)}
        fresh = everywhere(compile_run(network, cluster, {**placement, **here}, rates, self.options))
        same = {k for k, name in enumerate(network.sources) if _same(self.arrivals, rates, name)}
        maps = Maps.of(self.run, fresh)
        self.pending = [maps.control(control) for control in self.pending]
        self.watch.become(network, cluster, maps)
        fresh = self.watch.linked(linked(fresh, cluster, maps.links(self.run)))
        self.run = transplanted(self.run, fresh, maps, same, self.at)
        self._latencies.become(maps.sinks, len(fresh.sinks))
        for rows in self._rows:
            rows["sink"] = maps.sinks[rows["sink"]]
        self.network, self.cluster, self.arrivals = network, cluster, rates
        self.run.state.g["end"] = min(self._final, (len(self._samples) + 1) * self._step)

    def result(self) -> SimulationResult:
        """Return what came of the run so far."""
        end = float(self.run.state.g["end"][0])
        self.run.state.g["end"] = self._final if self.over else self.at
        self._flush()
        self._logged.append(self.run.state.log[: int(self.run.state.g["logs"][0])].copy())
        found = assemble(
            self.run,
            self._latencies,
            np.concatenate(self._rows) if self._trace is True and self._rows else None,
            np.concatenate(self._logged) if self._log else None,
            _series(self._samples),
            tuple(self.watch.moved),
        )
        self.run.state.g["end"] = end
        return found

    def _later(self, control: Control) -> None:
        bisect.insort(self.pending, control, key=lambda c: (c.at, c.rank, c.unit, c.host))

    def _ended(self) -> bool:
        """Take a sample where one is due, and return whether this was the end."""
        s, final = self.run.state, self._final
        reached = float(s.g["end"][0])
        if math.isfinite(self._step):
            self._samples.append((min(reached, final), _waiting(self.run), busy(self.run, reached)[1]))
        if reached == final or self._spent():
            self.at = float(s.g["now"][0]) if self.options.drain else final
            return True
        if len(self._samples) >= self._most:
            self._samples, self._step = self._samples[1::2], 2 * self._step
        s.g["end"] = min(final, (len(self._samples) + 1) * self._step)
        return False

    def _spent(self) -> bool:
        """Whether nothing will happen any more by itself, whatever still waits for a reader that will not come back."""
        g = self.run.state.g
        if not self.options.drain or g["heaped"][0] > 0:
            return False
        looked = not self.changing or self._looks > _LOOKS
        return bool(g["used"][0] == 0 or (looked and all(each.kind == PAUSE for each in self.pending)))

    def _flush(self) -> None:
        """Take the sinks' rows out of the kernel's table."""
        s = self.run.state
        part = s.rows[: int(s.g["rowed"][0])]
        counted = part[part["egress"] >= self.options.warmup] if self.options.warmup > 0 else part
        latency = counted["egress"] - counted["stimulus"]
        self._latencies.add(counted["sink"], latency)
        if self.changing:
            self.watch.arrived(counted["sink"].copy(), latency)
        if callable(self._trace):
            self._trace(part)
        elif self._trace:
            self._rows.append(part.copy())
        s.g["rowed"] = 0


def _same(old: Rates | Arrivals, new: Rates, source: str) -> bool:
    """Whether a source arrives as it did before."""
    if not isinstance(old, Rates) or old.period != new.period or source not in old.sources:
        return False
    return bool(np.array_equal(old.of_source(source), new.of_source(source)))


def _waiting(run: Compiled) -> NDArray[np.int64]:
    """Return how many tuples wait for each host."""
    s = run.state
    waiting = np.bincount(
        s.inputs["unit"][s.inputs["unit"] >= 0], s.inputs["waiting"][s.inputs["unit"] >= 0], len(s.units)
    )
    return np.bincount(s.units["host"], waiting, len(s.hosts)).astype(np.int64)


def _series(samples: list[tuple[float, NDArray[np.int64], NDArray[np.float64]]]) -> Series | None:
    if not samples:
        return None
    times = np.array([time for time, _, _ in samples])
    worked = np.array([worked for _, _, worked in samples]).T
    shares = np.diff(worked, axis=1, prepend=0.0) / np.maximum(np.diff(times, prepend=0.0), 1e-12)
    return Series(times, np.array([queued for _, queued, _ in samples]).T, shares)
