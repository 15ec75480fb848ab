"""The living system on Spark: it is observed and changed while it runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray
from pyspark.errors import PySparkException

from penstock.cluster import Cluster, Host
from penstock.errors import EngineError, InputError, PenstockError
from penstock.network import Network
from penstock.spark.hosts.start import make_host
from penstock.spark.run.attach import Grown, attach, grown
from penstock.spark.run.ending import Ending
from penstock.spark.run.engine import CHECK, Engine
from penstock.spark.run.folder import epoch_of, note_sessions, open_schedules, owned
from penstock.spark.run.follow import Answers, Follower
from penstock.spark.run.observing import Observer, operators_seen
from penstock.spark.run.outcome import collect
from penstock.spark.run.reports import short
from penstock.spark.run.split import parts_of, split
from penstock.spark.run.summary import summary
from penstock.spark.run.system import LOOK, System
from penstock.spark.run.units import Unit
from penstock.spark.run.wanted import Wanted, moves_by_unit
from penstock.spark.run.warm import warm
from penstock.spark.shipped.gate import take_over
from penstock.spark.shipped.turn import ANNOUNCED
from penstock.steering import Applied, Change, Event, Kill, Observation, Plan, Recover, Refused, UnitSeen, changes
from penstock.steering import plan as kinds

AGAIN = 3
"""So often a unit whose query fails is started again within `FORGIVEN` seconds, before the engine gives up."""

FORGIVEN = 60.0


class SparkEngine:
    """A network that runs on Spark hosts, observed and changed while it runs.

    Parameters
    ----------
    engine
        Hosts with their sessions.
    deployment
        What to run, as `Engine.prepare` gives it; what a folder's earlier controller changed holds on.
    follow
        Who says what to keep batch by batch; None: keep fractions are those of the plans that are applied.
    trigger
        Interval of the micro-batches (s), if not the cluster's.
    """

    def __init__(
        self, engine: Engine, deployment: Any, *, follow: Answers | None = None, trigger: float | None = None
    ) -> None:
        self.engine = engine
        self.keep: dict[str, float] = {}
        self.down: set[str] = set()
        self._interval = engine.cluster.spark.trigger if trigger is None else trigger
        self._triggers: dict[str, float] = {}
        self._jobs: dict[str, Future[None]] = {}
        self._targets: dict[str, Mapping[str, str]] = {}
        self._joining: dict[str, Future[None]] = {}
        self._mine: dict[str, Any] = {}
        self._failures: dict[str, list[float]] = {}
        self._retiring: set[str] = set()
        self._over = False
        self._asked = 0.0
        self._pool = ThreadPoolExecutor(16, thread_name_prefix="penstock-change")
        self._held = contextlib.ExitStack()
        self._follow = follow
        self._follower: Follower | None = None
        self._held.enter_context(owned(deployment.place))
        try:
            self.system = self._started(deployment)
        except BaseException:
            self._held.close()
            raise
        used = {unit.host for unit in self.system.units.values()}
        for name in sorted(set(engine.sessions) - used):
            self._warm(name)
        self._observer = Observer(self.system)
        self._looked = self.now
        self._ending = Ending(self.system.deployment, self._interval)

    def _started(self, deployment: Any) -> System:
        system = self.engine.system(deployment, self._follow is not None, lambda _what, _share: None, adopt=True)
        place = system.deployment.place
        note_sessions(place, self.engine.sessions)
        with contextlib.suppress(FileNotFoundError):
            self.keep = dict(json.loads((place / ANNOUNCED).read())["keep"])
        try:
            system.start(self._interval)
        except BaseException:
            system.stop()
            raise
        open_schedules(system.deployment, self._interval)
        if self._follow is not None:
            checkpoints = {query.name: query.spec.checkpoint for query in system.queries}
            self._follower = Follower(system.deployment, checkpoints, self._follow)
            self._follower.begin(epoch_of(place))
        return system

    def _warm(self, host: str) -> None:
        """Let a host get ready for what may move there."""
        place = self.system.deployment.place / f"warm-{host}"
        self._pool.submit(warm, self.engine.sessions[host], place)

    @property
    def now(self) -> float:
        """Seconds since the run first began."""
        return time.time() - epoch_of(self.system.deployment.place)

    @property
    def cluster(self) -> Cluster:
        """The hosts that are there, also those that are down."""
        return self.engine.cluster

    @property
    def network(self) -> Network:
        """What runs."""
        return self.system.deployment.network

    def observe(self) -> Observation:
        """Return what was counted since the look before (`penstock.control.engine.Engine.observe`)."""
        with self.system.lock:
            moving = [name for name, job in self._jobs.items() if not job.done()]
            seen = self._observer.look(moving, sorted(self.down))
            network, at = self.network, self.now
            known: dict[str, Any] = {**operators_seen(network, seen.counts)}
            units = {name: unit for unit in seen.units for name in unit.operators}
            placement = dict(self.system.deployment.placement)
        waiting = [units[name].waiting for name in network.operators]
        behind = [units[name].behind for name in network.operators]
        counts = [seen.counts.get(stream.name, (0, 0)) for stream in network.streams]
        observation = Observation(
            at=at,
            period=at - self._looked,
            network=network,
            cluster=self.cluster,
            sources=tuple(network.sources),
            operators=tuple(network.operators),
            work=_work(network, units),
            placement=placement,
            waiting=_floats(waiting),
            behind=_floats(behind),
            streams=tuple(stream.name for stream in network.streams),
            arrived=_ints(arrived for arrived, _ in counts),
            dropped=_ints(dropped for _, dropped in counts),
            moving=frozenset(
                op for name in moving if name in self.system.units for op in self.system.units[name].fragment.operators
            ),
            down=frozenset(self.down),
            hosts=seen.hosts,
            units=seen.units,
            latency=seen.latency,
            keep=dict(self.keep),
            triggers=self._intervals(),
            **known,
        )
        self._looked = at
        return observation

    def apply(self, plan: Plan) -> Applied:
        """Begin what a plan wants (`penstock.control.engine.Engine.apply`)."""
        begun: list[Change] = []
        refused: list[Refused] = []
        wanted = Wanted(plan, changes(plan, self.network), moves_by_unit(plan, self.system))
        for change in wanted.changes:
            try:
                self._begin(change, wanted)
            except PenstockError as error:
                refused.append(Refused(change, str(error)))
            except PySparkException as error:
                refused.append(Refused(change, short(error)))
            else:
                begun.append(change)
        if wanted.grown is not None:
            self._grow(wanted.grown)
        return Applied(self.now, tuple(begun), tuple(refused))

    def _begin(self, change: Change, wanted: Wanted) -> None:
        match change.kind:
            case kinds.ADD:
                self._add(change.to)
            case kinds.ATTACH:
                self._attach(change, wanted)
            case kinds.KEEP:
                self._keep(change.to)
            case kinds.TRIGGER:
                self._trigger(change.name, change.to)
            case kinds.MOVE:
                self._move(change.name, wanted)
            case kinds.RETIRE:
                self._retire(change.name)
            case _:
                raise InputError("a limit cannot change while a query runs", at=f"limits.{change.name}")

    def _keep(self, keep: Mapping[str, float]) -> None:
        live, streams = self.system.deployment.live, {stream.name for stream in self.network.streams}
        for name, share in keep.items():
            if name not in streams:
                raise InputError(f"no stream {name!r}", at="keep")
            if name not in live and share < 1:
                raise InputError("nothing can be dropped here while it runs", at=f"keep.{name}")
            if not 0 <= share <= 1:
                raise InputError(f"expected a share of 0 to 1, got {share}", at=f"keep.{name}")
        if self._follower is not None:
            raise InputError("keep fractions follow a plan table already", at="keep")
        self.keep = {name: share for name, share in keep.items() if share < 1}
        content = {"keep": self.keep, "looked": {}}
        (self.system.deployment.place / ANNOUNCED).replace(json.dumps(content).encode())

    def _trigger(self, host: str, interval: float) -> None:
        self._known(host)
        if not interval >= 0:
            raise InputError(f"expected an interval >= 0 s, got {interval}", at=f"triggers.{host}")
        if self._triggers.get(host, self._interval) == interval:
            return
        mine = [name for name, unit in self.system.units.items() if unit.host == host]
        self._free(mine)
        self._triggers[host] = interval
        for name in mine:
            self._do(name, lambda name=name: self._move_now(name, host))  # type: ignore[misc]

    def _move(self, operator: str, wanted: Wanted) -> None:
        """Begin to move the unit of an operator, or a part of it; of several of its operators the first one does."""
        name, hosts = wanted.unit_of(operator)
        unit, host = self.system.units[name], hosts[operator]
        pin = self.network.operators[operator].pin
        self._known(host)
        if pin is not None and pin != host:
            raise InputError(f"it is pinned to {pin!r}", at=f"operators.{operator}")
        if host in self.down:
            raise InputError(f"host {host!r} is down", at=f"placement.{operator}")
        if name in wanted.begun:
            return
        if wanted.grown is not None and name in {each.name for each in wanted.grown.again}:
            raise InputError("it is about to write for the query that is attached", at=f"placement.{operator}")
        busy = name in self._jobs and not self._jobs[name].done()
        there = self._targets.get(name, {}) if busy else dict.fromkeys(unit.fragment.operators, unit.host)
        if there == hosts and (busy or name in self.system.runners):
            return
        self._free([name])
        whole = len({*hosts.values()}) == 1
        parts = () if whole else self._parts(unit, hosts)
        self._targets[name] = hosts
        wanted.begun.add(name)
        if whole:
            self._do(name, lambda: self._move_now(name, host))
        else:
            self._do(name, lambda: split(self.system, unit, parts, self._intervals()))

    def _parts(self, unit: Unit, hosts: Mapping[str, str]) -> tuple[Unit, ...]:
        """Return the parts of a unit that runs."""
        if unit.name not in self.system.runners:
            raise InputError(f"{unit.name!r} does not run, and only one that runs is split", at="placement")
        if self.system.growing:
            raise InputError("another unit changes its shape", at="placement", hint="wait until it runs")
        away = self.down & {*hosts.values()}
        if away:
            raise InputError(f"host {sorted(away)[0]!r} is down", at="placement")
        return parts_of(self.network, unit, hosts)

    def _move_now(self, unit: str, host: str) -> None:
        if host in self._joining:
            self._joining[host].result()
        self.system.move(unit, host, self._triggers.get(host, self._interval))

    def _attach(self, change: Change, wanted: Wanted) -> None:
        """Attach a query: its operators, and their new sources and sinks."""
        network, placement = wanted.plan.network, dict(change.to)
        assert network is not None  # noqa: S101 - no attachment without
        for name, host in placement.items():
            if host is None:
                raise InputError("a query that is attached needs a host for each operator", at=f"placement.{name}")
            self._known(host)
            if host in self.down:
                raise InputError(f"host {host!r} is down", at=f"placement.{name}")
            pin = network.operators[name].pin
            if pin is not None and pin != host:
                raise InputError(f"it is pinned to {pin!r}", at=f"operators.{name}")
        if self.system.growing:
            raise InputError("another query is being attached", at="network", hint="wait until it runs")
        for host in placement.values():
            if host in self._joining:
                self._joining[host].result()
        found = grown(self.engine, self.system, network, placement, wanted.grown)
        self._free([unit.name for unit in found.again])
        wanted.grown = found

    def _grow(self, found: Grown) -> None:
        """Begin to attach queries."""
        self.system.growing = True
        job = self._pool.submit(lambda: attach(self.system, found, self._intervals()))
        self._jobs |= dict.fromkeys([unit.name for unit in (*found.again, *found.fresh)], job)

    def _intervals(self) -> dict[str, float]:
        return {name: self._triggers.get(name, self._interval) for name in self.cluster.hosts}

    def _add(self, host: Host) -> None:
        if host.name in self.cluster.hosts:
            if host.name in self.down or host == self.cluster.hosts[host.name]:
                return
            raise InputError(f"there is a host {host.name!r} already", at="add")
        cluster = self.cluster
        self.engine.cluster = attrs.evolve(
            cluster, hosts=dict(sorted({**cluster.hosts, host.name: host}.items()))
        )  # fmt: skip

        def join() -> None:
            made = make_host(host, self.engine.cluster)
            self._mine[host.name] = made.start()
            self.engine.add(self.engine.cluster, made)
            note_sessions(self.system.deployment.place, self.engine.sessions)
            self._warm(host.name)

        self._joining[host.name] = self._pool.submit(join)

    def _retire(self, name: str) -> None:
        self._known(name)
        mine = [unit.name for unit in self.system.units.values() if unit.host == name]
        if mine:
            raise InputError(f"{', '.join(mine)} run there", at=f"hosts.{name}", hint="move them first")
        self._retiring.add(name)
        self._let_go()

    def _let_go(self) -> None:
        """Let hosts go that retire, once nothing moves away from them any more."""
        if any(not job.done() for job in self._jobs.values()):
            return
        for name in sorted(self._retiring):
            self._retiring.discard(name)
            hosts = {other: host for other, host in self.cluster.hosts.items() if other != name}
            self.engine.cluster = attrs.evolve(self.cluster, hosts=hosts)
            gone = self.engine.hosts.pop(name, None)
            self.engine.sessions.pop(name, None)
            self.down.discard(name)
            if gone is not None:
                self._pool.submit(gone.stop)

    def _known(self, host: str) -> None:
        if host not in self.cluster.hosts:
            raise InputError(f"no host {host!r}", at="placement", hint=f"one of {', '.join(self.cluster.hosts)}")

    def _free(self, units: Iterable[str]) -> None:
        """Refuse to touch units that move already."""
        for name in units:
            if name in self._jobs and not self._jobs[name].done():
                raise InputError(f"{name!r} moves already", at=f"placement.{name}")

    def _do(self, unit: str, job: Callable[[], None]) -> None:
        """Begin to change a unit."""
        self._jobs[unit] = self._pool.submit(job)

    def wait(self, until: float) -> bool:
        """Let the network run until a time; return whether it goes on after it."""
        while not self._over:
            self._tend()
            state = self.system.look(forgive=True)
            if self._ending.over(state, time.time()) and not any(not job.done() for job in self._jobs.values()):
                self._over = not self.down & {unit.host for unit in self.system.units.values()}
            left = until - self.now
            if self._over or left <= 0:
                break
            time.sleep(min(LOOK, left))
        return not self._over

    def _tend(self) -> None:
        """Notice hosts that have died and changes that have ended, and start again what failed by itself."""
        for name, host in [*self.engine.hosts.items()]:
            if name not in self.down and host.pid is not None and not host.alive():
                self._lose(name)
        for name, job in [*self._jobs.items()]:
            if job.done():
                del self._jobs[name]
                error = job.exception()
                if error is not None:
                    self._failed(name, error)
        self._let_go()
        if time.monotonic() - self._asked > CHECK:
            self._asked = time.monotonic()
            for name in [*self.system.runners]:
                self._check(name)

    def _check(self, name: str) -> None:
        runner = self.system.runners[name]
        if name in self._jobs or runner.unit.host in self.down:
            return
        try:
            said = runner.failed()
        except Exception as error:
            if not self.engine.hosts[runner.unit.host].alive():
                self._lose(runner.unit.host)
                return
            said = short(error)
        if said is not None:
            self._failed(name, EngineError(said))

    def _lose(self, host: str) -> None:
        """Note that a host has died: nothing that it may still do is delivered."""
        self.down.add(host)
        for name, unit in self.system.units.items():
            if unit.host == host:
                take_over(self.system.deployment.place, name, deliver=False)
                self.system.runners.pop(name, None)

    def _failed(self, name: str, error: BaseException) -> None:
        """Start a unit again that has failed, unless its host has died."""
        if name not in self.system.units:
            # It was to be attached, and nothing of it is there.
            return
        host = self.system.units[name].host
        known = self.engine.hosts.get(host)
        if host in self.down or (known is not None and not known.alive()):
            if host not in self.down:
                self._lose(host)
            self.system.runners.pop(name, None)
            return
        now = time.monotonic()
        times = self._failures[name] = [at for at in self._failures.get(name, ()) if now - at < FORGIVEN] + [now]
        if len(times) > AGAIN:
            raise EngineError(f"unit {name!r} fails again and again: {short(error)}")
        self._do(name, lambda: self._move_now(name, host))

    def happen(self, event: Event) -> None:
        """Let an event of a scenario happen now.

        Raises
        ------
        InputError
            If it names a stranger, or cannot happen here.
        """
        match event:
            case Kill(host=name):
                self._known(name)
                pid = self.engine.hosts[name].pid if name in self.engine.hosts else None
                if pid is None:
                    raise InputError("it runs elsewhere, where nothing can be killed", at=f"hosts.{name}")
                os.kill(pid, signal.SIGKILL)
            case Recover(host=name):
                self._known(name)
                if name in self.down:
                    self._joining[name] = self._pool.submit(lambda: self._recover(name))
            case _:
                raise InputError(f"{type(event).__name__} cannot happen on Spark", at="events")

    def _recover(self, name: str) -> None:
        """Start a host again, and what was placed there."""
        host = self.engine.hosts[name]
        host.stop()
        host.start()
        self.engine.add(self.engine.cluster, host)
        note_sessions(self.system.deployment.place, self.engine.sessions)
        self.down.discard(name)
        if all(unit.host != name for unit in self.system.units.values()):
            self._warm(name)
        for unit in [*self.system.units.values()]:
            if unit.host == name and unit.name not in self._jobs:
                self._do(unit.name, lambda unit=unit: self._move_now(unit.name, name))  # type: ignore[misc]

    def report(self) -> dict[str, Any]:
        """Return what came of the run so far, in the keys of ``penstock run``."""
        with self.system.lock:
            outcome = collect(self.system.deployment, self.system.queries, self.now)
            return summary(outcome, self.network, self.system.deployment.placement)

    def close(self, *, stop: bool = True) -> None:
        """Stop the run, or leave its queries running for the next controller."""
        self._over = True
        try:
            if self._follower is not None:
                self._follower.end()
            for job in [*self._jobs.values()]:
                with contextlib.suppress(Exception):
                    job.result()
            if stop:
                self.system.stop()
            else:
                for host in self.engine.hosts.values():
                    host.leave()
        finally:
            self._pool.shutdown(wait=True)
            self._held.close()
            for host in self._mine.values():
                host.stop()


def _work(network: Network, units: Mapping[str, UnitSeen]) -> NDArray[np.float64]:
    """Return the work of operators that are alone in their unit; nan of others."""
    return _floats([units[name].work if len(units[name].operators) == 1 else None for name in network.operators])


def _floats(values: Iterable[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else float(value) for value in values])


def _ints(values: Iterable[int]) -> NDArray[np.int64]:
    return np.array([*values], np.int64)
