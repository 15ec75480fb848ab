"""The simulator as an engine: a run in virtual time that is observed and changed on the way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import attrs
import numpy as np

from penstock.cluster import Cluster, base_name, with_copies
from penstock.errors import InputError
from penstock.files import Document
from penstock.network import Network
from penstock.simulation.alone import Alone
from penstock.simulation.compile import MOVE
from penstock.simulation.options import Options, Recording, check_limit
from penstock.simulation.run import Simulation
from penstock.simulation.splice import spliced
from penstock.simulation.watch import moving
from penstock.steering import (
    Admit,
    Applied,
    Change,
    Event,
    Kill,
    NewRates,
    Observation,
    Plan,
    Recover,
    Refused,
    Slow,
    changes,
)
from penstock.steering import plan as kinds
from penstock.workload import Rates


def held_back(
    pace: float,
    since: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Callable[[float], None]:
    """Return a ``progress`` that lets no more than ``pace`` virtual seconds pass per second of the clock.

    The clock begins at the virtual time ``since``: what comes before has been seen already.
    """
    begun: float | None = None

    def hold(now: float) -> None:
        nonlocal begun
        if now < since:
            return
        if begun is None:
            begun = clock() - (now - since) / pace
        ahead = (now - since) / pace - (clock() - begun)
        if ahead > 0:
            sleep(ahead)

    return hold


class SimulationEngine:
    """A placed network in virtual time; it works as fast as it can, or at a pace that people can follow.

    What a host held when it died is lost, and counted as lost; an operator that is started again elsewhere begins with
    empty windows.

    Parameters
    ----------
    network, cluster, placement
        What runs at first, and where.
    rates
        Of the network's sources, and of those that may be attached, from time 0 on.
    options
        Of the simulator; ``duration`` is how long there is input.
    record
        What to keep beside the counts. Its ``progress`` is also told where each wait has ended, so that it can hold the
        run back (`held_back`).
    """

    def __init__(
        self,
        network: Network,
        cluster: Cluster,
        placement: Mapping[str, str],
        rates: Rates,
        options: Options | None = None,
        *,
        record: Recording | None = None,
    ) -> None:
        options, record = options or Options(), record or Recording()
        length = rates.duration if options.duration is None else options.duration
        options = attrs.evolve(options, duration=length, changing=True)
        if options.microbatch is not None:
            # As on Spark, the cluster says which trigger hosts have at first.
            spark = attrs.evolve(cluster.spark, trigger=options.microbatch.trigger)
            cluster = attrs.evolve(cluster, spark=spark)
        self._rates = rates
        self._sim = Simulation(network, cluster, placement, chosen(rates, network), options, record=record)
        self._looked, self._progress = 0.0, record.progress
        self._retired: frozenset[str] = frozenset()
        self._alone: Alone | None = None

    @property
    def now(self) -> float:
        """The virtual time (s)."""
        return self._sim.at

    def observe(self) -> Observation:
        """Return what was counted since the look before."""
        period, self._looked = self.now - self._looked, self.now
        seen = self._sim.observe(period)
        if self._alone is not None:
            seen = attrs.evolve(seen, tables=self._alone.versions)
        if not self._retired:
            return seen
        cluster = seen.cluster.having(host for name, host in seen.cluster.hosts.items() if name not in self._retired)
        hosts = {name: row for name, row in seen.hosts.items() if name not in self._retired}
        return attrs.evolve(seen, cluster=cluster, hosts=hosts, down=seen.down - self._retired)

    def wait(self, until: float) -> bool:
        """Run until a time (s); return whether there is anything after it."""
        goes_on = True
        while goes_on and self._alone is not None and self._alone.due < until:
            goes_on = self._sim.go(self._alone.due)
            self._alone.decide(self._sim)
        goes_on = goes_on and (until <= self.now or self._sim.go(until))
        if self._progress is not None:
            self._progress(self.now)
        return goes_on

    def apply(self, plan: Plan) -> Applied:
        """Make the changes of a plan, each whole or not at all."""
        begun: list[Change] = []
        refused: list[Refused] = []
        for change in changes(plan, self._sim.network):
            try:
                MAKES[change.kind](self, change, plan)
            except InputError as error:
                refused.append(Refused(change, error.problem))
            else:
                begun.append(change)
        return Applied(self.now, tuple(begun), tuple(refused))

    def happen(self, event: Event) -> None:
        """Let an event happen now."""
        if isinstance(event, Kill):
            self._host(event.host)
            if event.host not in self._down():
                self._sim.fail(event.host)
        elif isinstance(event, Recover):
            self._host(event.host)
            if event.host in self._down():
                self._sim.recover(event.host)
        elif isinstance(event, Slow):
            self._host(event.host)
            self._sim.speed(event.host, event.factor)
        elif isinstance(event, NewRates):
            self._rates = spliced(self._rates, event.rates, self.now, self._sim.input_end)
            self._become()
        elif isinstance(event, Admit):
            raise InputError("queries are attached by a plan, not by themselves", at="admit")

    def report(self) -> Document:
        """Return what came of the run so far, with what happens at its very end."""
        if self.now >= self._sim.input_end - 1e-9 and not self._sim.options.drain:
            self._sim.go()
        run = self._sim.run
        places = zip(run.units, run.state.units["host"].tolist(), strict=True)
        document = self._sim.result().document()
        return {"placement": {name: run.hosts[host] for name, host in sorted(places)}, **document}

    def close(self, *, stop: bool = True) -> None:
        """Let go of the run: there is nothing outside this process."""

    def _down(self) -> frozenset[str]:
        run = self._sim.run
        return frozenset(run.hosts[h] for h in np.flatnonzero(run.state.hosts["down"]).tolist())

    def _host(self, name: str) -> None:
        if name not in self._sim.cluster.hosts or name in self._retired:
            raise InputError(f"{name!r} is no host")

    def _target(self, operator: str, host: str) -> None:
        """Refuse a host that may not run an operator."""
        self._host(host)
        if host in self._down():
            raise InputError(f"host {host!r} is down")
        pin = self._sim.network.pins.get(base_name(operator))
        if pin is not None and pin != host and "#" not in operator:
            raise InputError(f"{operator!r} is pinned to {pin!r}")

    def _move(self, change: Change, _plan: Plan) -> None:
        name, host = change.name, change.to
        if name not in self._sim.run.units:
            raise InputError(f"{name!r} is no operator")
        self._target(name, host)
        unit = self._sim.run.units.index(name)
        if any(control.unit == unit for control in moving(self._sim.pending, self.now)):
            raise InputError(f"{name!r} is moving already")
        self._sim.move(name, host)

    def _keep(self, change: Change, _plan: Plan) -> None:
        streams = set(self._sim.run.streams)
        for name, share in change.to.items():
            writer, _, reader = name.partition("->")
            if f"{writer}->{base_name(reader)}" not in streams or ("#" in reader and reader not in self._sim.run.units):
                raise InputError(f"{name!r} is no stream")
            if not 0 <= share <= 1:
                raise InputError(f"expected a keep fraction in 0..1, got {share:g}")
        self._sim.keep(change.to)
        self._alone = None

    def _tables(self, change: Change, _plan: Plan) -> None:
        for host in change.to:
            self._host(host)
        if with_copies(self._sim.run.units):
            raise InputError("hosts with copies of operators do not decide alone")
        self._alone = Alone(change.to, self._sim)
        if not change.to:
            self._sim.keep({})  # else what is in force holds until a table is looked up

    def _limit(self, change: Change, _plan: Plan) -> None:
        if change.name not in self._sim.network.sources:
            raise InputError(f"{change.name!r} is no source")
        if change.to is not None:
            check_limit(change.name, change.to)
        self._sim.limit(change.name, change.to)

    def _trigger(self, change: Change, _plan: Plan) -> None:
        self._host(change.name)
        if self._sim.options.microbatch is None:
            raise InputError("hosts serve tuple by tuple here: there is no trigger to set")
        if not (math.isfinite(change.to) and change.to >= 0):
            raise InputError(f"expected a trigger >= 0 s, got {change.to:g}")
        self._sim.trigger(change.name, change.to)

    def _attach(self, change: Change, plan: Plan) -> None:
        network = plan.network
        assert network is not None  # noqa: S101 -- attached queries come with the whole network
        self._refuse_other(network)
        for name, host in change.to.items():
            if host is None:
                raise InputError(f"operator {name!r} has no host")
            self._target(name, host)
        before = {name: self._rates.of_source(name) for name in self._rates.sources}
        begin = math.ceil(self.now / self._rates.period - 1e-9)
        for name in set(network.sources) - set(self._sim.network.sources):
            # Nothing entered before somebody read it.
            series = np.array(before.get(name, np.zeros(self._rates.periods)))
            series[:begin] = 0.0
            before[name] = series
        self._rates = Rates.of(self._rates.period, before)
        self._become(network, placement=change.to)

    def _refuse_other(self, network: Network) -> None:
        present = self._sim.network
        for table in ("sources", "operators", "sinks"):
            for name, row in getattr(present, table).items():
                if getattr(network, table).get(name) != row:
                    raise InputError(f"{name!r} runs here, and is not the same in the network that is asked for")

    def _add(self, change: Change, _plan: Plan) -> None:
        host = change.to
        if host.name in self._sim.cluster.hosts:
            if host.name not in self._retired:
                raise InputError(f"host {host.name!r} is there already")
            self._retired -= {host.name}
            self._sim.recover(host.name)
            return
        old = self._sim.cluster
        self._become(cluster=old.having([*old.hosts.values(), host]))

    def _retire(self, change: Change, _plan: Plan) -> None:
        self._host(change.name)
        run = self._sim.run
        host = run.hosts.index(change.name)
        here = np.flatnonzero(run.state.units["host"] == host)
        if here.size:
            raise InputError(f"host {change.name!r} still runs {run.units[int(here[0])]!r}")
        # A move that was asked for at this moment begins when time goes on.
        coming = [run.units[each.unit] for each in self._sim.pending if each.kind == MOVE and each.host == host]
        if coming:
            raise InputError(f"{coming[0]!r} is on its way to host {change.name!r}")
        self._retired |= {change.name}

    def _become(
        self,
        network: Network | None = None,
        cluster: Cluster | None = None,
        placement: Mapping[str, str] | None = None,
    ) -> None:
        network = network or self._sim.network
        self._sim.become(network, cluster or self._sim.cluster, placement or {}, chosen(self._rates, network))


MAKES: dict[str, Callable[[SimulationEngine, Change, Plan], None]] = {
    kinds.ADD: SimulationEngine._add,
    kinds.ATTACH: SimulationEngine._attach,
    kinds.MOVE: SimulationEngine._move,
    kinds.KEEP: SimulationEngine._keep,
    kinds.TABLES: SimulationEngine._tables,
    kinds.LIMIT: SimulationEngine._limit,
    kinds.TRIGGER: SimulationEngine._trigger,
    kinds.RETIRE: SimulationEngine._retire,
}
"""What makes each kind of change."""


def chosen(rates: Rates, network: Network) -> Rates:
    """Return the rates of a network's sources; 0 for those of which nothing is known."""
    nothing = np.zeros(rates.periods)
    return Rates.of(rates.period, {n: rates.of_source(n) if n in rates.sources else nothing for n in network.sources})
