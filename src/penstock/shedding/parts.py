"""Parts of a network that share no host, link or stream: each is planned by itself (Tatbul et al. section 8.2.4)."""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Ints
from penstock.network import Network
from penstock.shedding.program import Program


@attrs.frozen(eq=False)
class Part:
    """A part of a program.

    Attributes
    ----------
    program
        Of the part alone.
    sources, arcs
        Arrays: the numbers of its sources and arcs in the whole.
    """

    program: Program
    sources: Ints
    arcs: Ints


def split(program: Program) -> tuple[Part, ...]:
    """Return the parts of a program, none where it is one; what belongs to none never gets a tuple."""
    # SciPy takes a quarter of a second, and most of those who import planners split nothing.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    network = program.network
    names = [*network.sources, *network.operators, *network.sinks]
    first, last = program.arcs, program.arcs + len(names)
    node = {name: first + number for number, name in enumerate(names)}
    host = {name: last + number for number, name in enumerate(program.resources)}
    edges = [(arc, node[end]) for name, arc in _streams(program) for end in name.split("->")]
    edges += [(node[name], host[there]) for name in network.operators for there in program.places[name]]
    edges += [(int(a), int(b)) for a, b in np.argwhere(program.G)]
    edges += [(int(arc), node[program.sources[source]]) for arc, source in np.argwhere(program.S)]
    edges += [(int(arc), last + int(resource)) for resource, arc in np.argwhere(program.K)]
    ends, count = np.array(edges, np.int64), last + len(program.resources)
    _, label = connected_components(coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(count, count)))
    read = [program.sources[source] for source in np.flatnonzero(program.S.any(axis=0))]
    numbers = dict.fromkeys(int(label[node[name]]) for name in read)
    if len(numbers) < 2:
        return ()
    return tuple(_part(program, label == number, node) for number in numbers)


def _streams(program: Program) -> list[tuple[str, int]]:
    return [(name, int(arc)) for name, arc in zip(program.streams, program.arc, strict=True)]


def _part(program: Program, mine: NDArray[np.bool_], node: dict[str, int]) -> Part:
    """Return the part that has these arcs, names and resources."""
    network, count = program.network, program.arcs
    arcs, resources = np.flatnonzero(mine[:count]), np.flatnonzero(mine[count + len(node) :])
    sources = np.array([k for k, name in enumerate(program.sources) if mine[node[name]]], np.int64)
    hosts = resources[resources < program.hosts]
    streams = {name: arc for name, arc in _streams(program) if mine[arc]}
    within = Network.of(
        network.name,
        [row for name, row in network.sources.items() if mine[node[name]]],
        [row for name, row in network.operators.items() if mine[node[name]]],
        [row for name, row in network.sinks.items() if mine[node[name]]],
        network.file,
    )
    at = np.full(count, -1)
    at[arcs] = np.arange(len(arcs))
    arrays = {
        "G": program.G[np.ix_(arcs, arcs)],
        "S": program.S[np.ix_(arcs, sources)],
        "K": program.K[np.ix_(resources, arcs)],
        "limit": program.limit[resources],
        "weight": program.weight[arcs],
        "arc": at[[*streams.values()]],
        "capacity": program.capacity[hosts],
        "left": program.left[hosts],
    }
    for array in arrays.values():
        array.setflags(write=False)
    return Part(
        attrs.evolve(
            program,
            network=within,
            sources=tuple(within.sources),
            streams=tuple(streams),
            resources=tuple(program.resources[k] for k in resources),
            hosts=len(hosts),
            products=tuple((int(at[a]), int(at[b]), int(at[c]), f) for a, b, c, f in program.products if mine[a]),
            places={name: program.places[name] for name in within.operators},
            whole=program.whole & streams.keys(),
            **arrays,
        ),
        sources,
        arcs,
    )
