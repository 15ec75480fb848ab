"""The living system on Spark: it is observed and changed while it runs."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
from numpy.typing import NDArray
from pyspark.errors import PySparkException

from penstock.cluster import Cluster, base_name
from penstock.errors import EngineError, InputError, NotReady, PenstockError
from penstock.network import Network
from penstock.spark.compile import Pace
from penstock.spark.compile.deciding import tellable
from penstock.spark.left import said
from penstock.spark.run.changing import Changes
from penstock.spark.run.claims import alone_on
from penstock.spark.run.deaths import dead
from penstock.spark.run.detach import shrunk
from penstock.spark.run.ending import Ending
from penstock.spark.run.engine import Engine
from penstock.spark.run.failures import Failures
from penstock.spark.run.folder import epoch_of, note_sessions, open_schedules, owned
from penstock.spark.run.follow import Answers, Follower
from penstock.spark.run.observing import Observer, operators_seen
from penstock.spark.run.outcome import collect
from penstock.spark.run.queues import age
from penstock.spark.run.reports import short
from penstock.spark.run.summary import summary
from penstock.spark.run.system import LOOK
from penstock.spark.run.units import Unit, copy_name
from penstock.spark.run.wanted import Wanted, moves_by_unit
from penstock.spark.run.watch import CHECK
from penstock.spark.shipped.turn import ANNOUNCED
from penstock.spark.silent import Silent
from penstock.steering import Applied, Change, Event, Kill, Observation, Plan, Recover, Refused, changes

if TYPE_CHECKING:
    from penstock.files import Document
    from penstock.spark.compile import Deployment
    from penstock.spark.hosts.base import SparkHost


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
    late
        Hosts of the cluster that are started once the others run; one that cannot be is down.
    """

    def __init__(
        self,
        engine: Engine,
        deployment: Deployment,
        *,
        follow: Answers | None = None,
        trigger: float | None = None,
        late: Iterable[SparkHost] = (),
    ) -> None:
        self.engine = engine
        interval = engine.cluster.spark.trigger if trigger is None else trigger
        self._failures = Failures()
        self._told: list[Document] = []
        self._over = False
        self._asked = 0.0
        self._first = frozenset(deployment.network.operators)
        self._held = contextlib.ExitStack()
        self._held.enter_context(owned(deployment.place))
        try:
            self._held.enter_context(alone_on(engine.shared, deployment.folder))
            told = tellable(deployment, engine.sessions.values())
            paced = attrs.evolve(told, pace=Pace.of(interval, deployment.network, deployment.place))
            self.system = engine.system(paced, follow is not None, lambda _what, _share: None, adopt=True)
            paced.pace.note(deployment.place)
            self.changes = Changes(engine, self.system, following=follow is not None, first=self._first)
            self._start()
        except BaseException:
            self._held.close()
            raise
        self._follower = None if follow is None else self._followed(follow)
        used = {unit.host for unit in self.system.units.values()}
        for name in sorted(set(engine.sessions) - used):
            self.changes.members.warm(name)
        for host in late:
            self.changes.members.join(host)
        self._observer = Observer(self.system, self._capacity)
        # From here on it is counted: a clock that is set lets nobody wait.
        self._began = time.time() - epoch_of(deployment.place) - time.monotonic()
        self._looked = self.now
        self._ending = Ending(self.system.deployment)

    def _start(self) -> None:
        place = self.system.deployment.place
        note_sessions(place, self.engine.sessions)
        with contextlib.suppress(FileNotFoundError):
            self.changes.keep = dict(said(place / ANNOUNCED)["keep"])
        self.changes.tell_copies()
        # What was attached and fails is to take nothing with it: it starts as what fails later does.
        units, runners = self.system.units, self.system.runners
        attached = {name for name, unit in units.items() if self._first.isdisjoint(unit.fragment.operators)}
        later = [name for name in self.system.reachable if name in attached - runners.keys()]
        since = time.time()
        try:
            self.system.start(self.changes.intervals(), [n for n in self.system.reachable if n not in later])
        except BaseException:
            self.system.stop()
            raise
        for name in later:
            self.changes.start_prepared(units[name])
        open_schedules(self.system.deployment, self.changes.pace.interval, since)

    def _followed(self, answers: Answers) -> Follower:
        checkpoints = {query.name: query.spec.checkpoint for query in self.system.queries}
        follower = Follower(self.system.deployment, checkpoints, answers, self.system.moments)
        follower.begin(epoch_of(self.system.deployment.place))
        return follower

    @property
    def down(self) -> set[str]:
        """Hosts that have died."""
        return self.changes.members.down

    @property
    def now(self) -> float:
        """Seconds since the run first began."""
        return self._began + time.monotonic()

    @property
    def cluster(self) -> Cluster:
        """The hosts that are there, also those that are down."""
        return self.engine.cluster

    @property
    def network(self) -> Network:
        """What runs."""
        return self.system.deployment.network

    def _capacity(self, host: str) -> float:
        # A host that has left may still have batches to tell of.
        return self.cluster.hosts[host].capacity if host in self.cluster.hosts else 1.0

    def observe(self) -> Observation:
        """Return what was counted since the look before (`penstock.control.engine.Engine.observe`)."""
        with self.system.lock:
            moving = self.changes.moving
            cores = {name: host.cores for name, host in self.cluster.hosts.items()}
            at, keep = self.now, self.changes.decided()  # before asking, which takes time
            seen = self._observer.look(moving, sorted(self.down), keep, cores)
            network = self.network
            known = operators_seen(network, seen.counts, seen.entered, seen.left)
            placement, units = dict(self.system.deployment.placement), [*self.system.units.values()]
            moves = [name for job in moving for name in self.changes.targets[job]]
        rows = _with_copies(network, units)
        known |= {name: _of_copies(known[name], rows) for name in ("served", "tried", "emitted")}
        queues = [seen.queues.get(base_name(name)) for name in rows]
        counts = [seen.counts.get(stream.name, (0, 0)) for stream in network.streams]
        observation = Observation(
            at=at,
            period=at - self._looked,
            network=network,
            cluster=self.cluster,
            sources=tuple(network.sources),
            unsure=seen.unsure,
            operators=tuple(rows),
            work=np.full(len(rows), np.nan),  # of units, and how sure that is
            placement=placement,
            waiting=_floats(None if queue is None else queue[0] for queue in queues),
            behind=_floats(age(queue, time.time()) for queue in queues),
            coming=None,
            undecided=frozenset(network.operators) - self.system.deployment.real_time,
            streams=tuple(stream.name for stream in network.streams),
            arrived=_ints(arrived for arrived, _ in counts),
            dropped=_ints(dropped for _, dropped in counts),
            moving=frozenset(name for name in moves if name in placement),
            down=frozenset(self.changes.members.down),
            silent=self.system.asker.silent - self.changes.members.down,
            hosts=seen.hosts,
            units=seen.units,
            latency=seen.latency,
            keep=keep,
            tables=dict(self.changes.tables),
            limits={name: rate for name, rate in self.changes.pace.limits.items() if name in network.sources},
            triggers=self.changes.triggers(),
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
                self.changes.begin(change, wanted)
            except PenstockError as error:
                refused.append(Refused(change, str(error), soon=isinstance(error, NotReady)))
            except PySparkException as error:
                refused.append(Refused(change, short(error)))
            else:
                begun.append(change)
        self.changes.together(wanted)
        return Applied(self.now, tuple(begun), tuple(refused))

    def wait(self, until: float) -> bool:
        """Let the network run until a time; return whether it goes on after it."""
        while not self._over:
            self._tend()
            state = self.system.look(forgive=True)
            slowest = max(self.changes.intervals().values())
            self._ending.see(self.system.deployment)
            patience = self.system.copies.patience
            if self._ending.over(state, time.time(), slowest, patience) and not self.changes.moving:
                # Not while units wait for a host.
                self._over = self.system.units.keys() <= self.system.runners.keys()
            left = until - self.now
            if self._over or left <= 0:
                break
            time.sleep(min(LOOK, left))
        return not self._over

    def _tend(self) -> None:
        """Notice hosts that have died and changes that have ended, and start again what failed by itself."""
        for name in dead({name: host for name, host in [*self.engine.hosts.items()] if name not in self.down}):
            self.system.lose(name)
        for name, error in self.changes.members.failed().items():
            self.system.lose(name)
            self._told.append({"time": self.now, "unit": None, "host": name, "why": short(error)})
        for name, job in [*self.changes.jobs.items()]:
            if job.done():
                del self.changes.jobs[name]
                reason = job.exception()
                if reason is not None:
                    self._failed(name, reason)
        if not self.changes.moving:
            self.changes.members.let_go()
        self.changes.fuse()
        self.changes.revive()
        if time.monotonic() - self._asked > CHECK:
            self._asked = time.monotonic()
            for name in [*self.system.runners]:
                self._check(name)
            for copy in [*self.system.copies.runners]:
                self._check_copy(copy)

    def _check(self, name: str) -> None:
        # A change that has just ended may have put another unit in its place.
        runner = self.system.runners.get(name)
        if runner is None or name in self.changes.jobs or runner.unit.host in self.changes.members.down:
            return
        try:
            said = self.system.asker.ask(runner.unit.host, runner.failed)
        except Exception as error:
            if not self.engine.hosts[runner.unit.host].alive():
                self.system.lose(runner.unit.host)
                return
            said = None if isinstance(error, Silent) else short(error)
        if said is not None:
            self._failed(name, EngineError(said))

    def _check_copy(self, copy: str) -> None:
        """Start a copy that follows again, if its query has failed."""
        runner = self.system.copies.runners.get(copy)
        if runner is None or {runner.name, copy_name(copy)} & self.changes.jobs.keys():
            return
        try:
            said = self.system.asker.ask(runner.unit.host, runner.failed)
        except Silent:
            return
        except Exception as error:
            said = short(error)
        if said is not None and self.engine.hosts[runner.unit.host].alive():
            self._copy_failed(copy, EngineError(said))

    def _copy_failed(self, copy: str, error: BaseException) -> None:
        """Start a copy again that has failed, unless its host has died; one that fails too often stays missing."""
        unit = next(unit for unit in self.system.units.values() if copy in unit.copies)
        host = unit.copies[copy]
        self._told.append({"time": self.now, "unit": copy, "host": host, "why": short(error)})
        if host not in self.changes.members.down and not self._failures.too_many(copy_name(copy)):
            self.changes.start_copy(unit, copy, host)

    def _failed(self, name: str, error: BaseException) -> None:
        """Start a unit again that has failed, unless its host has died or it runs all the same."""
        unit = next((each for each in [*self.system.units.values()] if name in each.names), None)
        follows = () if unit is None else [copy for copy in unit.others if copy_name(copy) == name]
        if follows:
            self._copy_failed(follows[0], error)
            return
        if unit is None:
            # A unit that is gone since two were fused is told of by the other one.
            if name not in self.network.operators and name not in self.system.claim.given_up:
                host = self.changes.targets[name][name]
                why = f"it was not attached: {short(error)}"
                self._told.append({"time": self.now, "unit": name, "host": host, "why": why})
            return
        # The job may be that of the copy that leads.
        name, host = unit.name, unit.host
        self._told.append({"time": self.now, "unit": name, "host": host, "why": short(error)})
        known = self.engine.hosts.get(host)
        if host in self.changes.members.down or (known is not None and not known.alive()):
            if host not in self.changes.members.down:
                self.system.lose(host)
            self.system.runners.pop(name, None)
            return
        runner = self.system.runners.get(name)
        if runner is not None and self.system.goes_on(runner):
            # The change failed before anything was stopped.
            return
        if self._failures.too_many(name):
            self._give_up(unit, error)
        elif unit.copies:
            # Another one leads meanwhile, where there is one.
            self.changes.start_copy(unit, unit.saved, host)
        else:
            self.changes.start(unit, host)

    def _give_up(self, unit: Unit, error: BaseException) -> None:
        """Let the rest go on without a query that was attached and fails again and again.

        Raises
        ------
        EngineError
            If what failed is not of such a query alone.
        """
        found = shrunk(self.system, self._first, unit)
        if found is None:
            raise EngineError(f"unit {unit.name!r} fails again and again: {short(error)}")
        try:
            self.changes.give_up(found)
        except InputError:
            # Its query has failed, and is looked at again.
            return
        what = ", ".join(sorted(name for each in found.gone for name in each.fragment.operators))
        why = f"it was given up, with all of {what}: it failed again and again: {short(error)}"
        self._told.append({"time": self.now, "unit": unit.name, "host": unit.host, "why": why})

    def happen(self, event: Event) -> None:
        """Let an event of a scenario happen now.

        Raises
        ------
        InputError
            If it names a stranger, or cannot happen here.
        """
        match event:
            case Kill(host=name):
                self.changes.members.known(name)
                self.changes.members.wait(name)
                pid = self.engine.hosts[name].pid if name in self.engine.hosts else None
                if pid is None:
                    raise InputError("it runs elsewhere, where nothing can be killed", at=f"hosts.{name}")
                os.kill(pid, signal.SIGKILL)
            case Recover(host=name):
                self.changes.members.known(name)
                if name in self.changes.members.down:
                    self.changes.members.recover(name)
            case _:
                raise InputError(f"{type(event).__name__} cannot happen on Spark", at="events")

    def report(self) -> Document:
        """Return what came of the run so far, in the keys of ``penstock run``, and what failed on the way."""
        with self.system.lock:
            outcome = collect(self.system.deployment, self.system.queries, self.now)
            outcome = attrs.evolve(
                outcome, gone=self.system.gone, unremoved=self.system.unremoved, ended=[*outcome.ended, time.time()]
            )
            placement = self.system.deployment.placement
            return {**summary(outcome, self.network, placement, self.cluster.hosts), "failures": [*self._told]}

    def close(self, *, stop: bool = True) -> None:
        """Stop the run, or leave its queries running for the next controller."""
        self._over = True
        try:
            if self._follower is not None:
                self._follower.end()
            self.system.ended.set()
            for job in [*self.changes.jobs.values()]:
                with contextlib.suppress(Exception):
                    job.result()
            if stop:
                try:
                    self.system.stop()
                except EngineError as error:
                    # What came of the rest is told all the same.
                    self._told.append({"time": self.now, "unit": None, "host": None, "why": str(error)})
            else:
                self.system.copies.guard.end()
                self.system.meters.end()
                for host in self.engine.hosts.values():
                    host.leave()
        finally:
            self._observer.close()
            self.changes.pool.shutdown(wait=True)
            self._held.close()
            self.changes.members.stop()


def _with_copies(network: Network, units: Sequence[Unit]) -> dict[str, int | None]:
    """Return the operators and their copies, each copy that leads before the others of its operator.

    What was counted of an operator is counted of the one that leads: by name its row in the network; None: the others.
    """
    found: dict[str, int | None] = {}
    numbers = {name: number for number, name in enumerate(network.operators)}
    led = {
        name: copy
        for unit in units
        for name, copy in zip(unit.fragment.operators, unit.operators(unit.saved), strict=True)
    }
    found |= {led.get(name, name): number for name, number in numbers.items()}
    return found | {name: None for unit in units for copy in unit.others for name in unit.operators(copy)}


def _of_copies(counts: NDArray[np.int64], rows: Mapping[str, int | None]) -> NDArray[np.int64]:
    return np.array([0 if number is None else counts[number] for number in rows.values()], np.int64)


def _floats(values: Iterable[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else float(value) for value in values])


def _ints(values: Iterable[int]) -> NDArray[np.int64]:
    return np.array([*values], np.int64)
