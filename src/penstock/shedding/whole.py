"""Programs in which some streams drop nothing, as a drop would not leave out whole windows, or drop everything."""

from __future__ import annotations

from collections.abc import Collection

import attrs
import numpy as np

from penstock.shedding.program import Matrix, Program


def without_drops(program: Program, streams: Collection[str]) -> tuple[Program, Matrix]:
    """Return a program in which some streams let everything through, and what cannot be dropped at all.

    The variable of such a stream equals what it is offered, so it is put into the rows of everybody behind it; its arc
    stays where it was, and costs and brings nothing any more.

    Parameters
    ----------
    streams
        Names; none may derive from a join with a time window, whose output is no linear function.

    Returns
    -------
    Program, array (resources, sources)
        The second: what a tuple per second of each source takes of each resource before anything can be dropped; to be
        taken from the limits.
    """
    fixed = sorted({int(program.arc[program.streams.index(name)]) for name in streams}, reverse=True)
    G, S, K, weight = (np.array(array) for array in (program.G, program.S, program.K, program.weight))
    floor = np.zeros((len(program.limit), len(program.sources)))
    for arc in fixed:
        behind = G[:, arc].copy()
        G[:, arc] = 0.0
        G += np.outer(behind, G[arc])
        S += np.outer(behind, S[arc])
        floor += np.outer(K[:, arc], S[arc])
        K += np.outer(K[:, arc], G[arc])
        weight += weight[arc] * G[arc]
        K[:, arc] = weight[arc] = 0.0
    for array in (G, S, K, weight):
        array.setflags(write=False)
    return attrs.evolve(program, G=G, S=S, K=K, weight=weight, whole=frozenset(streams)), floor


def worthwhile(program: Program) -> Program:
    """Return a program in which nothing arrives on streams that cost something and are worth nothing.

    Whoever has to drop drops these first, and loses nothing. The same program where there are none.
    """
    worth, cost = np.array(program.weight), (program.K / program.limit[:, None]).sum(axis=0)
    made = {arc: inputs for arc, *inputs, _ in program.products}
    for arc in range(program.arcs - 1, -1, -1):
        worth[arc] += program.G[:, arc] @ worth
        cost[arc] += program.G[:, arc] @ cost
        for given in made.get(arc, ()):
            worth[given] += worth[arc]
            cost[given] += cost[arc]
    idle = (worth <= 0) & (cost > 0)
    if not idle.any():
        return program
    G, S = (np.where(idle[:, None], 0.0, array) for array in (program.G, program.S))
    for array in (G, S):
        array.setflags(write=False)
    return attrs.evolve(program, G=G, S=S, products=tuple(row for row in program.products if not idle[row[0]]))
