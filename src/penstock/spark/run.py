"""Running a placed network on Spark hosts, and reading what came of it.

Everything that a run leaves is in its folder, written so that a killed run finds it again:

    run.json            what runs here: network, placement, keep fractions
    owner               which penstock runs it, while one does
    epoch               when scheduled sources begin (µs since 1970)
    checkpoints/QUERY   Spark's offsets, commits and state
    logs/OPERATOR       rows between queries, a file per batch
    sinks/SINK          rows of sinks without a format
    latency/SINK        when rows became visible, and the stimulus time of each
    batches/QUERY       a manifest per batch: event time, rows of logs, counts
    keep.json           keep fractions that a plan asks for now
    knobs/QUERY         those that the last batches had
    progress/QUERY      Spark's report per batch: duration, and the counts of streams inside its plan
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.cluster import Cluster, Placement
from penstock.errors import EngineError, InputError
from penstock.files import write_json
from penstock.network import Network
from penstock.shedding.live import Shedder
from penstock.spark import shipped
from penstock.spark.compile import (
    Deployment,
    Query,
    check_network,
    compile_fragment,
    derive_schemas,
    nexmark_options,
    register,
    sheddable,
)
from penstock.spark.follow import Follower
from penstock.spark.knobs import make_turn
from penstock.spark.operators import computes
from penstock.workload import Rates, read_rates

# Refusals are told once, as one message.
logging.getLogger("SQLQueryContextLogger").disabled = True

Report = Callable[[str, float], None]
"""Told what is being done and how much of it is done, 0..1."""


@attrs.frozen(eq=False)
class Batch:
    """One micro-batch. ``start`` in s since 1970, ``duration`` in s, ``counts`` by stream: arrived and dropped."""

    query: str
    number: int
    start: float
    duration: float
    rows: int
    counts: Mapping[str, tuple[int, int]]


@attrs.frozen(eq=False)
class Outcome:
    """What came of a run.

    Attributes
    ----------
    epoch
        When scheduled sources began, or the run did (s since 1970).
    batches
        Of all queries, by query and number.
    visible, stimulus
        By sink: when each tuple became visible, and its stimulus time (s since 1970).
    taken
        By stream that crosses a log: rows that the log held as far as its reader has come.
    seconds
        How long it ran.
    refused
        Streams on which a plan wanted to drop and nothing can be dropped.
    """

    epoch: float
    batches: Sequence[Batch]
    visible: Mapping[str, NDArray[np.float64]]
    stimulus: Mapping[str, NDArray[np.float64]]
    taken: Mapping[str, int]
    seconds: float
    refused: frozenset[str] = frozenset()

    def latency(self, sink: str | None = None) -> NDArray[np.float64]:
        """Return the latency of every tuple (s) at a sink, or at all."""
        names = [sink] if sink is not None else sorted(self.visible)
        return np.concatenate([np.zeros(0), *(self.visible[name] - self.stimulus[name] for name in names)])

    def streams(self, network: Network, keep: Mapping[str, float]) -> dict[str, dict[str, int]]:
        """Return arrived, delivered and dropped tuples of every stream."""
        found = {stream.name: [0, 0] for stream in network.streams}
        for batch in self.batches:
            for name, (arrived, dropped) in batch.counts.items():
                found[name][0] += arrived
                found[name][1] += dropped
        return {
            name: {"arrived": arrived, "delivered": arrived - dropped, "dropped": dropped}
            for name, (arrived, dropped) in found.items()
        }

    def balanced(self, network: Network) -> bool:
        """Whether nothing was lost: readers of a log found every row, and sinks have what arrived at them."""
        streams = self.streams(network, {})
        if any(streams[name]["arrived"] != rows for name, rows in self.taken.items()):
            return False
        return all(
            len(self.visible.get(sink, ())) == streams[network.inputs(sink)[0].name]["delivered"]
            for sink in network.sinks
        )


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
        self.sessions: dict[str, SparkSession] = {}
        with ThreadPoolExecutor(max(1, len(hosts))) as pool:
            made = pool.map(self._session, hosts)
        for name, session in zip(hosts, made, strict=True):
            self.sessions[name] = session
        self._speeds: dict[str, float] = {}

    def _session(self, name: str) -> SparkSession:
        session: SparkSession = self.hosts[name].session()
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.conf.set("spark.sql.shuffle.partitions", "1")
        session.conf.set("spark.sql.streaming.statefulOperator.useStrictDistribution", "true")
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
        where = str(Path(folder).absolute())
        used = sorted(set(placement.values()))
        for name in used if live else ():
            master = self.sessions[name].conf.get("spark.master", "local")
            if not str(master).startswith("local"):
                raise InputError(
                    f"keep fractions cannot change in a run, since executors are not in the host's JVM ({master})",
                    at=f"hosts.{name}",
                    hint="give fixed ones: --keep",
                )
        schedules = {}
        for name, source in network.sources.items():
            if source.format == "nexmark":
                mine = rates if rates is not None else scheduled_rates(source.options, name)
                series = {"period": mine.period, "values": mine.of_source(name).tolist()}
                schedules[name] = nexmark_options(source, series, where)
        busy = sorted({placement[name] for name, operator in network.operators.items() if computes(operator)})
        with ThreadPoolExecutor(max(1, len(busy))) as pool:
            speeds = dict(zip(busy, pool.map(self.speed, busy), strict=True))
        return Deployment(
            network=network,
            placement=dict(placement),
            folder=where,
            keep=dict(keep or {}),
            speeds=speeds,
            schedules=schedules,
            schemas=derive_schemas(self.sessions[used[0]], network),
            everything=everything,
            live=sheddable(network) if live else frozenset(),
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
        folder = Path(deployment.folder)
        with owned(folder):
            claim(deployment)
            for writer in deployment.network.operators:
                os.makedirs(deployment.log(writer), exist_ok=True)
            tell("compiling", 0.0)
            queries = [
                compile_fragment(self.sessions[fragment.host], deployment, fragment)
                for fragment in deployment.fragments
            ]
            own(folder, queries)
            for query in queries:
                rewind(deployment, query)
            follower = None if shedder is None else Follower(deployment, queries, shedder)
            begin = time.time()
            try:
                if once:
                    self._open(folder)
                    self._rounds(deployment, queries, tell)
                else:
                    running = self._start(
                        deployment, queries, self.cluster.spark.trigger if trigger is None else trigger
                    )
                    try:
                        self._open(folder)
                        if follower is not None:
                            follower.begin(epoch_of(folder))
                        self._watch(deployment, queries, running, seconds, tell)
                    finally:
                        self._stop(deployment, queries, running)
                        if follower is not None:
                            follower.end()
            except PySparkException as error:
                raise EngineError(f"a query failed: {_short(error)}") from None
            outcome = collect(deployment, queries, time.time() - begin)
            return outcome if follower is None else attrs.evolve(outcome, refused=frozenset(follower.refused))

    def _open(self, folder: Path) -> None:
        """Let scheduled sources begin, at a multiple of the trigger, as the micro-batch model has it."""
        gate = folder / "epoch"
        step = max(1, round(self.cluster.spark.trigger * 1e6))
        begin = (time.time_ns() // 1000 // step + 1) * step
        shipped.publish(str(gate), lambda file: file.write(str(begin).encode()))

    def _writer(self, deployment: Deployment, query: Query) -> Any:
        turn = None if query.spec["knobs"] is None else make_turn(query.spec)
        return (
            query.frame.writeStream.foreachBatch(shipped.make_writer(query.spec, turn))
            .option("checkpointLocation", str(Path(deployment.folder) / "checkpoints" / query.fragment.name))
            .outputMode("append")
            .queryName(query.fragment.name)
        )

    def _start(self, deployment: Deployment, queries: Sequence[Query], trigger: float) -> list[Any]:
        interval = f"{round(trigger * 1000)} milliseconds"

        def start(query: Query, again: int = 2) -> Any:
            running = _launch(self._writer(deployment, query).trigger(processingTime=interval))
            # Spark's first batch has no rows: when it has ended, plans are compiled and Python workers run.
            while _marks(deployment, query)[1] < 0:
                if again and _was_slow(running):
                    return start(query, again - 1)
                self._check(query, running)
                time.sleep(0.25)
            save_progress(deployment, query, running)
            return running

        with ThreadPoolExecutor(max(1, len(queries))) as pool:
            return list(pool.map(start, queries))

    def _watch(
        self, deployment: Deployment, queries: Sequence[Query], running: list[Any], seconds: float | None, tell: Report
    ) -> None:
        """Wait for the end; look at files only, so that the hosts keep their cores."""
        network = deployment.network
        finite = all(source.format == "nexmark" for source in network.sources.values())
        length = max(
            [
                json.loads(o["rates"])["period"] * len(json.loads(o["rates"])["values"])
                for o in deployment.schedules.values()
            ]
            or [0.0]
        )
        begin = time.time()
        epoch = epoch_of(Path(deployment.folder))
        span = seconds if seconds is not None else (max(epoch, begin) - begin) + max(0.0, length - (begin - epoch))
        rest = 2 * self.cluster.spark.trigger + 1.0
        seen: tuple[int, ...] = ()
        changed, asked, looked = time.time(), time.time(), 0.0
        while True:
            time.sleep(0.05)
            for query, handle in zip(queries, running, strict=True):
                save_progress(deployment, query, handle)
            now = time.time()
            if now - looked < 0.25:
                continue
            looked = now
            tell("running", min(1.0, (now - begin) / span) if span > 0 else 0.0)
            for name in sorted({query.fragment.host for query in queries}):
                if self.hosts[name].pid is not None and not self.hosts[name].alive():
                    raise EngineError(f"host {name!r} has died; run the same command again to go on")
            if now - asked > 5.0:
                asked = now
                for query, handle in zip(queries, running, strict=True):
                    self._check(query, handle)
            if seconds is not None and now - begin >= seconds:
                return
            state = tuple(value for query in queries for value in _marks(deployment, query))
            if state != seen:
                seen, changed = state, now
            idle = all(start == end for start, end in zip(state[::2], state[1::2], strict=True))
            if finite and now - epoch > length and idle and now - changed > rest:
                return

    def _check(self, query: Query, handle: Any) -> None:
        try:
            error = handle.exception()
        except Exception:
            if not self.hosts[query.fragment.host].alive():
                raise EngineError(
                    f"host {query.fragment.host!r} has died; run the same command again to go on"
                ) from None
            raise
        if error is not None:
            raise EngineError(f"query {query.fragment.name!r} failed: {_short(error)}")

    def _stop(self, deployment: Deployment, queries: Sequence[Query], running: list[Any]) -> None:
        """Let no batch begin to deliver, wait for those that do, and stop."""
        (Path(deployment.folder) / "owner").unlink(missing_ok=True)
        deadline = time.monotonic() + 30.0
        for query, handle in zip(queries, running, strict=True):
            with contextlib.suppress(Exception):
                while self.hosts[query.fragment.host].alive() and time.monotonic() < deadline:
                    begun, ended = _marks(deployment, query)
                    if begun == ended or not handle.isActive:
                        break
                    time.sleep(0.05)
                if self.hosts[query.fragment.host].alive():
                    handle.stop()
                    save_progress(deployment, query, handle)

    def _rounds(self, deployment: Deployment, queries: Sequence[Query], tell: Report) -> None:
        """Run every query over what there is, then again those whose logs bring more, until none does."""
        place = {name: number for number, name in enumerate(deployment.network.operators)}
        order = sorted(queries, key=lambda query: place[query.fragment.operators[0]])
        read: dict[str, tuple[int, ...]] = {}
        again = 3
        while True:
            held = {
                query.fragment.name: tuple(shipped.extent(deployment.log(name)) for name in query.reads)
                for query in order
            }
            waiting = [query for query in order if read.get(query.fragment.name) != held[query.fragment.name]]
            if not waiting:
                return
            query = waiting[0]
            read[query.fragment.name] = held[query.fragment.name]
            tell("delivering", min(0.95, len(read) / len(queries)))
            handle = _launch(self._writer(deployment, query).trigger(availableNow=True))
            # Asking a busy host takes it tens of milliseconds: one call waits, while files tell how far it is.
            waiter = threading.Thread(target=_await_end, args=(handle,), daemon=True)
            waiter.start()
            while waiter.is_alive():
                waiter.join(0.02)
                save_progress(deployment, query, handle)
                if not self.hosts[query.fragment.host].alive():
                    raise EngineError(f"host {query.fragment.host!r} has died; run the same command again to go on")
            if again and _was_slow(handle):
                again -= 1
                del read[query.fragment.name]
                continue
            self._check(query, handle)
            save_progress(deployment, query, handle)


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


@contextlib.contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold a run's folder: one penstock at a time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / "lock", "w")  # noqa: SIM115
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=folder) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                "another penstock runs in this folder", file=folder, hint="name another --directory"
            ) from None
        yield


def epoch_of(folder: Path) -> float:
    """Return when scheduled sources of a run begin (s since 1970)."""
    return int((folder / "epoch").read_text()) / 1e6


def digest(network: Network) -> str:
    """Return a fingerprint of a network's meaning."""
    parts = [
        network.name,
        *(str(attrs.asdict(v)) for t in (network.sources, network.operators, network.sinks) for v in t.values()),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def claimed(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return what runs in a folder, if anything does."""
    path = Path(folder) / "run.json"
    if not path.exists():
        return None
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def claim(deployment: Deployment) -> None:
    """Note what runs in the folder, or refuse if it is something else."""
    mine = {
        "network": deployment.network.name,
        "digest": digest(deployment.network),
        "placement": dict(sorted(deployment.placement.items())),
        "keep": {name: share for name, share in sorted(deployment.keep.items()) if share < 1},
    }
    there = claimed(deployment.folder)
    if there is None:
        write_json(Path(deployment.folder) / "run.json", mine)
        return
    for key, what in (
        ("digest", f"another network ({there['network']!r})"),
        ("placement", "another placement"),
        ("keep", "with other keep fractions, a network"),
    ):
        if there.get(key) != mine[key]:
            raise InputError(f"{what} runs in this folder", file=deployment.folder, hint="name another --directory")


def _short(error: object) -> str:
    """Return the beginning and the end of an error, which say what and why."""
    text = str(error).split("\n\nJVM stacktrace")[0].split("\n=== Streaming Query")[0]
    text = " ".join(text.replace("SQLSTATE: 38000", "").split())
    return text if len(text) < 900 else f"{text[:300]} … {text[-500:]}"


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(
        int(name.split(".")[0]) for name in os.listdir(folder) if name.split(".")[0].isdigit() and "tmp" not in name
    )


def _marks(deployment: Deployment, query: Query) -> tuple[int, int]:
    """Return the last batch that a query has begun, and the last that it has ended."""
    place = Path(deployment.folder) / "checkpoints" / query.fragment.name
    begun, ended = _numbers(place / "offsets"), _numbers(place / "commits")
    return (begun[-1] if begun else -1), (ended[-1] if ended else -1)


def own(folder: Path, queries: Sequence[Query]) -> None:
    """Note that this run delivers, and no other that may still be around on a host."""
    mark = f"{os.getpid()} {time.time_ns()}"
    for query in queries:
        query.spec["owner"] = mark
    with open(folder / "owner.tmp", "w", encoding="utf-8") as file:
        file.write(mark)
    os.replace(folder / "owner.tmp", folder / "owner")


def rewind(deployment: Deployment, query: Query) -> None:
    """Let Spark do a query's last batch again if what it observed was not saved; the writer finds its files.

    The batch that Spark had planned next has delivered nothing yet, since it waits for those counts: it is planned
    anew.
    """
    begun, ended = _marks(deployment, query)
    if not query.counts or ended < 0 or _report(deployment, query, ended).exists():
        return
    place = Path(deployment.folder) / "checkpoints" / query.fragment.name
    for path in [*(place / "offsets" / str(n) for n in range(ended + 1, begun + 1)), place / "commits" / str(ended)]:
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _report(deployment: Deployment, query: Query, batch: int) -> Path:
    return Path(deployment.folder) / "progress" / query.fragment.name / f"{batch:012d}.json"


SLOW = "failed to connect back"
"""What Spark says when a Python worker did not start within its 10 s: the machine was busy."""


def _launch(writer: Any, again: int = 2) -> Any:
    """Start a query, again if its Python worker was slow."""
    try:
        return writer.start()
    except PySparkException as error:
        if again and SLOW in str(error):
            return _launch(writer, again - 1)
        raise


def _was_slow(handle: Any) -> bool:
    """Whether a query ended because a Python worker was slow."""
    try:
        error = handle.exception()
    except Exception:
        return False
    return error is not None and SLOW in str(error)


def _await_end(handle: Any) -> None:
    with contextlib.suppress(Exception):
        handle.awaitTermination()


def save_progress(deployment: Deployment, query: Query, handle: Any) -> None:
    """Save Spark's report of the last batch that a query has ended, unless it is saved."""
    ended = _marks(deployment, query)[1]
    path = _report(deployment, query, ended)
    if ended < 0 or path.exists():
        return
    last = handle.lastProgress
    if last is None or last.batchId < ended:
        return
    # Without an addBatch Spark only looked for data.
    reports = [last] if "addBatch" in (last.durationMs or {}) else reversed(handle.recentProgress)
    for progress in reports:
        duration = progress.durationMs or {}
        if progress.batchId != ended or "addBatch" not in duration:
            continue
        counts: dict[str, list[int]] = {}
        observed = progress.observedMetrics or {}
        for name, streams in query.counts.items():
            values = _observed(observed.get(name), 2 * len(streams))
            for stream, arrived, dropped in zip(streams, values[::2], values[1::2], strict=True):
                total = counts.setdefault(stream.name, [0, 0])
                total[0] += arrived
                total[1] += dropped
        begin = np.datetime64(progress.timestamp.rstrip("Z")).astype("datetime64[us]").astype(np.int64) / 1e6
        write = {
            "batch": progress.batchId,
            "start": float(begin),
            "duration": duration["triggerExecution"] / 1000,
            "rows": int(progress.numInputRows or 0),
            "counts": counts,
            "durations": duration,
        }
        content = json.dumps(write).encode()
        shipped.publish(str(path), functools.partial(_put, content))
        return


def _put(content: bytes, file: Any) -> None:
    file.write(content)


def _observed(row: Any, count: int) -> list[int]:
    """Return the values of an observation, which Connect gives as a row or as a table of its parts."""
    if row is None:
        return [0] * count
    values = row.get("values", row) if isinstance(row, dict) else row
    if hasattr(row, "asDict"):
        fields = row.asDict()
        values = fields.get("values", fields)
    if isinstance(values, dict):
        values = list(values.values())
    return [int(value or 0) for value in values]


def collect(deployment: Deployment, queries: Sequence[Query], seconds: float) -> Outcome:
    """Read what a run left in its folder."""
    folder = Path(deployment.folder)
    batches, taken = [], {}
    for query in queries:
        for number in _numbers(folder / "batches" / query.fragment.name):
            manifest = json.loads((folder / "batches" / query.fragment.name / f"{number:012d}.json").read_text())
            report = _report(deployment, query, number)
            # A kill may come between a batch and Spark's report of it.
            row = (
                json.loads(report.read_text())
                if report.exists()
                else {"start": manifest["visible"], "duration": 0.0, "rows": 0, "counts": {}}
            )
            counts = {name: (int(a), int(d)) for name, (a, d) in {**row["counts"], **manifest["counts"]}.items()}
            batches.append(Batch(query.fragment.name, number, row["start"], row["duration"], row["rows"], counts))
    visible, stimulus = {}, {}
    for sink in deployment.network.sinks:
        place = folder / "latency" / sink
        parts = [np.load(place / name) for name in sorted(os.listdir(place))] if place.is_dir() else []
        parts = [part for part in parts if len(part) > 1]
        visible[sink] = np.concatenate([np.zeros(0), *(np.full(len(part) - 1, part[0] / 1e6) for part in parts)])
        stimulus[sink] = np.concatenate([np.zeros(0), *(part[1:] / 1e6 for part in parts)])
    epoch = epoch_of(folder) if (folder / "epoch").exists() else 0.0
    logged = {
        leave["writer"]: (folder / "batches" / query.fragment.name, leave["column"])
        for query in queries
        for leave in query.spec["exits"]
        if "log" in leave
    }
    for query in queries:
        come = reached(deployment, query)
        for stream in deployment.network.streams:
            inside = stream.writer in query.fragment.operators and stream.name not in query.fragment.cuts
            if stream.reader not in query.fragment.operators or stream.writer not in logged or inside:
                continue
            if stream.share == 1:
                place, column = logged[stream.writer]
                manifests = [place / f"{number:012d}.json" for number in range(come.get(stream.writer, 0))]
                taken[stream.name] = sum(json.loads(path.read_text())["rows"].get(column, 0) for path in manifests)
    return Outcome(epoch, batches, visible, stimulus, taken, seconds)


def reached(deployment: Deployment, query: Query) -> dict[str, int]:
    """Return how many batches of each log a query has taken, as its last batch's offsets say."""
    ended = _marks(deployment, query)[1]
    if ended < 0:
        return {}
    text = (Path(deployment.folder) / "checkpoints" / query.fragment.name / "offsets" / str(ended)).read_text()
    offsets = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {offset["log"]: offset["batch"] for offset in offsets if "log" in offset}


def placement_of(document: Mapping[str, Any]) -> Placement:
    """Return the placement that a folder's run has."""
    return Placement(document["placement"])
