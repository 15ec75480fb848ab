"""Where the nodes of a layered graph stand in a picture, and how its edges run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import attrs
import numpy as np


@attrs.frozen
class Layout:
    """Where the nodes of a layered graph stand and how its edges run.

    Attributes
    ----------
    places
        Layer and row of each node; rows are real numbers and grow downwards.
    paths
        For each edge the points it passes, from the writer to the reader, one a layer.
    """

    places: Mapping[str, tuple[float, float]]
    paths: Mapping[tuple[str, str], Sequence[tuple[float, float]]]


def layered(inputs: Mapping[str, Sequence[str]], last: Sequence[str] = ()) -> Layout:
    """Lay out an acyclic graph in layers, with few crossings (Sugiyama's method with barycentres).

    Parameters
    ----------
    inputs
        The nodes that each node reads; sources read none.
    last
        Nodes that stand in the last layer whatever they read.
    """
    layer: dict[str, int] = {}

    def depth(node: str) -> int:
        if node not in layer:
            layer[node] = 1 + max((depth(name) for name in inputs[node]), default=-1)
        return layer[node]

    for node in inputs:
        depth(node)
    end = max(layer.values(), default=0)
    layer.update(dict.fromkeys(last, end))
    # an edge over several layers gets a place to pass in each, so that it does not cross boxes;
    # edges of one writer share them, as the stream is one
    columns: list[list[str]] = [[] for _ in range(end + 1)]
    for node in inputs:
        columns[layer[node]].append(node)
    readers: dict[str, list[str]] = {}
    writers: dict[str, list[str]] = {}
    paths: dict[tuple[str, str], list[str]] = {}
    for node, names in inputs.items():
        for name in names:
            path = [name]
            for column in range(layer[name] + 1, layer[node]):
                bend = f"{name}\0{column}"
                if bend not in columns[column]:
                    columns[column].append(bend)
                path.append(bend)
            path.append(node)
            paths[name, node] = path
            for start, stop in pairwise(path):
                if stop not in readers.setdefault(start, []):
                    readers[start].append(stop)
                    writers.setdefault(stop, []).append(start)

    row = {name: float(k) for column in columns for k, name in enumerate(column)}
    gap = {name: 0.55 if "\0" in name else 1.0 for name in row}
    for sweep in range(24):
        forward = sweep % 2 == 0
        near = writers if forward else readers
        for names in columns[1:] if forward else columns[-2::-1]:
            wish = {name: np.mean([row[other] for other in near.get(name, [name])]) for name in names}
            names.sort(key=lambda name: (wish[name], row[name]))
            spread(names, [float(wish[name]) for name in names], gap, row)
    places = {name: (float(layer[name]), row[name]) for name in inputs}
    points = {
        edge: [(float(layer[path[0]] + k), row[name]) for k, name in enumerate(path)] for edge, path in paths.items()
    }
    return Layout(places, points)


def spread(column: Sequence[str], wish: Sequence[float], gap: Mapping[str, float], row: dict[str, float]) -> None:
    """Set the rows of a column: as near as possible to the wishes, in order, and apart (pool adjacent violators)."""
    offset = np.concatenate([[0.0], np.cumsum([(gap[a] + gap[b]) / 2 for a, b in pairwise(column)])])
    pools: list[list[float]] = []
    for value in np.asarray(wish) - offset[: len(wish)]:
        pools.append([float(value), 1.0])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            mean, size = pools.pop()
            pools[-1] = [(pools[-1][0] * pools[-1][1] + mean * size) / (pools[-1][1] + size), pools[-1][1] + size]
    flat = [mean for mean, size in pools for _ in range(int(size))]
    row.update({name: mean + shift for name, mean, shift in zip(column, flat, offset, strict=False)})
