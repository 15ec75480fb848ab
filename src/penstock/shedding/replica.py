"""Shedding on replicas (Xiao et al. section 4): drop work on copies, and keep one intact copy of every operator.

Readers use whichever copy's output comes first, so as long as each operator has a copy that drops nothing, an intact
chain remains and nothing of the result is lost. The summary list of the paper, ``C_s(j)``, is the set of operators
with a copy that sheds; its peers may then not shed.

Where that leaves a host or a link overloaded the paper has one copy stand in for another. Here the intact copies are
then chosen all at once, so that what they do and send each other fits, if that is possible. The others drop what is
too much.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

import attrs
import numpy as np

from penstock.cluster import Cluster, base_name, copies_of
from penstock.errors import Infeasible
from penstock.network import Network
from penstock.shedding.program import TOLERANCE, Matrix, Program

NODES = 100
"""Branches in which intact copies are looked for, at most."""

May = Callable[[str, Mapping[str, float]], bool]
"""Whether a copy may shed, beside what others keep."""


@attrs.frozen
class ReplicaPlan:
    """What copies drop.

    Attributes
    ----------
    keep
        Keep fraction in front of each copy that sheds, by copy: ``views`` or ``views#2``.
    load
        Of each host as a share of its capacity, under the plan.
    intact
        For each operator a copy that drops nothing.
    """

    keep: Mapping[str, float]
    load: Mapping[str, float]
    intact: Mapping[str, str]

    def streams(self, network: Network, placement: Mapping[str, str]) -> dict[str, float]:
        """Return the keep fractions by stream, ``a->b#2``.

        What ``a->b`` keeps holds for every copy of b that has no fraction of its own: where the first copy sheds, its
        peers are named as well.
        """
        named = sorted(copy for copy in placement if copy in self.keep or base_name(copy) in self.keep)
        return {
            f"{writer}->{copy}": self.keep.get(copy, 1.0)
            for copy in named
            for writer in network.operators[base_name(copy)].inputs
        }


def replica_plan(program: Program, cluster: Cluster, placement: Mapping[str, str], rates: Matrix) -> ReplicaPlan:
    """Let each overloaded host, one after the other by name, shed on copies whose peers are intact (pseudocode 2).

    On a host the heaviest copy that may shed goes first, and only as much as needed. Links follow, by what they carry.
    What hosts may do is the limit of the program.

    Raises
    ------
    Infeasible
        If a host or link is overloaded whichever copies stay intact, or none were found within `NODES`.
    """
    copies = _Copies(program, cluster, placement, rates)
    keep = copies.relieved(lambda copy, keep: not any(peer in keep for peer in copies.of[base_name(copy)]))
    over = next(copies.overloaded(keep), None)
    if over is not None and (chosen := copies.chosen()):
        keep = copies.relieved(lambda copy, _: copy not in chosen)
        over = next(copies.overloaded(keep), None)
    if over is not None:
        name, needs = over
        raise Infeasible(
            f"{needs}, and no choice of one intact copy of each operator was found that fits every host and link",
            **{"link" if "->" in name else "host": name},
        )
    load = {host: copies.used(host, keep) / machine.capacity for host, machine in cluster.hosts.items()}
    intact = {name: next(copy for copy in copies.of[name] if copy not in keep) for name in program.network.operators}
    return ReplicaPlan(keep, load, intact)


@attrs.frozen
class _Crossing:
    """What a copy sends to a host over a link of limited bandwidth, once for all readers there (tuples/s)."""

    writer: str
    readers: tuple[str, ...]
    rate: float

    def traffic(self, keep: Mapping[str, float]) -> float:
        """Return what crosses: each reader drops tuples of its own choice before they do."""
        missed = math.prod(1 - keep.get(reader, 1.0) for reader in self.readers)
        return self.rate * keep.get(self.writer, 1.0) * (1 - missed)


class _Copies:
    """The copies of operators, what they do and what they send; sources and sinks are their own only copies."""

    def __init__(self, program: Program, cluster: Cluster, placement: Mapping[str, str], rates: Matrix) -> None:
        network = program.network
        arc, y = dict(zip(program.streams, program.arc, strict=True)), program.flow(rates)
        work = {
            name: sum(float(c * y[arc[f"{given}->{name}"]]) for given, c in zip(o.inputs, o.cost or (), strict=True))
            for name, o in network.operators.items()
        }
        self.cluster = cluster
        self.usable = dict(zip(cluster.hosts, program.limit.tolist(), strict=False))
        self.of = {**{name: [name] for name in (*network.sources, *network.sinks)}, **copies_of(placement)}
        self.work = {copy: work[base_name(copy)] for copy in placement}
        self.here = {
            host: sorted((c for c, at in placement.items() if at == host), key=lambda c: (-self.work[c], c))
            for host in cluster.hosts
        }
        place: dict[str, str | None] = {each.name: each.host for each in network.sources.values()}
        place |= {each.name: each.host for each in network.sinks.values()}
        place |= placement
        shared: dict[tuple[str, str], dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
        rate: dict[tuple[str, str], float] = {}
        for stream in network.streams:
            # What a route divides crosses for each reader.
            route = stream.reader if stream.share < 1 else ""
            for writer in self.of[stream.writer]:
                rate[writer, route] = float(y[arc[stream.name]])
                for reader in self.of[stream.reader]:
                    start, end = place[writer], place[reader]
                    if start and end and start != end and math.isfinite(cluster.link(start, end).bandwidth):
                        shared[start, end][writer, route].append(reader)
        self.crossings = {
            pair: [_Crossing(key[0], tuple(readers), rate[key]) for key, readers in sorted(each.items())]
            for pair, each in sorted(shared.items())
        }

    def used(self, host: str, keep: Mapping[str, float]) -> float:
        """Return the load of a host (cores)."""
        return sum(self.work[copy] * keep.get(copy, 1.0) for copy in self.here[host])

    def carried(self, pair: tuple[str, str], keep: Mapping[str, float]) -> float:
        """Return what a link carries (tuples/s)."""
        return sum(crossing.traffic(keep) for crossing in self.crossings[pair])

    def overloaded(self, keep: Mapping[str, float]) -> Iterator[tuple[str, str]]:
        """Yield the hosts, then the links, that are asked for more than they may do, and a sentence that says so."""
        for host, usable in self.usable.items():
            if (needs := self.used(host, keep)) > usable * (1 + TOLERANCE):
                yield host, f"host {host} needs {needs:.6g} of {usable:.6g} cores"
        for pair in self.crossings:
            limit, name = self.cluster.link(*pair).bandwidth, "->".join(pair)
            if (needs := self.carried(pair, keep)) > limit * (1 + TOLERANCE):
                yield name, f"link {name} would carry {needs:.6g} of {limit:.6g} tuples/s"

    def relieved(self, may: May) -> dict[str, float]:
        """Return what copies that may shed keep, so that hosts, and then links, are relieved as far as they can be."""
        keep: dict[str, float] = {}

        def able(copy: str) -> bool:
            return len(self.of[base_name(copy)]) > 1 and may(copy, keep)

        for host, usable in self.usable.items():
            over = self.used(host, keep) - usable
            for copy in self.here[host]:
                if over > usable * TOLERANCE and self.work[copy] > 0 and able(copy):
                    drop = min(over, self.work[copy])
                    keep[copy] = 1 - drop / self.work[copy]
                    over -= drop
        for pair, crossings in self.crossings.items():
            limit = self.cluster.link(*pair).bandwidth
            if self.carried(pair, keep) <= limit * (1 + TOLERANCE):
                continue
            # What several copies read crosses for each of them: only together do their drops relieve the link. So all
            # drop everything at first, and then one after the other keeps what it may.
            before, dropped = dict(keep), []
            for copy in dict.fromkeys(end for each in crossings for end in (*each.readers, each.writer)):
                if copy in keep or able(copy):
                    keep[copy] = 0.0
                    dropped.append(copy)
            for copy in reversed(dropped):
                most, without = before.get(copy, 1.0), self.carried(pair, keep)
                full = self.carried(pair, {**keep, copy: most})
                if full <= max(limit, without) * (1 + TOLERANCE):
                    keep.pop(copy) if most == 1 else keep.update({copy: most})
                else:
                    keep[copy] = most * max(0.0, (limit - without) / (full - without))
        return keep

    def chosen(self) -> set[str]:
        """Return one copy of each operator so that what they do and send each other fits; empty: none was found.

        A copy with a low number is taken rather than one with a high number, so that a small change of the rates seldom
        changes the choice.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        column = {copy: k for k, copy in enumerate(copy for each in self.of.values() for copy in each)}
        rows: list[tuple[dict[int, float], float, float]] = [
            (dict.fromkeys((column[copy] for copy in each), 1.0), 1.0, 1.0) for each in self.of.values()
        ]
        for host, here in self.here.items():
            share = {column[copy]: self.work[copy] / self.usable[host] for copy in here}
            rows.append((share, -math.inf, 1 + TOLERANCE))
        price = [float(k) for each in self.of.values() for k in range(len(each))]
        for pair, crossings in self.crossings.items():
            first, limit = len(price), self.cluster.link(*pair).bandwidth
            rows.append(({first + k: c.rate / limit for k, c in enumerate(crossings)}, -math.inf, 1 + TOLERANCE))
            for k, crossing in enumerate(crossings, first):
                price.append(0.0)
                # It crosses wholly where the writer and one of the readers are intact.
                both = [{column[crossing.writer]: 1.0, column[r]: 1.0, k: -1.0} for r in crossing.readers]
                rows += [(each, -math.inf, 1.0) for each in both]
        at = [(row, k, value) for row, (terms, *_) in enumerate(rows) for k, value in terms.items()]
        row, col, value = zip(*at, strict=True)
        matrix = csr_array((value, (row, col)), shape=(len(rows), len(price)))
        limits = LinearConstraint(matrix, [low for _, low, _ in rows], [high for *_, high in rows])
        whole = (np.arange(len(price)) < len(column)).astype(int)
        found = milp(
            price,
            integrality=whole,
            bounds=Bounds(0, 1),
            constraints=limits,
            options={"node_limit": NODES, "mip_rel_gap": 1e6},  # the first choice that fits will do
        )
        if found.x is None:
            return set()
        return {max(each, key=lambda copy: found.x[column[copy]]) for each in self.of.values()}
