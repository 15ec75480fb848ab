"""Running placed networks on Spark hosts."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypedDict, Unpack

import attrs
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.cluster import Cluster, base_name
from penstock.errors import EngineError, Enough, PenstockError
from penstock.latency.real_time import prompt_operators
from penstock.network import Network
from penstock.shedding.live import Shedder
from penstock.spark.compile import (
    Deployment,
    check_network,
    check_placement,
    derive_schemas,
    fitting,
    nexmark_options,
    scheduled_rates,
    sheddable,
)
from penstock.spark.compile.sql import computes
from penstock.spark.connection import Connection
from penstock.spark.hosts.embedded import EmbeddedHost
from penstock.spark.paths import named
from penstock.spark.run.between import check_slots, rows_between
from penstock.spark.run.deaths import mute, silent, telling_deaths
from penstock.spark.run.ended import Heard
from penstock.spark.run.folder import claim as claimed_by
from penstock.spark.run.folder import epoch_of, note_end, note_sessions, noted_sessions, open_schedules, owned, probe
from penstock.spark.run.follow import Follower, follow
from penstock.spark.run.gaps import gone_from
from penstock.spark.run.once import drain
from penstock.spark.run.outcome import Outcome, collect
from penstock.spark.run.outside import check_topics
from penstock.spark.run.prompt import end_left
from penstock.spark.run.reports import short
from penstock.spark.run.sessions import ended, settle, slots_of, tries
from penstock.spark.run.speeds import Speeds
from penstock.spark.run.system import Report, System
from penstock.spark.run.upkeep import LEFT, clean_logs, fold
from penstock.spark.run.watch import watch
from penstock.spark.shipped.place import Place
from penstock.workload import Rates

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

    from penstock.files import Document
    from penstock.spark.hosts.base import SparkHost

# Refusals are told once, as one message.
logging.getLogger("SQLQueryContextLogger").disabled = True


class Ways(TypedDict, total=False):
    """How a network is deployed.

    Attributes
    ----------
    keep
        Keep fractions by stream, those below 1.
    everything
        Whether all runs in micro-batches, whatever the cluster's mode.
    live
        Whether keep fractions will change.
    apart
        Operators that are queries of their own, so that they can move alone.
    about
        What the folder tells those who look on.
    teach
        Whether the outcome is to have the rows between queries in real-time mode.
    """

    keep: Mapping[str, float] | None
    everything: bool
    live: bool
    apart: Iterable[str]
    about: Document | None
    teach: bool


class Engine:
    """Hosts with a session each, on which networks can be run one after another.

    Parameters
    ----------
    cluster
        Hosts and Spark settings.
    hosts
        Running hosts by name, as `penstock.spark.hosts.start_hosts` yields them.
    again
        Sessions of an earlier penstock by host, with the queries that it left running.
    """

    def __init__(
        self, cluster: Cluster, hosts: Mapping[str, SparkHost], again: Mapping[str, str] | None = None
    ) -> None:
        self.cluster, self.hosts = cluster, dict(hosts)
        self._again = dict(again or {})
        self._slots: dict[str, int] = {}
        with telling_deaths(hosts), ThreadPoolExecutor(max(1, len(hosts))) as pool:
            self.sessions = dict(zip(hosts, pool.map(self._session, hosts), strict=True))
        self.speeds = Speeds(self.hosts, self.sessions)

    def add(self, cluster: Cluster, host: SparkHost) -> None:
        """Take a host in, or back; the cluster is the one with it."""
        self.cluster = cluster
        self.hosts[host.name] = host
        self.sessions[host.name] = self._session(host.name)

    def shared(self) -> dict[str, SparkSession]:
        """Return the sessions of the hosts that others may reach as well: all but those that end with penstock."""
        return {
            name: session for name, session in self.sessions.items() if not isinstance(self.hosts[name], EmbeddedHost)
        }

    def _renew(self) -> None:
        """Take new sessions of hosts that somebody has started again meanwhile: the old ones ended with them."""
        for name, session in [*self.sessions.items()]:
            if ended(session) and self.hosts[name].alive():
                self.sessions[name] = self._session(name)

    def _session(self, name: str) -> SparkSession:
        session, told = self._found(name), self.cluster.hosts[name].cores
        here = self.hosts[name].pid is not None
        # In real-time mode one here has more slots than cores, or those with which it was left running.
        there = slots_of(session) if not here or self.cluster.spark.mode == "real-time" else told
        self._slots[name] = there if here else max(told, there)
        return settle(session, name, told if here else self._slots[name], self.cluster.spark.conf)

    def _found(self, name: str) -> SparkSession:
        """Return the session of an earlier penstock, if it is still there, else a new one."""
        known = self._again.pop(name, None)
        if known is not None:
            with contextlib.suppress(PenstockError, PySparkException):
                session = self.hosts[name].session(known)
                session.conf.get("spark.sql.session.timeZone")
                return session
        return self.hosts[name].session()

    def prepare(
        self,
        network: Network,
        placement: Mapping[str, str],
        folder: str | os.PathLike[str],
        *,
        rates: Rates | None = None,
        **ways: Unpack[Ways],
    ) -> Deployment:
        """Check a network and gather what its queries need.

        Parameters
        ----------
        rates
            Of scheduled sources, instead of their own.
        ways
            See `Ways`.
        """
        everything, live = ways.get("everything", False), ways.get("live", False)
        check_network(network, self.cluster.spark)
        check_placement(network, placement, self.cluster.spark)
        real_time = frozenset() if everything else prompt_operators(network, self.cluster.spark)
        kafka = Connection.of(self.cluster.spark)
        place = named(os.fspath(folder))
        # A host may be gone where a run goes on.
        used = [name for name in sorted(set(placement.values())) if name in self.sessions] or [*self.sessions][:1]
        schedules = self.schedules(network, place, rates)
        working = {host for name, host in placement.items() if computes(network.operators[base_name(name)])}
        busy = sorted(working & self.sessions.keys())
        with telling_deaths({name: self.hosts[name] for name in used}):
            self._renew()
            with ThreadPoolExecutor(max(1, len(busy))) as pool:
                speeds = dict(zip(busy, pool.map(self.speeds.of, busy), strict=True))
            first, brokers = self.sessions[used[0]], {} if kafka is None else kafka.spark
            schemas, fits = derive_schemas(first, network, brokers), fitting(first, network, brokers)
        deployment = Deployment(
            network=network,
            placement=dict(placement),
            folder=place.path,
            keep=dict(ways.get("keep") or {}),
            speeds=speeds,
            schedules=schedules,
            schemas=schemas,
            fitting=fits,
            everything=everything,
            live=sheddable(network, real_time) if live else frozenset(),
            about=ways.get("about"),
            teach=ways.get("teach", False) and bool(real_time),
            apart=frozenset(ways.get("apart", ())),
            kafka=kafka,
            hop=self.cluster.spark.hop,
            real_time=real_time,
            checkpoint=self.cluster.spark.checkpoint,
        )
        check_topics(network, kafka)
        self.check_room(deployment, used)
        return deployment

    def retrying(self, deployment: Deployment) -> list[str]:
        """Return what to say of hosts that may try a task again: it would send its messages to a sink's topic again."""
        sinks = [name for name, sink in deployment.network.sinks.items() if sink.format == "kafka"]
        writers = {deployment.network.inputs(name)[0].writer for name in sinks}
        hosts = {host for name, host in deployment.placement.items() if base_name(name) in writers}
        found = {name: tries(self.sessions[name]) for name in sorted(hosts & self.sessions.keys())}
        return [
            f"note: host {name} may try a task {times} times, which sends messages again: "
            "set spark.task.maxFailures = 1 there, and each comes once"
            for name, times in found.items()
            if times > 1
        ]

    def check_room(self, deployment: Deployment, names: Iterable[str]) -> None:
        """Refuse hosts that cannot run all that a deployment has there in real-time mode at once."""
        check_slots(deployment, {name: self._slots[name] for name in names if name in self._slots})

    def schedules(
        self, network: Network, place: Place, rates: Rates | None = None, skip: Collection[str] = ()
    ) -> dict[str, dict[str, str]]:
        """Return the options of scheduled sources, whose rates are given or their own."""
        found = {}
        for name, source in network.sources.items():
            if source.scheduled and name not in skip:
                mine = rates if rates is not None else scheduled_rates(source)
                series = {"period": mine.period, "values": mine.of_source(name).tolist()}
                found[name] = nexmark_options(source, series, (place / "epoch").uri)
        return found

    def run(
        self,
        deployment: Deployment,
        *,
        seconds: float | None = None,
        trigger: float | None = None,
        shedder: Shedder | None = None,
        report: Report | None = None,
        heard: Heard | None = None,
    ) -> Outcome:
        """Run a deployment until its schedules are over and all is delivered, or for a time.

        Parameters
        ----------
        seconds
            Stop after this time; None: when scheduled sources are over (never, if there are others).
        trigger
            Interval of the micro-batches (s), if not the cluster's.
        shedder
            A plan table in use: keep fractions of a live deployment follow it.
        report
            Told how far it is.
        heard
            Told the batches that have ended, once a second.

        Raises
        ------
        EngineError
            If a host dies that runs anything without a copy elsewhere, or a query fails.
        """
        interval, tell = self._interval(trigger), report or _silent

        def work(system: System) -> frozenset[str]:
            follower = None if shedder is None else follow(system, shedder)
            self._go(system, interval, follower, partial(watch, system, interval, seconds, tell, heard))
            return frozenset() if follower is None else frozenset(follower.refused)

        return self._worked(deployment, shedder is not None, tell, work)

    def run_once(
        self, deployment: Deployment, *, trigger: float | None = None, report: Report | None = None
    ) -> Outcome:
        """Process what the sources hold now, deliver it all, and stop; parameters and errors are those of `run`."""
        tell = report or _silent

        def work(system: System) -> frozenset[str]:
            open_schedules(deployment, self._interval(trigger), time.time())
            drain(system, {name: host.cores for name, host in self.cluster.hosts.items()}, tell)
            note_end(deployment.place, system.made)
            return frozenset()

        return self._worked(deployment, False, tell, work)

    def _interval(self, trigger: float | None) -> float:
        return self.cluster.spark.trigger if trigger is None else trigger

    def _worked(
        self, deployment: Deployment, prompt: bool, tell: Report, work: Callable[[System], frozenset[str]]
    ) -> Outcome:
        """Return what came of a system that is made, worked off and fenced; ``work`` names the tables refused."""
        system: System | None = None
        with owned(deployment.place):
            try:
                with telling_deaths({name: self.hosts[name] for name in deployment.placement.values()}):
                    system = self.system(deployment, prompt, tell)
                    begin = time.monotonic()
                    refused = work(system)
                    system.unremoved = clean_logs(system.deployment, system.queries)
            except PySparkException as error:
                for name in mute({name: self.sessions[name] for name in sorted({*deployment.placement.values()})}):
                    raise silent(name) from None
                raise EngineError(f"a query failed: {short(error)}") from None
            finally:
                if system is not None:
                    system.fence()
            outcome = collect(system.deployment, system.queries, time.monotonic() - begin)
            return attrs.evolve(
                outcome,
                refused=refused,
                down=frozenset(system.down),
                missing=dict(system.copies.missing),
                asked=system.asked,
                gone=system.gone,
                unremoved=system.unremoved,
                between=rows_between(system.deployment, system.queries) if deployment.teach else {},
            )

    def system(self, deployment: Deployment, prompt: bool, tell: Report, *, adopt: bool = False) -> System:
        """Take the folder over, compile all queries, and bring what an earlier run left in order.

        ``adopt`` queries that an earlier penstock left running.
        """
        claim = claimed_by(deployment)
        for name in sorted({unit.host for unit in claim.units} & self.hosts.keys()):
            if self.hosts[name].pid is None:
                probe(deployment.place, name, self.sessions[name])
        told: dict[str, Sequence[StreamingQueryProgress]] = {}
        if deployment.real_time:
            if not adopt:
                told = end_left(self.hosts, noted_sessions(deployment.folder), [unit.name for unit in claim.units])
            note_sessions(deployment.place, self.sessions)
        tell("compiling", 0.0)
        if claim.grown is not None:
            deployment = self._grown(deployment, claim.grown)
        system = System(deployment, claim, self.hosts, self.sessions, prompt=prompt, speed=self.speeds.now)
        system.prepare(told, adopt=adopt)
        system.gone = gone_from(system.deployment, system.queries)
        fold(system.deployment, system.queries, keep=LEFT)
        return system

    def _grown(self, deployment: Deployment, network: Network) -> Deployment:
        """Return a deployment with what was attached to it in an earlier run."""
        more = [operator for name, operator in network.operators.items() if name not in deployment.network.operators]
        return attrs.evolve(
            deployment,
            network=network,
            schemas=derive_schemas(first := next(iter(self.sessions.values())), network, deployment.messages),
            fitting=fitting(first, network, deployment.messages),
            schedules={**self.schedules(network, deployment.place, skip=deployment.schedules), **deployment.schedules},
            real_time=(real_time := prompt_operators(network, self.cluster.spark)),
            live=sheddable(network, real_time) if deployment.live else deployment.live,
            apart=deployment.apart | {each.name for each in more if each.stateful and deployment.apart},
        )

    def _go(self, system: System, interval: float, follower: Follower | None, wait: Callable[[], None]) -> None:
        """Start, wait for the end, and stop."""
        with contextlib.ExitStack() as last:
            if follower is not None:
                last.callback(follower.end)
            try:
                since = time.time()
                system.start(interval)
                open_schedules(system.deployment, interval, since)
                if follower is not None:
                    follower.begin(epoch_of(system.deployment.place))
                try:
                    wait()
                except Enough:
                    system.asked = time.time()
                # One may have failed since somebody looked.
                for runner in [*system.runners.values()]:
                    system.check(runner)
            except BaseException:
                # What went wrong first is told.
                with contextlib.suppress(PenstockError):
                    system.stop()
                raise
            system.stop()


def _silent(_what: str, _share: float) -> None:
    pass
