"""Dual vertices, compiled: lays a program out for the kernel, lists its vertices, and looks points up among them.

``python -m penstock.shedding.walk`` writes its bitcode anew.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Flags, Ints, Numbers
from penstock.native import Kernel
from penstock.shedding.program import Matrix, Program
from penstock.shedding.vertices_tables import LOOK_UP, RECORD, VALUES, WALK, WORTH

KERNEL = Kernel("penstock.shedding.vertices_kernel", "vertices", ("vertices_tables.py", "../native/views.py"))


@attrs.frozen(eq=False)
class Sparse:
    """A program in rows: both directions of ``G``, where sources enter, ``K`` with every limit 1."""

    start: Ints
    reader: Ints
    gain: Matrix
    wstart: Ints
    writer: Ints
    wgain: Matrix
    fed: Flags
    S: Matrix
    K: Matrix

    @classmethod
    def of(cls, program: Program) -> Sparse:
        """Lay a program out in rows."""
        start, reader, gain = _rows(program.G.T)
        wstart, writer, wgain = _rows(program.G)
        fed = np.asarray(program.S.any(axis=1), np.uint8)
        K = np.ascontiguousarray(program.K / program.limit[:, None])
        return cls(start, reader, gain, wstart, writer, wgain, fed, program.S, K)


def _rows(matrix: Matrix) -> tuple[Ints, Ints, Matrix]:
    rows, columns = np.nonzero(matrix)
    start = np.searchsorted(rows, np.arange(len(matrix) + 1)).astype(np.int64)
    return start, columns.astype(np.int64), np.ascontiguousarray(matrix[rows, columns])


class Listed(NamedTuple):
    """Vertices of a program with every limit 1, and whether these are all; as in `penstock.shedding.exact.Vertices`."""

    prices: Matrix
    beta: Matrix
    tights: Ints
    signs: NDArray[np.int8]
    complete: bool


class Walker:
    """A program as the kernel reads it.

    Parameters
    ----------
    program
        Without time-window joins.
    weight
        Array (arcs,): score of a tuple.
    """

    def __init__(self, program: Program, weight: Matrix) -> None:
        sparse, arcs, hosts = Sparse.of(program), program.arcs, len(program.limit)
        self._arcs, self._hosts, self._sources = arcs, hosts, len(program.sources)
        self._g, self._arrays = np.zeros(1, RECORD), dict[str, Numbers]()
        self._set(arcs=arcs, hosts=hosts, sources=self._sources, readers=len(sparse.reader), writers=len(sparse.writer))
        self._give(**{field.name: getattr(sparse, field.name) for field in attrs.fields(Sparse)}, weight=weight)
        self._give(
            const=np.zeros(arcs), grad=np.zeros((arcs, hosts)), sign=np.zeros(arcs, np.int8),
            live=np.zeros(arcs, np.uint8), A=np.zeros((hosts, hosts)), d=np.zeros(hosts),
            fresh=np.zeros(hosts, np.int64), at=np.zeros(hosts), column=np.zeros((arcs, hosts + 1)),
            offered=np.zeros((arcs, hosts + 1)), bind=np.zeros(hosts, np.uint8), unknown=np.zeros(arcs, np.int64),
        )  # fmt: skip

    def listed(self, most: int) -> Listed:
        """List the vertices, at most so many."""
        prices, tights = np.zeros((most, self._hosts)), np.zeros((most, self._hosts), np.int64)
        signs = np.zeros((most, self._arcs), np.int8)
        slots = np.zeros(1 << (4 * most - 1).bit_length(), np.uint64)
        self._give(prices=prices, tights=tights, signs=signs, slots=slots)
        self._set(most=most, rows=most, slotted=len(slots))
        self._do(WALK)
        count = int(self._g["count"][0])
        found = Listed(
            prices[:count].copy(), np.zeros((count, self._sources)), tights[:count].copy(), signs[:count].copy(),
            bool(self._g["complete"][0]),
        )  # fmt: skip
        self._give(prices=found.prices, beta=found.beta, alpha=np.zeros(count))
        self._set(rows=count)
        self._do(WORTH)
        return found

    def know(self, alpha: Matrix, beta: Matrix, tights: Ints, signs: NDArray[np.int8]) -> None:
        """Take vertices among which points are to be looked up."""
        self._give(alpha=alpha, beta=beta, tights=tights, signs=signs)
        self._set(rows=len(alpha))

    def values(self, points: Matrix) -> Matrix:
        """Return the optimum at each point, array (points, sources) to array (points,)."""
        out = np.zeros(len(points))
        self._give(points=points, out=out)
        self._set(asked=len(points))
        self._do(VALUES)
        return out

    def look_up(self, points: Matrix, kept: Matrix) -> Ints:
        """Fill the optimal kept rates at each point, array (points, arcs); return the rows of the vertices, or -1."""
        found = np.zeros(len(points), np.int64)
        self._give(points=points, out=kept, found=found)
        self._set(asked=len(points))
        self._do(LOOK_UP)
        return found

    def _set(self, **numbers: int) -> None:
        for name, number in numbers.items():
            self._g[name] = number

    def _give(self, **arrays: Numbers) -> None:
        """Take arrays; they live as long as they may be read."""
        for name, array in arrays.items():
            laid = np.ascontiguousarray(array, DTYPES.get(name, np.float64))
            assert name not in FILLED or laid is array  # noqa: S101 - what is filled is the caller's
            self._arrays[name] = laid
            self._g[name] = laid.ctypes.data

    def _do(self, task: int) -> None:
        self._set(task=task)
        KERNEL.load()(self._g)


DTYPES = {
    **dict.fromkeys(("start", "reader", "wstart", "writer", "tights", "fresh", "unknown", "found"), np.int64),
    **dict.fromkeys(("sign", "signs"), np.int8),
    **dict.fromkeys(("fed", "live", "bind"), np.uint8),
    "slots": np.uint64,
}
"""Of arrays that do not hold real numbers."""

FILLED = ("out", "found")


if __name__ == "__main__":
    KERNEL.write()
