"""A placed network laid out for a page: hosts are lanes, columns say how far operators are from a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import attrs

from penstock.network import Network
from penstock.pictures.layers import spread

SWEEPS = 8
"""How often the order within the columns is improved; more shows no difference."""


@attrs.frozen(eq=False)
class Lanes:
    """Where things stand, in columns and rows.

    Attributes
    ----------
    places
        Column and row of the middle of each source, operator and sink.
    lanes
        By host: its first row, and how many rows it has.
    columns, rows
        How many there are.
    """

    places: Mapping[str, tuple[float, float]]
    lanes: Mapping[str, tuple[float, float]]
    columns: int
    rows: float


def lay_out(network: Network, placement: Mapping[str, str], hosts: Sequence[str]) -> Lanes:
    """Lay out a placed network.

    Sources stand in the first column and sinks in the last, operators between them in the lane of their host. A lane
    has as many rows as its fullest column. Within a column of a lane operators are ordered by the mean row of their
    neighbours (barycentres), in a few sweeps from the left and from the right, and stand as near to it as room allows.

    Parameters
    ----------
    hosts
        In the order of their lanes; those that run nothing get an empty lane.
    """
    near = _neighbours(network)
    column = _columns(network)
    end = max(column.values(), default=0)
    cells: dict[tuple[str, int], list[str]] = {}
    for name in network.operators:
        cells.setdefault((placement.get(name, ""), column[name]), []).append(name)
    order = [host for host in ("", *hosts) if host or any(lane == "" for lane, _ in cells)]
    tall = {host: max([1, *(len(names) for (lane, _), names in cells.items() if lane == host)]) for host in order}
    lanes, top = {}, 0.0
    for host in order:
        lanes[host] = (top, float(tall[host]))
        top += tall[host] + 0.6
    rows = max(top - 0.6, float(len(network.sources)), float(len(network.sinks)))
    lanes = {host: (first + (rows - top + 0.6) / 2, tall) for host, (first, tall) in lanes.items()}
    row = _first_rows(cells, lanes)
    ends = [sorted(network.sources), sorted(network.sinks)]
    for names in ends:
        row.update({name: (k + 0.5) * rows / len(names) for k, name in enumerate(names)})
    for sweep in range(SWEEPS):
        for key in sorted(cells, key=lambda cell: cell[1], reverse=sweep % 2 == 1):
            _settle(cells[key], near, row, *lanes[key[0]])
        for names in ends:
            _settle(names, near, row, 0.0, rows)
    places = {name: (float(column[name]), row[name]) for name in row}
    return Lanes(places, lanes, end + 1, rows)


def _columns(network: Network) -> dict[str, int]:
    column = dict.fromkeys(network.sources, 0)
    for name, operator in network.operators.items():
        column[name] = 1 + max((column[given] for given in operator.inputs), default=0)
    end = 1 + max(column.values(), default=0)
    return {**column, **dict.fromkeys(network.sinks, end)}


def _neighbours(network: Network) -> dict[str, list[str]]:
    near: dict[str, list[str]] = {name: [] for name in (*network.sources, *network.operators, *network.sinks)}
    for stream in network.streams:
        near[stream.writer].append(stream.reader)
        near[stream.reader].append(stream.writer)
    return near


def _first_rows(
    cells: Mapping[tuple[str, int], Sequence[str]], lanes: Mapping[str, tuple[float, float]]
) -> dict[str, float]:
    row = {}
    for (host, _), names in cells.items():
        top, tall = lanes[host]
        for k, name in enumerate(names):
            row[name] = top + (tall - len(names)) / 2 + k + 0.5
    return row


def _settle(names: list[str], near: Mapping[str, list[str]], row: dict[str, float], top: float, tall: float) -> None:
    """Order a column of a lane by its neighbours, and set its rows: near to them, apart, and within the lane."""
    wish = {name: sum(row[other] for other in near[name]) / max(1, len(near[name])) or row[name] for name in names}
    names.sort(key=lambda name: (wish[name], name))
    found: dict[str, float] = {}
    spread(names, [wish[name] for name in names], dict.fromkeys(names, 1.0), found)
    low, high = top + 0.5, top + tall - 0.5
    for k, name in enumerate(names):
        row[name] = min(max(found[name], low + k), high - (len(names) - 1 - k))
    for before, after in pairwise(names):
        row[after] = max(row[after], row[before] + 1)
