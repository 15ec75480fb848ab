"""The rows of what runs: units, what they and the sinks read, sources, and where each of them writes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from penstock.arrays import Records
from penstock.cluster import base_name
from penstock.network import Operator
from penstock.simulation import state as layout
from penstock.simulation.numbers import Numbers, key

_KINDS = {"join": layout.JOIN, "aggregate": layout.AGGREGATE}
_SERVICES = {
    "constant": layout.CONSTANT,
    "exponential": layout.EXPONENTIAL,
    "gamma": layout.GAMMA,
    "two-point": layout.TWO_POINT,
}
_RING = 16
"""Places for the tuples of a time window at first."""

Ports = dict[tuple[str, int], int]
"""The number of each input, by unit or sink and port."""


class Inputs(NamedTuple):
    """What units and sinks read: rows, their numbers, and how many places their count windows need together."""

    table: Records
    ports: Ports
    rings: int


def units_of(numbers: Numbers) -> Records:
    """Return a row for each unit; where its inputs and outputs begin is filled in with these."""
    table = layout.table(len(numbers.units), layout.UNIT)
    pane = 0
    for row, name in zip(table, numbers.units, strict=True):
        operator = numbers.network.operators[base_name(name)]
        # Copies must let the same tuples through, whatever order each of them sees.
        copied = len(numbers.copies[operator.name]) > 1
        row["key"] = key("operator", operator.name)
        row["draw"] = key("draw", operator.name if copied else name, numbers.seed)
        row["chance"] = copied or operator.emit == "chance"
        row["kind"] = _KINDS.get(operator.kind, layout.STATELESS)
        row["host"] = numbers.hosts[numbers.placed[name]]
        row["head"] = row["tail"] = -1
        row["service"], row["shape"], row["share"] = _service(operator)
        if row["kind"] == layout.AGGREGATE:
            pane += _window(row, operator, pane)
    return table


def _window(row: Records, operator: Operator, pane: int) -> int:
    """Give an aggregate its panes, from number ``pane`` on; return how many it needs."""
    if operator.window is None:
        row["kind"] = layout.STATELESS
        return 0
    row["window"], row["slide"] = operator.window, operator.slide or operator.window
    slides = operator.window / (operator.slide or operator.window)
    row["whole"] = round(slides) if abs(slides - round(slides)) <= layout.EPSILON else 0
    row["panes"] = math.ceil(slides) + 2
    row["pane"] = pane
    return int(row["panes"])


def _service(operator: Operator) -> tuple[int, float, float]:
    name, *values = operator.service.split(":")
    shape, share, *_ = [*map(float, values), 0.0, 0.0]
    return _SERVICES[name], shape, share


def inputs_of(numbers: Numbers, units: Records) -> Inputs:
    """Return a row for each input of a unit, and behind them one for each sink."""
    network = numbers.network
    streams = network.streams
    ends = [
        (unit, -1, name, port, numbers.streams[stream.name])
        for unit, name in enumerate(numbers.units)
        for port, stream in enumerate(network.inputs(base_name(name)))
    ]
    ends += [
        (-1, number, sink.name, 0, numbers.streams[f"{sink.input}->{sink.name}"])
        for number, sink in enumerate(network.sinks.values())
    ]
    table = layout.table(len(ends), layout.INPUT)
    ports: Ports = {}
    rings = 0
    for index, (row, (unit, sink, name, port, stream)) in enumerate(zip(table, ends, strict=True)):
        ports[name, port] = index
        row["unit"], row["sink"], row["stream"], row["port"] = unit, sink, stream, port
        row["key"] = key("input", name, port)
        row["copies"] = len(numbers.copies.get(streams[stream].writer, "1"))
        row["last"], row["within"] = -np.inf, -1.0
        if unit >= 0:
            row["ring"] = rings
            rings += _served(row, network.operators[base_name(name)], port)
            if port == 0:
                units[unit]["first"] = index
    return Inputs(table, ports, rings)


def _served(row: Records, operator: Operator, port: int) -> int:
    """Say what a tuple of an operator's input costs and yields; return how many places its window needs."""
    assert operator.cost is not None  # noqa: S101 - checked before
    row["cost"] = operator.cost[port]
    row["selectivity"] = 1.0 if operator.selectivity is None else operator.selectivity[port]
    if operator.kind != "join":
        return 0
    if operator.counts is not None:
        row["capacity"] = operator.counts[port]
    else:
        # Times of equal distance differ by the last digits of rounding.
        row["capacity"], row["within"] = _RING, (operator.within or 0.0) + layout.EPSILON
    return int(row["capacity"])


def sources_of(numbers: Numbers) -> Records:
    """Return a row for each source; where its outputs begin is filled in with these."""
    table = layout.table(len(numbers.network.sources), layout.SOURCE)
    for row, source in zip(table, numbers.network.sources.values(), strict=True):
        row["key"], row["draw"] = key("source", source.name), key("arrivals", source.name, numbers.seed)
        row["host"] = -1 if source.host is None else numbers.hosts[source.host]
        row["poisson"], row["number"] = source.arrivals == "poisson", -1
    return table


def outputs_of(numbers: Numbers, ports: Ports, sources: Records, units: Records) -> Records:
    """Return a row for each input that a source or unit writes to; sources first, then units."""
    network, copies = numbers.network, numbers.copies
    found: list[tuple[int, bool, float, float, np.uint64]] = []
    writers = [*zip(network.sources, sources, strict=True)]
    writers += [(base_name(name), row) for name, row in zip(numbers.units, units, strict=True)]
    for writer, row in writers:
        row["outputs"], low = len(found), 0.0
        readers = network.outputs(writer)
        routed = writer in network.operators and network.operators[writer].route is not None
        draw = key("route", writer, numbers.seed)
        for position, stream in enumerate(readers):
            high = 1.0 if position == len(readers) - 1 else low + stream.share
            ends = copies.get(stream.reader, [stream.reader])
            found += [(ports[end, stream.port], routed, low, high, draw) for end in ends]
            low = high
        row["readers"] = len(found) - row["outputs"]
    table = layout.table(len(found), layout.OUTPUT)
    for index, (port, routed, low, high, draw) in enumerate(found):
        table[index] = (port, -1, routed, low, high, draw, 1.0, -1)
    return table
