"""Giving up a query that was attached and cannot run: its units end, and those that wrote for them go on without."""

from __future__ import annotations

from collections.abc import Collection

import attrs

from penstock.network import Network
from penstock.spark.compile import sheddable
from penstock.spark.run.attach import Grown, exits
from penstock.spark.run.system import System
from penstock.spark.run.units import Unit


def shrunk(system: System, first: Collection[str], failed: Unit) -> Grown | None:
    """Return what runs without a unit that was attached, and without what is of no use then.

    That is what reads it, and what was attached only for it.

    Parameters
    ----------
    first
        The operators with which the run began: of these none may go.

    Returns
    -------
    Grown
        None if an operator of these would have to go too, or one with copies.
    """
    now, units = system.deployment, [*system.units.values()]
    gone = _useless(now.network, first, units, failed)
    if any(unit.copies or not set(first).isdisjoint(unit.fragment.operators) for unit in gone):
        return None
    network = _without(now.network, {name for unit in gone for name in unit.fragment.operators})
    rest = [unit for unit in units if unit not in gone]
    shaped = [unit.reshaped(network) for unit in rest]
    again = tuple(
        shape
        for unit, shape in zip(rest, shaped, strict=True)
        if exits(network, shape.fragment) != exits(now.network, unit.fragment)
    )
    if any(unit.copies for unit in again):
        return None
    real_time = now.real_time.intersection(network.operators)
    deployment = attrs.evolve(
        now,
        network=network,
        units=tuple(unit.fragment for unit in shaped),
        placement={name: host for unit in rest for name, host in unit.placement.items()},
        schedules={name: options for name, options in now.schedules.items() if name in network.sources},
        apart=now.apart.intersection(network.operators),
        real_time=real_time,
        live=sheddable(network, real_time) if now.live else now.live,
    )
    return Grown(deployment, (), again, tuple(gone))


def _useless(network: Network, first: Collection[str], units: Collection[Unit], failed: Unit) -> list[Unit]:
    """Return a unit, those that read it, and those that were attached with an operator that is read by them alone."""
    gone = [failed]
    while True:
        names = {name for unit in gone for name in unit.fragment.operators}

        def useless(unit: Unit, names: set[str] = names) -> bool:
            mine = unit.fragment.operators
            reads = any(stream.writer in names for name in mine for stream in network.inputs(name))
            readers = [{stream.reader for stream in network.outputs(name)} for name in mine if name not in first]
            return reads or any(each and each <= names for each in readers)

        more = [unit for unit in units if unit not in gone and useless(unit)]
        if not more:
            return gone
        gone += more


def _without(network: Network, gone: Collection[str]) -> Network:
    """Return a network without some operators, their sinks, and the sources that only they read."""
    operators = [operator for name, operator in network.operators.items() if name not in gone]
    sinks = [sink for sink in network.sinks.values() if sink.input not in gone]
    read = {given for operator in operators for given in operator.inputs} | {sink.input for sink in sinks}
    sources = [source for name, source in network.sources.items() if name in read]
    return Network.of(network.name, sources, operators, sinks, network.file)
