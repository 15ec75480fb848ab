"""Attaching a query to a running system: its operators, and their new sources and sinks."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from penstock.errors import InputError
from penstock.latency.fragments import Fragment, fragments
from penstock.latency.real_time import prompt_operators
from penstock.network import Network
from penstock.spark.compile import Deployment, check_network, derive_schemas, fitting, sheddable
from penstock.spark.compile.graph import Graph
from penstock.spark.hop.logs import log_of
from penstock.spark.run.folder import epoch_of
from penstock.spark.run.outside import check_topics
from penstock.spark.run.reshape import Border, go_on
from penstock.spark.run.rows import noted_of_logs
from penstock.spark.run.system import System
from penstock.spark.run.units import Unit
from penstock.spark.shipped.gate import take_over
from penstock.workload.nexmark import Schedule

if TYPE_CHECKING:
    from penstock.spark.run.engine import Engine


@attrs.frozen(eq=False)
class Grown:
    """A deployment with a query attached, or given up.

    Attributes
    ----------
    deployment
        With the new query, as if it ran.
    fresh
        Units of the new query.
    again
        Units that run and must from now on write logs for the new ones, or for those no longer that are gone.
    gone
        Units of a query that is given up.
    """

    deployment: Deployment
    fresh: tuple[Unit, ...]
    again: tuple[Unit, ...]
    gone: tuple[Unit, ...] = ()


def grown(
    engine: Engine, system: System, network: Network, placement: Mapping[str, str], before: Grown | None = None
) -> Grown:
    """Check what is to be attached, together with what is attached ``before`` it.

    Parameters
    ----------
    engine
        Hosts and sessions.
    network
        The present one, and what may be attached to it.
    placement
        The hosts of the operators to attach.

    Raises
    ------
    InputError
        If the network changes what runs, or Spark refuses what is new.
    """
    now = system.deployment if before is None else before.deployment
    whole = _restricted(now.network, network, placement)
    check_network(whole, engine.cluster.spark)
    _refuse_copies(placement)
    _refuse_again(system, whole)
    hosts = sorted(set(placement.values()))
    schemas = derive_schemas(engine.sessions[hosts[0]], whole, now.messages)
    check_topics(whole, now.kafka)
    schedules = {**engine.schedules(whole, now.place, skip=now.schedules), **now.schedules}
    apart = now.apart | {name for name in placement if now.apart and whole.operators[name].stateful}
    real_time = prompt_operators(whole, engine.cluster.spark)
    _refuse_rows(whole, placement, now.real_time)
    fresh_parts = fragments(whole, placement, apart, real_time)
    parts = [*(() if before is None else before.fresh), *map(Unit.new, fresh_parts)]
    fresh = tuple(unit.reshaped(whole) for unit in parts)
    deployment = attrs.evolve(
        now,
        network=whole,
        placement={**now.placement, **placement},
        schemas=schemas,
        fitting=fitting(engine.sessions[hosts[0]], whole, now.messages),
        schedules=schedules,
        apart=apart,
        real_time=real_time,
        live=sheddable(whole, real_time) if now.live else now.live,
    )
    again = []
    for unit in [*system.units.values()]:
        shape = unit.reshaped(whole)
        if exits(whole, shape.fragment) != exits(system.deployment.network, unit.fragment):
            if unit.copies:
                raise InputError(f"it reads what {unit.name!r} has no log of, and that has copies", at="network")
            again.append(shape)
    units = {**system.units, **{unit.name: unit for unit in (*again, *fresh)}}
    deployment = attrs.evolve(deployment, units=tuple(unit.fragment for unit in units.values()))
    return Grown(deployment, fresh, tuple(again))


def attach(system: System, change: Grown, interval: Mapping[str, float]) -> None:
    """Stop what is given up, and what must write for others than before; let that go on, and start the new query.

    The new query takes what comes from now on of logs and schedules, and what Spark's own sources hold.
    """
    system.growing = True
    try:
        _attach(system, change, interval)
    finally:
        system.growing = False


def _attach(system: System, change: Grown, interval: Mapping[str, float]) -> None:
    ready = {unit.name: system.compile(unit, change.deployment) for unit in change.again}
    again: list[Unit] = []
    for unit in change.gone:
        if unit.name in system.runners:
            system.runners[unit.name].end(system.hosts[unit.host])
        take_over(system.deployment.place, unit.name, deliver=False)
    for unit in change.again:
        runner = system.runners[unit.name]
        runner.end(system.hosts[unit.host])
        again.append(go_on(ready[unit.name], unit, [Border.of(system.compiled[unit.name])]))
    # Writers go on meanwhile: where readers begin, and how many rows there are before that, is of one moment.
    noted = noted_of_logs(system.deployment.place) if _read_logs(system, change) else {}
    fresh = [attrs.evolve(unit, begins=_begins(system, change, unit, noted)) for unit in change.fresh]
    since = {**system.claim.since, **_since(system, change, fresh, noted)}

    def changed(before: Deployment) -> Deployment:
        after = change.deployment
        return attrs.evolve(
            before, network=after.network, schemas=after.schemas, schedules=after.schedules,
            apart=after.apart, real_time=after.real_time, live=after.live, since=since,
        )  # fmt: skip

    system.place([*again, *fresh], [unit.name for unit in change.gone], changed)
    for unit in again:
        system.deliver(ready[unit.name], unit)
        system.begin(unit.name, interval[unit.host])
    for unit in fresh:
        system.deliver(system.compile(unit), unit)
        system.begin(unit.name, interval[unit.host])


def _restricted(now: Network, whole: Network, placement: Mapping[str, str]) -> Network:
    """Return what runs and the operators placed, of a network that may have more."""
    for kind in ("sources", "operators", "sinks"):
        mine, theirs = getattr(now, kind), getattr(whole, kind)
        for name, part in mine.items():
            if name not in theirs:
                raise InputError("it runs, and the new network lacks it", at=f"{kind}.{name}")
            if theirs[name] != part:
                raise InputError("it runs, and the new network changes it", at=f"{kind}.{name}")
    operators = [o for name, o in whole.operators.items() if name in now.operators or name in placement]
    names = {operator.name for operator in operators}
    for operator in operators:
        for given in operator.inputs:
            if given not in names and given not in whole.sources:
                raise InputError(f"its input {given!r} neither runs nor is placed", at=f"operators.{operator.name}")
    read = {given for operator in operators for given in operator.inputs}
    sources = [s for name, s in whole.sources.items() if name in now.sources or name in read]
    sinks = [s for name, s in whole.sinks.items() if name in now.sinks or s.input in placement]
    return Network.of(whole.name, sources, operators, sinks, whole.file)


def _refuse_rows(network: Network, placement: Mapping[str, str], real_time: Collection[str]) -> None:
    """Refuse to read what an operator in real-time mode puts out: its rows are not kept for readers that come later."""
    for name in placement:
        given = next((given for given in network.operators[name].inputs if given in real_time), None)
        if given is not None and given not in placement:
            raise InputError(
                f"it reads {given!r}, which runs in real-time mode",
                at=f"operators.{name}",
                hint="let it read a topic to which that writes, or attach it where the mode is micro-batch",
            )


def _refuse_copies(placement: Mapping[str, str]) -> None:
    """Refuse to attach copies."""
    for name in placement:
        if "#" in name:
            hint = "place each operator once"
            raise InputError("a query is attached without copies", at=f"placement.{name}", hint=hint)


def _refuse_again(system: System, whole: Network) -> None:
    """Refuse names of what was given up: what that has left in the run's folder would be taken for the new query's."""
    for kind in ("operators", "sinks"):
        for name in getattr(whole, kind):
            if name in system.claim.given_up and name not in getattr(system.deployment.network, kind):
                hint = "give operators and sinks of the query other names"
                raise InputError("a query with this name failed here, and was given up", at=f"{kind}.{name}", hint=hint)


def exits(network: Network, part: Fragment) -> tuple[frozenset[str], tuple[tuple[str, tuple[str, ...]], ...]]:
    """Return what leaves a query: if it changes, so does the query's plan."""
    graph = Graph(network, part)
    return part.cuts, tuple((origin, tuple(graph.logs(origin))) for origin in graph.origins)


Noted = Mapping[str, tuple[int, int | None]]
"""By operator the rows that its log has had, and before which of its batches, as of `noted_of_logs`."""


def _read_logs(system: System, change: Grown) -> bool:
    """Whether a new unit reads what runs already."""
    mine = {name for unit in change.fresh for name in unit.fragment.operators}
    before = system.deployment.network.operators
    return any(s.reader in mine and s.writer in before for s in change.deployment.network.streams)


def _begins(system: System, change: Grown, unit: Unit, noted: Noted) -> dict[str, int]:
    """Return where a new unit begins in what is there already."""
    place, found = system.deployment.place, {}
    for origin in Graph(change.deployment.network, unit.fragment).outside:
        name = origin[1:]
        if name in system.deployment.network.operators:
            _, behind = noted.get(name, (0, 0))
            if behind is None:
                behind = log_of(place, system.deployment.topics(system.claim.run), name).length()
            found[name] = behind
        elif name in change.deployment.schedules:
            rates = json.loads(change.deployment.schedules[name]["rates"])
            now = time.time() - epoch_of(place)
            found[name] = Schedule.of(rates["values"], rates["period"]).count_by(max(0.0, now))
    return {name: number for name, number in found.items() if number}


def _since(system: System, change: Grown, fresh: Sequence[Unit], noted: Noted) -> dict[str, int]:
    """Return the rows that logs had before new units began to read them, by stream."""
    mine = {name for unit in fresh for name in unit.fragment.operators}
    return {
        stream.name: noted.get(stream.writer, (0, None))[0]
        for stream in change.deployment.network.streams
        if stream.reader in mine and stream.writer in system.deployment.network.operators
    }
