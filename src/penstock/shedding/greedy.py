"""Greedy local plans of hosts that read from each other (Tatbul et al. sections 6.2.2 and 6.3), made at one place.

What a host earns from what its parent sends it is a *curve*: concave and piecewise linear in the rate, if it reads one
stream only. To the parent it is an arc like one to a sink, whose worth per tuple falls with the rate. So the greedy
order of section 6.2.2 goes on: again and again a host thins the arc that earns least per load that it saves, until
everything fits. With one load constraint and worths that only fall with the rate that is optimal: as the price of load
rises, no arc's best rate rises.

Beyond its curve's last step a child drops what it gets, which is the paper's rule that a split sends on the greatest of
what its branches need.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError
from penstock.native.jit import kernel
from penstock.shedding.hosts import HostPart, host_parts
from penstock.shedding.program import Matrix, Program

FULL = 1 + 1e-12
SAME = 1e-12
"""Relative difference of rates that is rounding."""
BLOCK = 50_000


@attrs.frozen(eq=False)
class Curve:
    """What a rate earns: concave, piecewise linear, from 0.

    Attributes
    ----------
    rates
        Array (steps,): where each step ends, rising (tuples/s); the last may be inf.
    worth
        Array (steps,): score per tuple within each step, falling.
    """

    rates: Matrix
    worth: Matrix


@attrs.frozen(eq=False)
class Branches:
    """A host whose arcs end in curves.

    Attributes
    ----------
    part
        The host's share of the network.
    ends, worth
        Arrays (arcs, steps): the curve of each arc; worth is 0 beyond it, and for arcs that lead to operators.
    """

    part: HostPart
    ends: Matrix
    worth: Matrix

    @classmethod
    def of(cls, part: HostPart, curves: Mapping[str, Curve]) -> Branches:
        """Give each arc to a sink its weight, and each to a child the child's curve, by the name of its input."""
        own = [
            curves.get(name, Curve(np.array([np.inf]), np.array([weight])))
            for name, weight in zip(part.streams, part.weight.tolist(), strict=True)
        ]
        steps = max((len(curve.rates) for curve in own), default=0) + 1
        ends, worth = np.full((len(own), steps), np.inf), np.zeros((len(own), steps))
        for arc, curve in enumerate(own):
            ends[arc, : len(curve.rates)], worth[arc, : len(curve.worth)] = curve.rates, curve.worth
        return cls(part, ends, worth)

    def step(self, y: Matrix) -> tuple[Matrix, Matrix]:
        """Return the worth of each arc's last tuple, and the rate down to which it stays so, arrays (arcs,)."""
        arcs = np.arange(len(y))
        at = (self.ends < (y / (1 + SAME))[:, None]).sum(axis=1)
        return self.worth[arcs, at], np.where(at > 0, self.ends[arcs, at - 1], 0.0)

    def score(self, y: Matrix) -> float:
        """Return what kept rates earn."""
        done, total = np.zeros(len(y)), 0.0
        for end, worth in zip(self.ends.T, self.worth.T, strict=True):
            reached = np.minimum(y, end)
            total += float(worth @ (reached - done))
            done = reached
        return total


def thinned(host: Branches, rates: Matrix) -> tuple[Matrix, Matrix]:
    """Return a host's best kept rates, array (arcs,), and what one more tuple of each input earns, array (inputs,).

    Parameters
    ----------
    rates
        Array (inputs,): what arrives (tuples/s).
    """
    part, y = host.part, host.part.flow(rates)
    slack, price = np.zeros(len(y), bool), 0.0
    while True:
        worth, start = host.step(y)
        load = part.cost.copy()
        for arc in range(len(y) - 1, -1, -1):
            tight = part.G[:, arc] * ~slack
            worth[arc] += tight @ worth
            load[arc] += tight @ load
        used = float(part.cost @ y)
        if used <= FULL:
            break
        ratio = np.divide(worth, load, where=(y > 0) & (load > 0), out=np.full(len(y), np.inf))
        arc = int(np.argmin(ratio))
        price = float(ratio[arc])
        gain = np.zeros(len(y))
        gain[arc] = 1.0
        for k in range(arc + 1, len(y)):
            gain[k] = 0.0 if slack[k] else part.G[k] @ gain
        falls, offered = part.G @ gain, part.G @ y
        by = [(used - 1) / load[arc], y[arc]]
        by += ((y - start)[gain > 0] / gain[gain > 0]).tolist()
        caught = slack & (y > 0) & (falls > 0)
        by += ((offered - y)[caught] / falls[caught]).tolist()
        # At least a little, so that rounding cannot make it stand still.
        y[arc] = max(0.0, y[arc] - max(min(by), SAME / 10 * y[arc]))
        slack[arc] = True
        for k in np.flatnonzero(falls).tolist():
            offered_now = float(part.G[k] @ y)
            slack[k] &= y[k] < offered_now * (1 - SAME) or y[k] == 0
            y[k] = min(y[k], offered_now) if slack[k] else offered_now
    return y, np.maximum(0.0, part.S.T @ ((worth - price * load) * ~slack))


def curve_of(host: Branches, most: float) -> Curve:
    """Return what a host with one input earns from it, up to a rate: steps between points where tangents meet."""

    def value(rate: float) -> tuple[float, float, float]:
        y, slope = thinned(host, np.array([rate]))
        return rate, host.score(y), float(slope[0])

    def between(a: tuple[float, float, float], b: tuple[float, float, float]) -> list[tuple[float, float, float]]:
        apart = a[2] - b[2]
        if apart <= SAME * max(a[2], SAME):
            return []
        meet = (b[1] - a[1] + a[2] * a[0] - b[2] * b[0]) / apart
        if not a[0] * (1 + 1e-9) + 1e-9 * most < meet < b[0] * (1 - 1e-9):
            return []
        middle = value(meet)
        if middle[1] >= (a[1] + a[2] * (meet - a[0])) * (1 - 1e-11):
            return [middle]
        return [*between(a, middle), middle, *between(middle, b)]

    first, last = value(0.0), value(most)
    corners = np.array([first, *between(first, last), last])
    rates, score = corners[:, 0], corners[:, 1]
    worth = np.maximum(0.0, np.diff(score) / np.diff(rates))
    bends = np.append(worth[:-1] - worth[1:] > 1e-9 * worth[0], True)
    return Curve(rates[1:][bends], worth[bends])


class Greedy:
    """Greedy plans of a whole network at any rates.

    Parameters
    ----------
    upto
        Array (sources,): greatest rates (tuples/s).
    parts
        The hosts' shares of the network, where they are known.

    Attributes
    ----------
    hosts
        With the curves of their children, parents before children.

    Raises
    ------
    InputError
        If the greedy order is not optimal: a host that others read from has a merge, or a host reads from another and
        has several inputs, or hosts form no trees.
    """

    def __init__(self, program: Program, upto: Matrix, parts: Mapping[str, HostPart] | None = None) -> None:
        self.program = program
        parts = host_parts(program) if parts is None else parts
        for part in parts.values():
            merges = bool(((part.G > 0).sum(axis=1) > 1).any())
            if (part.parent is not None and len(part.inputs) > 1) or (part.children and merges):
                raise InputError(f"no greedy order is known for {part.host}: it has several inputs or a merge")
        flow = program.flow(upto)
        curves: dict[str, Curve] = {}
        hosts: dict[str, Branches] = {}
        for host in reversed(list(parts)):
            part = parts[host]
            hosts[host] = Branches.of(part, curves)
            if part.parent is not None and part.inputs:
                own = part.S[:, 0] > 0
                arrives = float((flow[part.arcs[own]] / part.S[own, 0]).max(initial=0.0))
                if arrives > 0:
                    curves[part.inputs[0]] = curve_of(hosts[host], arrives)
        self.hosts = [hosts[host] for host in parts]

    def plans(self, points: Matrix) -> Matrix:
        """Return the kept rates at each point, array (points, sources) to array (points, arcs)."""
        program = self.program
        y = np.linalg.solve(np.eye(program.arcs) - program.G, program.S @ points.T)
        arriving = {name: points[:, s] for s, name in enumerate(self.program.sources)}
        for host in self.hosts:
            part = host.part
            code = kernel("penstock.shedding.fit_kernel", 2 * len(points) * len(part.cost) ** 2)
            # A source has its own name, what a parent sends has its writer's and this host's.
            given = [arriving[name] if name in arriving else arriving[name.partition("@")[0]] for name in part.inputs]
            kept = np.ascontiguousarray(part.flow(np.array(given).reshape(len(given), len(points))).T)
            code.thinned(part.G, part.cost, host.ends, host.worth, kept)
            own: NDArray[np.bool_] = part.arcs >= 0
            y[part.arcs[own]] = kept[:, own].T
            arriving |= {part.streams[arc]: kept[:, arc] for arc in np.flatnonzero(~own)}
        return np.ascontiguousarray(y.T)

    def values(self, points: Matrix) -> Matrix:
        """Return the score at each point, array (points, sources) to array (points,)."""
        blocks = [self.plans(points[k : k + BLOCK]) @ self.program.weight for k in range(0, len(points), BLOCK)]
        return np.concatenate(blocks) if blocks else np.zeros(0)
