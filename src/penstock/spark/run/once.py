"""Running all units over what there is, until nothing more comes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.spark.compile import Query
from penstock.spark.hop import Hop
from penstock.spark.hop.logs import log_of
from penstock.spark.run.runner import Runner
from penstock.spark.run.system import Report, System


def drain(system: System, tell: Report) -> None:
    """Run every unit over what there is, then again those whose logs bring more, until none does."""
    order = {name: number for number, name in enumerate(system.deployment.network.operators)}
    waiting = sorted(system.queries, key=lambda query: order[query.fragment.operators[0]])
    folder = system.deployment.place
    logs = {name: log_of(folder, query.spec.topics, name) for query in waiting for name in query.reads}
    try:
        _drain(system, waiting, logs, tell)
    finally:
        for log in logs.values():
            log.close()


def _drain(system: System, waiting: Sequence[Query], logs: Mapping[str, Hop], tell: Report) -> None:
    """Run units in this order, again while their logs bring more."""
    read: dict[str, tuple[int, ...]] = {}
    again = 3
    while True:
        held = {query.name: tuple(logs[name].settled() for name in query.reads) for query in waiting}
        query = next((query for query in waiting if read.get(query.name) != held[query.name]), None)
        if query is None:
            return
        read[query.name] = held[query.name]
        tell("delivering", min(0.95, len(read) / len(waiting)))
        runner = _finish(system, query.name)
        if again and runner.passing:
            again -= 1
            del read[query.name]
            continue
        system.check(runner)
        runner.look()
        system.upkeep()


def _finish(system: System, name: str) -> Runner:
    """Run a unit over what there is."""
    runner = Runner(system.units[name], system.compiled[name])
    runner.launch(availableNow=True)
    system.runners[name] = runner
    # Asking a busy host takes it tens of milliseconds: one call waits, while files tell how far it is.
    waiter = threading.Thread(target=_await_end, args=(runner.handle,), daemon=True)
    waiter.start()
    while waiter.is_alive():
        waiter.join(0.02)
        runner.look()
        system.look_at_hosts()
    return runner


def _await_end(handle: Any) -> None:
    with contextlib.suppress(Exception):
        handle.awaitTermination()
