"""Running all units over what there is, until nothing more comes: each host as many at a time as it has cores."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.network import Network
from penstock.spark.compile import Query
from penstock.spark.hop import Hop
from penstock.spark.hop.logs import log_of
from penstock.spark.run.runner import Runner
from penstock.spark.run.system import Report, System

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

AGAIN = 3
"""Failures that pass by themselves after which units are run again, all together."""

LOOK = 0.02
"""Seconds between two looks at what runs; files tell how far it is, since asking a busy host takes it longer."""


def drain(system: System, cores: Mapping[str, int], tell: Report) -> None:
    """Run every unit over what there is, then again those whose logs bring more, until none does.

    Parameters
    ----------
    cores
        By host: so many units run there at a time.
    """
    network, folder = system.deployment.network, system.deployment.place
    order = {name: number for number, name in enumerate(network.operators)}
    waiting = sorted(system.queries, key=lambda query: order[query.fragment.operators[0]])
    logs = {name: log_of(folder, query.spec.topics, name) for query in waiting for name in query.reads}
    draining = _Drain(system, cores, waiting, logs, tell)
    try:
        draining.run()
    finally:
        draining.stop()
        for log in logs.values():
            log.close()


def feeders(network: Network, units: Sequence[Collection[str]]) -> list[set[int]]:
    """Return for each unit those before it whose rows reach it; units are given by operators, upstream ones first."""
    unit_of = {name: number for number, names in enumerate(units) for name in names}
    above: list[set[int]] = [set() for _ in units]
    # Rows may leave a unit and come back to it through another.
    for _ in units:
        for name, number in unit_of.items():
            for stream in network.inputs(name):
                writer = unit_of.get(stream.writer, number)
                above[number] |= {writer, *above[writer]}
    return [{number for number in found if number < own} for own, found in enumerate(above)]


class _Drain:
    """One way through all units.

    A unit runs when what it reads has become more and nothing upstream of it will run first. That keeps each unit's
    rows in few batches; the answers would be the same in any order.
    """

    def __init__(
        self,
        system: System,
        cores: Mapping[str, int],
        waiting: Sequence[Query],
        logs: Mapping[str, Hop],
        tell: Report,
    ) -> None:
        self.system, self.cores, self.waiting, self.logs, self.tell = system, cores, waiting, logs, tell
        self.above = feeders(system.deployment.network, [query.fragment.operators for query in waiting])
        self.read: dict[int, tuple[int, ...]] = {}
        self.running: dict[int, tuple[Runner, threading.Thread]] = {}
        self.again = AGAIN

    def run(self) -> None:
        """Run units until none has anything to read."""
        while self._begin() or self.running:
            while all(waiter.is_alive() for _, waiter in self.running.values()):
                time.sleep(LOOK)
                for runner, _ in self.running.values():
                    runner.look()
                self.system.look_at_hosts()
            for number in [number for number, (_, waiter) in self.running.items() if not waiter.is_alive()]:
                self._end(number)

    def _begin(self) -> bool:
        """Start what may run now; return whether anything was."""
        held = [tuple(self.logs[name].settled() for name in query.reads) for query in self.waiting]
        ready = {
            number
            for number, positions in enumerate(held)
            if number not in self.running and self.read.get(number) != positions
        }
        begun = False
        for number in sorted(ready):
            if self.above[number] & (ready | self.running.keys()) or not self._free(number):
                continue
            self.read[number] = held[number]
            self.tell("delivering", min(0.95, len(self.read) / len(self.waiting)))
            self.running[number] = self._launch(self.waiting[number].name)
            begun = True
        return begun

    def _free(self, number: int) -> bool:
        """Whether the host of a unit has a core for it."""
        host = self.system.units[self.waiting[number].name].host
        taken = sum(runner.unit.host == host for runner, _ in self.running.values())
        return taken < self.cores[host]

    def _launch(self, name: str) -> tuple[Runner, threading.Thread]:
        """Run a unit over what there is; the thread ends with it."""
        runner = Runner(self.system.units[name], self.system.compiled[name])
        runner.launch()
        self.system.runners[name] = runner
        waiter = threading.Thread(target=_await_end, args=(runner.under_way,), daemon=True)
        waiter.start()
        return runner, waiter

    def _end(self, number: int) -> None:
        """Look after a unit that has ended."""
        runner, _ = self.running.pop(number)
        if self.again and runner.passing:
            self.again -= 1
            del self.read[number]
            return
        self.system.check(runner)
        runner.look()
        self.system.upkeep()

    def stop(self) -> None:
        """Stop what still runs, since something else has failed."""
        for runner, waiter in self.running.values():
            with contextlib.suppress(Exception):
                runner.under_way.stop()
            waiter.join(timeout=10.0)


def _await_end(handle: StreamingQuery) -> None:
    with contextlib.suppress(Exception):
        handle.awaitTermination()
