"""A run under way: its queries are started, observed and stopped."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock.errors import EngineError, PenstockError
from penstock.spark.compile import Deployment, Query
from penstock.spark.hop import Hop
from penstock.spark.hop.logs import log_of
from penstock.spark.run.recall import recall
from penstock.spark.run.reports import launch, marks, save_reports, short, told, was_passing
from penstock.spark.run.upkeep import clean_logs, fold
from penstock.spark.shipped.gate import take_over
from penstock.spark.shipped.writer import make_writer

Report = Callable[[str, float], None]
"""Told what is being done and how much of it is done, 0..1."""

LOOK, CHECK, UPKEEP = 0.25, 5.0, 10.0
"""Seconds between two looks at the hosts, at the queries' errors, and at what may be removed."""


class Running:
    """The queries of a deployment on their hosts.

    Parameters
    ----------
    deployment, queries
        What runs.
    hosts
        By name.
    """

    def __init__(self, deployment: Deployment, queries: Sequence[Query], hosts: Mapping[str, Any]) -> None:
        self.deployment, self.queries, self.hosts = deployment, list(queries), hosts
        self.handles: dict[str, Any] = {}
        self._asked = self._kept = self._seen = time.monotonic()
        self._ended = threading.Event()

    def start(self, trigger: float) -> None:
        """Start all queries, and wait until each has looked for data."""
        interval = f"{round(trigger * 1000)} milliseconds"
        pool = ThreadPoolExecutor(max(1, len(self.queries)))
        try:
            list(pool.map(lambda query: self._begin(query, interval), self.queries))
        except BaseException:
            self._ended.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _begin(self, query: Query, interval: str, again: int = 2) -> None:
        handle = self._launch(query, processingTime=interval)
        self.handles[query.name] = handle
        # When the first batch has ended, plans are compiled and Python workers run; a source may have no data yet.
        while marks(query)[1] < 0 and not _waits(handle):
            if self._ended.wait(0.2):
                return
            if again and was_passing(handle):
                self._begin(query, interval, again - 1)
                return
            self.check(query)

    def _launch(self, query: Query, **trigger: Any) -> Any:
        recall(query)
        writer = (
            query.frame.writeStream.foreachBatch(make_writer(query.spec))
            .option("checkpointLocation", (self.deployment.place / "checkpoints" / query.name).uri)
            .outputMode("append")
            .queryName(query.name)
        )
        return launch(writer.trigger(**trigger))

    def look(self) -> tuple[int, ...]:
        """Look after everything once; return the last batch begun and ended of each query.

        Mostly files are looked at, so that the hosts keep their cores.

        Raises
        ------
        EngineError
            If a host has died or a query has failed.
        """
        for query in self.queries:
            save_reports(query, self.handles[query.name])
        self._look_at_hosts()
        now = time.monotonic()
        if now - self._asked > CHECK:
            self._asked = now
            for query in self.queries:
                self.check(query)
        self.upkeep()
        return tuple(number for query in self.queries for number in marks(query))

    def _look_at_hosts(self) -> None:
        """Raise if a host on this machine has died; of others their queries tell."""
        if time.monotonic() - self._seen < LOOK:
            return
        self._seen = time.monotonic()
        raise_dead({name: self.hosts[name] for name in {query.fragment.host for query in self.queries}})

    def upkeep(self) -> None:
        """Remove what is not needed any more, now and then."""
        if time.monotonic() - self._kept > UPKEEP:
            self._kept = time.monotonic()
            clean_logs(self.deployment, self.queries)
            fold(self.deployment, self.queries)

    def check(self, query: Query) -> None:
        """Raise the error that a query ended with, if it did."""
        try:
            error = self.handles[query.name].exception()
        except Exception:
            if not self.hosts[query.fragment.host].alive():
                raise died(query.fragment.host) from None
            raise
        if error is not None:
            raise EngineError(f"query {query.name!r} failed: {told(query) or short(error)}")

    def stop(self, patience: float = 30.0) -> None:
        """Let no batch begin to deliver, wait for those that do, and stop."""
        self._ended.set()
        take_over(self.deployment.place, deliver=False)
        deadline = time.monotonic() + patience
        for query in self.queries:
            handle = self.handles.get(query.name)
            if handle is None:
                continue
            with contextlib.suppress(Exception):
                host = self.hosts[query.fragment.host]
                while host.alive() and time.monotonic() < deadline:
                    begun, ended = marks(query)
                    if begun == ended or not handle.isActive:
                        break
                    time.sleep(0.05)
                if host.alive():
                    handle.stop()
                    save_reports(query, handle)

    def drain(self, tell: Report) -> None:
        """Run every query over what there is, then again those whose logs bring more, until none does."""
        order = {name: number for number, name in enumerate(self.deployment.network.operators)}
        waiting = sorted(self.queries, key=lambda query: order[query.fragment.operators[0]])
        logs = {name: log_of(self.deployment.place, q.spec.topics, name) for q in waiting for name in q.reads}
        try:
            self._drain(waiting, logs, tell)
        finally:
            for log in logs.values():
                log.close()

    def _drain(self, waiting: Sequence[Query], logs: Mapping[str, Hop], tell: Report) -> None:
        """Run the queries in this order, again while their logs bring more."""
        read: dict[str, tuple[int, ...]] = {}
        again = 3
        while True:
            held = {query.name: tuple(logs[name].settled() for name in query.reads) for query in waiting}
            query = next((query for query in waiting if read.get(query.name) != held[query.name]), None)
            if query is None:
                return
            read[query.name] = held[query.name]
            tell("delivering", min(0.95, len(read) / len(waiting)))
            self._finish(query)
            if again and was_passing(self.handles[query.name]):
                again -= 1
                del read[query.name]
                continue
            self.check(query)
            save_reports(query, self.handles[query.name])
            self.upkeep()

    def _finish(self, query: Query) -> None:
        """Run a query over what there is."""
        handle = self._launch(query, availableNow=True)
        self.handles[query.name] = handle
        # Asking a busy host takes it tens of milliseconds: one call waits, while files tell how far it is.
        waiter = threading.Thread(target=_await_end, args=(handle,), daemon=True)
        waiter.start()
        while waiter.is_alive():
            waiter.join(0.02)
            save_reports(query, handle)
            self._look_at_hosts()


def died(host: str) -> EngineError:
    """Return the error for a host that has ended."""
    return EngineError(f"host {host!r} has died; run the same command again to go on")


def raise_dead(hosts: Mapping[str, Any]) -> None:
    """Raise if one of some hosts is on this machine and has died."""
    for name in sorted(hosts):
        if hosts[name].pid is not None and not hosts[name].alive():
            raise died(name)


@contextlib.contextmanager
def telling_deaths(hosts: Mapping[str, Any], patience: float = 1.0) -> Iterator[None]:
    """Say of whatever fails because a host on this machine has died that it has died.

    A connection may be refused some time before the process is seen to be gone: for ``patience`` seconds one looks.
    """
    try:
        yield
    except PenstockError:
        raise
    except Exception:
        deadline = time.monotonic() + patience
        while True:
            try:
                raise_dead(hosts)
            except EngineError as death:
                raise death from None
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _waits(handle: Any) -> bool:
    """Whether a query has looked for data and found none."""
    status = handle.status
    return str(status["message"]).startswith("Waiting for") and not status["isTriggerActive"]


def _await_end(handle: Any) -> None:
    with contextlib.suppress(Exception):
        handle.awaitTermination()
