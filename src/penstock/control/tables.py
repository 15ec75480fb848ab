"""Exact tables for the policy `shed`: looked up at every look, and rebuilt when statistics have changed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import attrs
import numpy as np

from penstock.cluster import Cluster
from penstock.control.flow import Floats, Flow, Ints
from penstock.control.remembered import Remembered
from penstock.control.situation import Situation
from penstock.network import Network
from penstock.network.doubts import CHANGING
from penstock.network.windows import undroppable
from penstock.shedding.exact import Exact, Vertices, vertices
from penstock.shedding.optimum import Solver
from penstock.shedding.program import Program, build_program
from penstock.shedding.whole import without_drops

STEP = 0.01
"""Costs and selectivities count as changed where they are another multiple of this share away from those given."""

ENDLESS = 1e6
"""Cores of a host that limits nothing."""

LINKED = 0.95
"""Share of what a link carries that is used, so that what waits for it gets through some time."""

MOST = 2_000
"""Vertices beyond which a table takes longer than the linear programs that it saves."""


WIDEST = 400
"""Streams beyond which even so many vertices take seconds to list."""


@attrs.frozen(eq=False)
class Exactly:
    """The optimum of one placed network at given costs, for any rates and any room on its hosts.

    Attributes
    ----------
    program
        Its limits do not count.
    rows
        Array (hosts,): the resources that hosts are which are up.
    table
        None where the program is not linear, or has too many streams or vertices: it is then solved each time.
    floor
        Array (hosts, sources): what cannot be dropped.
    whole
        Streams that drop nothing, since windows behind them would not be whole.
    """

    program: Program
    rows: Ints
    table: Vertices | None
    floor: Floats
    whole: frozenset[str] = frozenset()

    @classmethod
    def of(cls, network: Network, cluster: Cluster, now: Situation) -> Exactly:
        """Write the program down and list its vertices.

        Dead hosts with operators that nobody starts elsewhere are among the others, and have room for everything: what
        comes there waits, and counts as if it arrived.
        """
        gone = sorted(set(now.seen.placement.values()) - cluster.hosts.keys())
        dead = (attrs.evolve(now.seen.cluster.hosts[name], capacity=ENDLESS, quota=1.0) for name in gone)
        cluster = cluster.having((*cluster.hosts.values(), *dead))
        program = build_program(network, cluster, now.seen.placement)
        limit = np.array(program.limit)
        for row, name in enumerate(program.resources[program.hosts :], program.hosts):
            start, _, end = name.partition("->")
            limit[row] = LINKED * cluster.link(start, end).throughput
        program = attrs.evolve(program, limit=limit)
        rows = np.array([program.resources.index(name) for name in now.hosts], np.int64)
        fixed = undroppable(network)
        if program.products:
            # What a join over time puts out is no linear function: what the optimum drops there is kept all the same.
            return cls(program, rows, None, np.zeros((len(program.limit), len(program.sources))), fixed)
        program, floor = without_drops(program, fixed)
        table = None
        if len(program.streams) <= WIDEST:
            table = vertices(program, MOST)
        return cls(program, rows, table if table is not None and table.complete else None, floor, fixed)

    def keep(self, rates: Floats, room: Floats) -> tuple[dict[str, float], Floats]:
        """Return the best keep fractions, those below 1 by stream, and what they leave each host to do, array (hosts,).

        Parameters
        ----------
        rates, room
            Arrays (sources,), tuples/s, and (hosts,), benchmark cores.
        """
        limit = np.array(self.program.limit)
        limit[self.rows] = room
        program = attrs.evolve(self.program, limit=np.maximum(limit - self.floor @ rates, 1e-9 * limit))
        if self.table is not None:
            kept = Exact(program, self.table.table(program.limit)).plan(rates)
        else:
            kept = Solver(program).solve(rates)
        used = (self.program.K @ kept + self.floor @ rates)[self.rows]
        return {name: share for name, share in program.keep(rates, kept).items() if name not in self.whole}, used

    def crowded(self, rates: Floats, keep: Mapping[str, float] | None = None, slack: float = 0.0) -> bool:
        """Whether links carry more than they can.

        Parameters
        ----------
        rates
            Array (sources,), tuples/s.
        keep
            Keep fractions by stream, of which those of copies do not count; None: nothing is dropped.
        slack
            Share of what a link can carry by which it may carry more.
        """
        links, streams = slice(self.program.hosts, None), set(self.program.streams)
        # Of a copy's stream only its own reader hears.
        own = {name: share for name, share in (keep or {}).items() if name in streams}
        used = self.program.K[links] @ self.program.flow(rates, own) + self.floor[links] @ rates
        return bool((used > self.program.limit[links] * (1 + slack)).any())


class Tables:
    """The tables of the situations of late. What they answer depends on the situation alone."""

    def __init__(self) -> None:
        self._kept: Remembered[Exactly] = Remembered()

    def of(self, now: Situation) -> Exactly:
        """Return the table for what is known now, made anew if it is not one of the last."""
        cost, selectivity = rounded(now)
        return self._kept.of(
            (*placed(now), cost.tobytes(), selectivity.tobytes()),
            lambda: Exactly.of(priced(now.flow, cost, selectivity), now.cluster(), now),
        )


def placed(now: Situation) -> tuple[Hashable, ...]:
    """Return what says which network runs where."""
    return now.network, now.seen.operators, tuple(now.seen.placement[name] for name in now.seen.operators), now.hosts


def priced(flow: Flow, cost: Floats, selectivity: Floats) -> Network:
    """Return a network with given costs and selectivities of every input, arrays (inputs,).

    Kinds that neither drop nor multiply rows keep none where none is given: what was seen of them is noise around 1.
    """
    found, place = [], 0
    for operator in flow.network.operators.values():
        here = slice(place, place := place + len(operator.inputs))
        changing = operator.selectivity is not None or operator.kind in CHANGING
        shares = tuple(selectivity[here].tolist()) if changing else None
        # What was learned has the growth in it, and programs are linear.
        found.append(attrs.evolve(operator, cost=tuple(cost[here].tolist()), selectivity=shares, growth=None))
    return flow.network.having(found)


def rounded(now: Situation) -> tuple[Floats, Floats]:
    """Return cost and selectivity of every input, arrays (inputs,), to the nearest step from those given."""
    found = []
    for value, given in zip(now.costs, now.flow.given, strict=True):
        base = np.where(np.isfinite(given) & (given > 0), given, 1.0)
        with np.errstate(divide="ignore"):
            steps = np.round(np.log(np.maximum(value, 0.0) / base) / STEP)
        found.append(np.where(value > 0, base * np.exp(STEP * np.where(np.isfinite(steps), steps, 0.0)), 0.0))
    return found[0], found[1]
