"""Fusing units: a query and one that reads its log on the same host go on as one, with one overhead a batch."""

from __future__ import annotations

import time
from collections.abc import Collection

import attrs

from penstock.errors import EngineError
from penstock.latency.fragments import fragment
from penstock.spark.compile import RECALLED
from penstock.spark.hop.logs import log_of
from penstock.spark.run.outcome import reached
from penstock.spark.run.reshape import Border, go_on
from penstock.spark.run.system import System
from penstock.spark.run.units import Unit

PATIENCE = 20.0
"""Seconds that a reader may take until it has read all that its log holds."""

Pair = tuple[Unit, Unit]
"""The writer of a log, and its reader."""


def pair(system: System, first: Collection[str], but: Collection[frozenset[str]] = ()) -> Pair | None:
    """Return two units of one host that can go on as one; None where there are none.

    Neither keeps state, drops whole windows, nor was asked to run apart, and they have nothing else in common that they
    read: of that they would have come to different positions. What was attached may fail and be given up: it takes
    nothing into its query with which the run began.

    Parameters
    ----------
    first
        The operators with which the run began.
    but
        Names of pairs that are left alone.
    """
    free = [unit for unit in [*system.units.values()] if not unit.copies and _free(system, unit)]
    for reader in free:
        for writer in free:
            common = {*_inputs(system, writer)} & {*_inputs(system, reader)}
            logs = {way.writer for way in system.compiled[writer.name].spec.logs}
            asked = writer.host == reader.host and frozenset([writer.name, reader.name]) not in but
            alike = len({name in first for unit in (writer, reader) for name in unit.fragment.operators}) == 1
            if asked and alike and writer != reader and not common and logs & {*system.compiled[reader.name].reads}:
                return writer, reader
    return None


def fuse(system: System, writer: Unit, reader: Unit, interval: float) -> None:
    """Stop a unit, and its reader once that has read what is there; both go on as one from where the first was.

    Others go on meanwhile.

    Raises
    ------
    EngineError
        If the reader does not get that far; both go on as they were.
    """
    network, members = system.deployment.network, {*writer.fragment.operators, *reader.fragment.operators}
    inside = tuple(name for name in network.operators if name in members)
    whole = Unit.new(fragment(network, writer.host, inside))
    known = tuple(unit.fragment for unit in [*system.units.values()] if unit.name not in (writer.name, reader.name))
    ready = system.compile(whole, attrs.evolve(system.deployment, units=(*known, whole.fragment)))
    host, both = system.hosts[writer.host], (writer.name, reader.name)
    system.growing = True
    try:
        _follow(system, writer, reader, 1)
        system.runners[writer.name].end(host)
        try:
            _follow(system, writer, reader)
        except EngineError:
            system.deliver(system.compile(writer), writer)
            system.begin(writer.name, interval)
            raise
        system.runners[reader.name].end(host)
        mine = next(unit for unit in (writer, reader) if unit.name == whole.name)
        borders = [Border.of(system.compiled[name]) for name in both]
        went = go_on(ready, attrs.evolve(whole, bases=mine.bases), borders)
        system.place([went], gone=[name for name in both if name != whole.name])
        system.deliver(ready, went)
    finally:
        system.growing = False
    system.begin(went.name, interval)


def _follow(system: System, writer: Unit, reader: Unit, short: int = 0) -> None:
    """Wait until a unit has read what another one wrote, but for some batches; silent ones at the end are not read."""
    deadline, query = time.monotonic() + PATIENCE, system.compiled[reader.name]
    written = [way.writer for way in system.compiled[writer.name].spec.logs if way.writer in query.reads]
    logs = {name: log_of(query.spec.folder, query.spec.topics, name) for name in written}
    while True:
        come = reached(query)
        left = [name for name, log in logs.items() if come.get(name, {}).get("batch", 0) < log.settled() - short]
        if not left:
            return
        if time.monotonic() > deadline:
            raise EngineError(f"{reader.name!r} does not get to the end of what {left[0]!r} writes")
        system.check(system.runners[reader.name])
        time.sleep(0.1)


def _free(system: System, unit: Unit) -> bool:
    """Whether a unit runs, keeps no state and is neither in real-time mode nor to stay apart."""
    operators, deployment = system.deployment.network.operators, system.deployment
    mine = {*unit.fragment.operators}
    # Other queries look up by the unit's name of which windows it has decided.
    windows = any(
        (query.spec.knobs.windows and query.name == unit.name) or unit.name in query.spec.knobs.others
        for query in system.queries
        if query.spec.knobs is not None
    )
    return (
        unit.name in system.runners
        and not windows
        and not mine & {*deployment.apart, *deployment.real_time}
        and not any(operators[name].stateful for name in mine)
    )


def _inputs(system: System, unit: Unit) -> tuple[str, ...]:
    return tuple(name for name in system.compiled[unit.name].inputs if name != RECALLED)
