"""Splitting a unit: some of its operators go on elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from penstock.errors import InputError
from penstock.latency.fragments import divisible, fragment
from penstock.network import Network
from penstock.spark.run.reshape import Border, go_on
from penstock.spark.run.rows import arrived_on, rows_of_logs
from penstock.spark.run.system import System
from penstock.spark.run.units import Unit


def parts_of(network: Network, unit: Unit, hosts: Mapping[str, str]) -> tuple[Unit, ...]:
    """Return the units into which one is split so that each of its operators is on its host.

    Operators that keep state stay together, in the query that has the unit's name.

    Raises
    ------
    InputError
        If state would have to move out of its checkpoint.
    """
    names = unit.fragment.operators
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(hosts[name], []).append(name)
    stateful = [name for name in names if network.operators[name].stateful]
    first = groups[hosts[names[0]]]
    if stateful and not set(stateful) <= set(first):
        left = next(name for name in stateful if name not in first)
        raise InputError(
            f"it keeps state and shares a query with {', '.join(n for n in names if n != left)}",
            at=f"placement.{left}",
            hint="move them together, or let it run apart",
        )
    return tuple(Unit.new(fragment(network, host, tuple(inside))) for host, inside in groups.items())


def split(system: System, unit: Unit, parts: tuple[Unit, ...], intervals: Mapping[str, float]) -> None:
    """Stop a unit at the end of its batch, and let its parts go on from where it was; others go on meanwhile.

    Raises
    ------
    InputError
        If another query follows what the unit drops, and a part would decide it.
    """
    refuse_followed(system, unit, parts)
    known = tuple(other.fragment for name, other in [*system.units.items()] if name != unit.name)
    placement = {**system.deployment.placement, **{op: p.host for p in parts for op in p.fragment.operators}}
    after = attrs.evolve(
        system.deployment, placement=placement, units=(*known, *(part.fragment for part in parts))
    )  # fmt: skip
    ready = {part.name: system.compile(part, after) for part in parts}
    old = system.compiled[unit.name]
    system.runners[unit.name].end(system.hosts[unit.host])
    system.growing = True
    try:
        border = Border.of(old)
        went = [
            go_on(ready[p.name], attrs.evolve(p, bases=unit.bases if p.name == unit.name else {}), [border])
            for p in parts
        ]
        since = _since(system, unit, parts)
        system.place(went, change=lambda before: attrs.evolve(before, since={**before.since, **since}))
        for part in went:
            system.deliver(ready[part.name], part)
    finally:
        system.growing = False
    for part in went:
        system.begin(part.name, intervals[part.host])


def refuse_followed(system: System, unit: Unit, parts: Iterable[Unit]) -> None:
    """Refuse to split where another query looks up by the unit's name of which windows a part would decide."""
    kept = {name for part in parts if part.name == unit.name for name in part.fragment.operators}
    for operator, (query, stream) in _followed(system, unit).items():
        if operator not in kept:
            raise InputError(
                f"{query!r} follows which windows are dropped on {stream!r}, which would be decided elsewhere",
                at="placement",
                hint="move all operators of the query together",
            )


def parts_apart(system: System, unit: Unit) -> tuple[tuple[str, ...], ...]:
    """Return the parts of a unit that read nothing of each other and can go on as units of their own."""
    network, names = system.deployment.network, unit.fragment.operators
    return divisible(network, names, [names[0], *_followed(system, unit)])


def _followed(system: System, unit: Unit) -> dict[str, tuple[str, str]]:
    """Return the operators of a unit that decide of windows for others: a query that follows, and the stream."""
    found = {}
    for query in system.queries:
        for stream in () if query.spec.knobs is None else query.spec.knobs.others.get(unit.name, ()):
            found[stream.partition("->")[2]] = (query.name, stream)
    return found


def _since(system: System, unit: Unit, parts: tuple[Unit, ...]) -> dict[str, int]:
    """Return, by stream that passes through a log from now on, the rows of the log less those that came before."""
    home = {name: part.name for part in parts for name in part.fragment.operators}
    network, place = system.deployment.network, system.deployment.place
    inside = [
        stream.name
        for stream in network.streams
        if stream.writer in home
        and stream.reader in home
        and home[stream.writer] != home[stream.reader]
        and stream.name not in unit.fragment.cuts
    ]
    if not inside:
        return {}
    rows, arrived = rows_of_logs(place), arrived_on(place, inside)
    return {name: rows.get(name.partition("->")[0], 0) - arrived[name] for name in inside}
