"""Running placed networks on Spark hosts."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.cluster import Cluster
from penstock.errors import EngineError, InputError
from penstock.network import Network
from penstock.shedding.live import Shedder
from penstock.spark.compile import (
    RECALLED,
    Deployment,
    Query,
    check_network,
    check_placement,
    compile_fragment,
    derive_schemas,
    nexmark_options,
    register,
    sheddable,
)
from penstock.spark.compile.sql import computes
from penstock.spark.connection import Connection
from penstock.spark.run.folder import claim, epoch_of, owned, probe
from penstock.spark.run.follow import Follower, prompted
from penstock.spark.run.outcome import Outcome, collect
from penstock.spark.run.reports import recount, short
from penstock.spark.run.running import LOOK, Report, Running, telling_deaths
from penstock.spark.run.topics import make_topics
from penstock.spark.run.upkeep import LEFT, clean_logs, fold
from penstock.spark.shipped.gate import take_over
from penstock.spark.shipped.place import place_of
from penstock.workload import Rates, read_rates

# Refusals are told once, as one message.
logging.getLogger("SQLQueryContextLogger").disabled = True


UNSOUND = "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation"
"""A rule that Spark may not apply to streams. It takes branches of a union that have no rows in a batch out of the
plan. What all other branches have in common then counts for ever: rows on the other side of a join that do not match it
are not kept, although rows that come in later batches would."""


class Engine:
    """Hosts with a session each, on which networks can be run one after another.

    Parameters
    ----------
    cluster
        Hosts and Spark settings.
    hosts
        Running hosts by name, as `penstock.spark.hosts.start_hosts` yields them.
    """

    def __init__(self, cluster: Cluster, hosts: Mapping[str, Any]) -> None:
        self.cluster, self.hosts = cluster, hosts
        with telling_deaths(hosts), ThreadPoolExecutor(max(1, len(hosts))) as pool:
            self.sessions = dict(zip(hosts, pool.map(self._session, hosts), strict=True))
        self._speeds: dict[str, float] = {}

    def _session(self, name: str) -> SparkSession:
        session: SparkSession = self.hosts[name].session()
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.conf.set("spark.sql.shuffle.partitions", "1")
        session.conf.set("spark.sql.streaming.statefulOperator.useStrictDistribution", "true")
        for key in ("spark.sql.optimizer.excludedRules", "spark.sql.adaptive.optimizer.excludedRules"):
            excluded = filter(None, [session.conf.get(key, ""), UNSOUND])
            session.conf.set(key, ",".join(excluded))
        register(session)
        return session

    def speed(self, name: str) -> float:
        """Return how many steps of a delay's loop a warm host does per second (slope of two sizes)."""
        if name not in self._speeds:
            session = self.sessions[name]

            def spend(rows: int, steps: int) -> float:
                loop = f"aggregate(sequence(1, {steps}), id, (a, x) -> xxhash64(a, x)) <> 42"
                begin = time.perf_counter()
                session.range(rows).filter(loop).write.format("noop").mode("overwrite").save()
                return time.perf_counter() - begin

            for _ in range(3):
                spend(500, 20_000)
            slopes = []
            for _ in range(5):
                small, large = spend(200, 20_000), spend(2_200, 20_000)
                slopes.append((large - small) / (2_000 * 20_000))
            self._speeds[name] = 1 / float(np.median(slopes))
        return self._speeds[name]

    def prepare(
        self,
        network: Network,
        placement: Mapping[str, str],
        folder: str | os.PathLike[str],
        *,
        keep: Mapping[str, float] | None = None,
        rates: Rates | None = None,
        everything: bool = False,
        live: bool = False,
    ) -> Deployment:
        """Check a network and gather what its queries need; ``live``: keep fractions will follow a plan."""
        check_network(network, self.cluster.spark)
        check_placement(placement)
        kafka = Connection.of(self.cluster.spark)
        place = place_of(os.fspath(folder))
        used = sorted(set(placement.values()))
        for name in used if live else ():
            self._check_live(name)
        schedules = {}
        for name, source in network.sources.items():
            if source.scheduled:
                mine = rates if rates is not None else scheduled_rates(source.options, name)
                series = {"period": mine.period, "values": mine.of_source(name).tolist()}
                schedules[name] = nexmark_options(source, series, (place / "epoch").uri)
        busy = sorted({placement[name] for name, operator in network.operators.items() if computes(operator)})
        with telling_deaths({name: self.hosts[name] for name in used}):
            with ThreadPoolExecutor(max(1, len(busy))) as pool:
                speeds = dict(zip(busy, pool.map(self.speed, busy), strict=True))
            schemas = derive_schemas(self.sessions[used[0]], network, None if kafka is None else kafka.spark)
        return Deployment(
            network=network,
            placement=dict(placement),
            folder=place.path,
            keep=dict(keep or {}),
            speeds=speeds,
            schedules=schedules,
            schemas=schemas,
            everything=everything,
            live=sheddable(network) if live else frozenset(),
            kafka=kafka,
            hop=self.cluster.spark.hop,
        )

    def _check_live(self, name: str) -> None:
        """Refuse live keep fractions where tasks do not share the driver's JVM."""
        master = str(self.sessions[name].conf.get("spark.master", "local"))
        if not master.startswith("local") or master.startswith("local-cluster"):
            raise InputError(
                f"keep fractions cannot change in a run, since executors are not in the host's JVM ({master})",
                at=f"hosts.{name}",
                hint="give fixed ones: --keep",
            )

    def run(
        self,
        deployment: Deployment,
        *,
        seconds: float | None = None,
        once: bool = False,
        trigger: float | None = None,
        shedder: Shedder | None = None,
        report: Report | None = None,
    ) -> Outcome:
        """Run a deployment until its schedules are over and all is delivered, or for a time.

        Parameters
        ----------
        seconds
            Stop after this time; None: when scheduled sources are over (never, if there are others).
        once
            Process what the sources hold now, deliver it all, stop.
        trigger
            Interval of the micro-batches (s), if not the cluster's.
        shedder
            A plan table in use: keep fractions of a live deployment follow it.
        report
            Told how far it is.

        Raises
        ------
        EngineError
            If a host dies or a query fails.
        """
        tell = report or (lambda _what, _share: None)
        begin = time.time()
        refused: frozenset[str] = frozenset()
        running: Running | None = None
        with owned(deployment.place):
            try:
                with telling_deaths({name: self.hosts[name] for name in deployment.placement.values()}):
                    running = self._compiled(deployment, shedder is not None, tell)
                    begin = time.time()
                    if once:
                        self._open(deployment)
                        running.drain(tell)
                    else:
                        follower = None if shedder is None else Follower(deployment, running.queries, shedder)
                        interval = self.cluster.spark.trigger if trigger is None else trigger
                        self._go(running, interval, seconds, follower, tell)
                        refused = frozenset() if follower is None else frozenset(follower.refused)
                    clean_logs(deployment, running.queries)
            except PySparkException as error:
                raise EngineError(f"a query failed: {short(error)}") from None
            finally:
                if running is not None:
                    take_over(deployment.place, deliver=False)
            outcome = collect(deployment, running.queries, time.time() - begin)
            return attrs.evolve(outcome, refused=refused)

    def _compiled(self, deployment: Deployment, follows: bool, tell: Report) -> Running:
        """Take the folder over, compile all queries, and bring what an earlier run left in order."""
        run = claim(deployment)
        for name in sorted({fragment.host for fragment in deployment.fragments}):
            if self.hosts[name].pid is None:
                probe(deployment.place, name, self.sessions[name])
        tell("compiling", 0.0)
        generation = take_over(deployment.place)
        queries: list[Query] = []
        for fragment in deployment.fragments:
            # Spark asks for the folders that it reads when it hears of them.
            (deployment.place / RECALLED / fragment.name).make()
            queries.append(compile_fragment(self.sessions[fragment.host], deployment, fragment, run, generation))
        make_topics(deployment, queries, {name: self.sessions[name] for name in {q.fragment.host for q in queries}})
        if follows:
            queries = prompted(deployment, queries)
        for query in queries:
            recount(query)
        fold(deployment, queries, keep=LEFT)
        return Running(deployment, queries, self.hosts)

    def _go(
        self, running: Running, interval: float, seconds: float | None, follower: Follower | None, tell: Report
    ) -> None:
        """Start, watch and stop."""
        try:
            running.start(interval)
            self._open(running.deployment)
            if follower is not None:
                follower.begin(epoch_of(running.deployment.place))
            self._watch(running, seconds, tell)
        finally:
            running.stop()
            if follower is not None:
                follower.end()

    def _open(self, deployment: Deployment) -> None:
        """Let scheduled sources begin, at a multiple of the trigger, as the micro-batch model has it."""
        step = max(1, round(self.cluster.spark.trigger * 1e6))
        begin = (time.time_ns() // 1000 // step + 1) * step
        (deployment.place / "epoch").publish(str(begin).encode())

    def _watch(self, running: Running, seconds: float | None, tell: Report) -> None:
        """Wait for the end."""
        deployment = running.deployment
        length = max([_length(options) for options in deployment.schedules.values()] or [0.0])
        begin, epoch = time.time(), epoch_of(deployment.place)
        span = seconds if seconds is not None else (max(epoch, begin) - begin) + max(0.0, length - (begin - epoch))
        rest = 2 * self.cluster.spark.trigger + 1.0
        seen: tuple[int, ...] = ()
        changed = time.time()
        while True:
            time.sleep(LOOK / 5)
            state = running.look()
            now = time.time()
            tell("running", min(1.0, (now - begin) / span) if span > 0 else 0.0)
            if seconds is not None and now - begin >= seconds:
                return
            if state != seen:
                seen, changed = state, now
            idle = all(start == end for start, end in zip(state[::2], state[1::2], strict=True))
            if deployment.network.scheduled and now - epoch > length and idle and now - changed > rest:
                return


def _length(options: Mapping[str, str]) -> float:
    """Return how long a schedule is (s)."""
    rates = json.loads(options["rates"])
    return float(rates["period"] * len(rates["values"]))


def scheduled_rates(options: Mapping[str, str], name: str) -> Rates:
    """Return the rates of a Nexmark source: ``rates`` (a file), or ``rate`` (tuples/s) and ``duration`` (s)."""
    if "rates" in options:
        rates = read_rates(options["rates"])
        if name not in rates.sources:
            raise InputError(f"has no column {name!r}", file=options["rates"])
        return rates
    try:
        return Rates.constant({name: float(options.get("rate", "1000"))}, float(options.get("duration", "60")))
    except ValueError:
        raise InputError("expected numbers for rate and duration", at=f"sources.{name}.options") from None
