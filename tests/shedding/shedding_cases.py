"""Networks that the shedding tests share: the papers' figures, and random ones."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from penstock.cluster import Cluster, Host, Link, Placement
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding import Program, build_program
from penstock.shedding.program import Matrix


def two_hosts(first: tuple[float, ...], second: tuple[float, ...]) -> Program:
    """Chains of two operators, the first of each on h1, the second on h2 (figure 1 of Tatbul et al.)."""
    count = range(len(first))
    network = Network.of(
        "chains",
        [Source(name=f"s{k}") for k in count],
        [Operator(name=f"a{k}", kind="map", inputs=(f"s{k}",), cost=(first[k],)) for k in count]
        + [Operator(name=f"b{k}", kind="map", inputs=(f"a{k}",), cost=(second[k],)) for k in count],
        [Sink(name=f"t{k}", input=f"b{k}") for k in count],
    )
    places = {f"a{k}": "h1" for k in count} | {f"b{k}": "h2" for k in count}
    return build_program(network, Cluster.uniform(2), Placement(places))


def figure_1() -> Program:
    """Figure 1: costs (1, 2) at A and (3, 1) at B."""
    return two_hosts((1.0, 2.0), (3.0, 1.0))


def figure_7() -> Program:
    """Figure 7: a common operator of cost 1, branches of cost 2 (top) and 5 (bottom), all on one host."""
    network = Network.of(
        "split",
        [Source(name="s")],
        [
            Operator(name="common", kind="map", inputs=("s",), cost=(1.0,)),
            Operator(name="top", kind="map", inputs=("common",), cost=(2.0,)),
            Operator(name="bottom", kind="map", inputs=("common",), cost=(5.0,)),
        ],
        [Sink(name="t1", input="top"), Sink(name="t2", input="bottom")],
    )
    return build_program(network, Cluster.uniform(1), Placement(dict.fromkeys(network.operators, "h1")))


def random_program(rng: np.random.Generator, sources: int, hosts: int, *, links: bool = False) -> Program:
    """The program of a random placed network."""
    return build_program(*random_placed(rng, sources, hosts, links=links))


def random_placed(
    rng: np.random.Generator, sources: int, hosts: int, *, links: bool = False
) -> tuple[Network, Cluster, Placement]:
    """A random network with chains, splits, unions and count-window joins, placed at random."""
    writers = [f"s{k}" for k in range(sources)]
    operators: list[Operator] = []
    read: set[str] = set()
    for k in range(int(rng.integers(sources + 1, 2 * sources + 4))):
        merge = len(writers) > 1 and rng.random() < 0.3
        # Each source is read by somebody; else anything may be read again, which makes a split.
        inputs = [f"s{k}"] if k < sources else [str(rng.choice(writers))]
        if merge:
            other = str(rng.choice(writers))
            inputs += [other] if other not in inputs else []
        kind = "map" if len(inputs) == 1 else str(rng.choice(["union", "join"]))
        operators.append(
            Operator(
                name=f"o{k}",
                kind=kind,
                inputs=tuple(inputs),
                cost=tuple(rng.uniform(0.1, 2.0, len(inputs))),
                selectivity=tuple(rng.uniform(0.2, 1.2, len(inputs)) * (0.2 if kind == "join" else 1.0)),
                counts=(2, 3) if kind == "join" else None,
            )
        )
        read.update(inputs)
        writers.append(f"o{k}")
    ends = [operator.name for operator in operators if operator.name not in read]
    sinks = [Sink(name=f"t{k}", input=name, weight=float(rng.uniform(0.5, 3))) for k, name in enumerate(ends)]
    network = Network.of("random", [Source(name=f"s{k}") for k in range(sources)], operators, sinks)
    machines = [Host(name=f"h{k}", capacity=float(rng.uniform(0.5, 2)), quota=0.8) for k in range(hosts)]
    limits = {("h0", "h1"): Link(bandwidth=float(rng.uniform(0.1, 1)))} if links and hosts > 1 else None
    cluster = Cluster.of(machines, links=limits)
    return network, cluster, Placement({o.name: f"h{int(rng.integers(hosts))}" for o in operators})


def optimum(program: Program, rates: Matrix) -> float:
    """The optimum by another solver (scipy)."""
    rows = np.vstack([np.eye(program.arcs) - program.G, program.K])
    bounds = np.concatenate([program.S @ rates, program.limit])
    found = linprog(-program.weight, rows, bounds, method="highs")
    assert found.status == 0
    return float(-found.fun)


def random_tree(
    rng: np.random.Generator, *, roots: int = 1, depth: int = 3, fan: int = 3, late: float = 0.0, merges: float = 0.2
) -> tuple[Network, Cluster, Placement]:
    """A random network on hosts that form trees: each reads from its parent alone.

    Parameters
    ----------
    roots, depth, fan
        Trees, most hosts on a way, and most children of a host.
    late
        Chance that a source enters at a host below the root.
    merges
        Chance that an operator reads two streams.
    """
    sources: list[Source] = []
    operators: list[Operator] = []
    place: dict[str, str] = {}
    machines: list[Host] = []

    def source() -> str:
        sources.append(Source(name=f"s{len(sources)}"))
        return sources[-1].name

    def grow(given: list[str], level: int) -> None:
        host = f"h{len(machines)}"
        machines.append(Host(name=host, capacity=float(rng.uniform(0.5, 2)), quota=0.8))
        writers, mine = list(given), []
        if not given or rng.random() < late:
            writers.append(source())
        unread = list(writers)
        for _ in range(int(rng.integers(1, 4))):
            if not unread and rng.random() < 0.5:
                break
            first = unread.pop() if unread else str(rng.choice(writers))
            inputs = [first]
            if rng.random() < merges and len(writers) > 1:
                other = str(rng.choice([name for name in writers if name != first]))
                inputs.append(other)
            kind = "map" if len(inputs) == 1 else str(rng.choice(["union", "join"]))
            operators.append(
                Operator(
                    name=f"o{len(operators)}", kind=kind, inputs=tuple(inputs),
                    cost=tuple(rng.uniform(0.1, 2.0, len(inputs))),
                    selectivity=tuple(rng.uniform(0.2, 1.2, len(inputs)) * (0.2 if kind == "join" else 1.0)),
                    counts=(2, 3) if kind == "join" else None,
                )
            )  # fmt: skip
            place[operators[-1].name] = host
            mine.append(operators[-1].name)
            writers.append(operators[-1].name)
        if level < depth:
            for _ in range(int(rng.integers(0, fan + 1))):
                count = min(len(mine), int(rng.integers(1, 3)))
                grow([str(name) for name in rng.choice(mine, count, replace=False)], level + 1)

    for _ in range(roots):
        grow([source()] if rng.random() < 0.5 else [source(), source()], 1)
    read = {name for operator in operators for name in operator.inputs}
    ends = [operator.name for operator in operators if operator.name not in read or rng.random() < 0.2]
    sinks = [Sink(name=f"t{k}", input=name, weight=float(rng.uniform(0.5, 3))) for k, name in enumerate(ends)]
    network = Network.of("tree", [item for item in sources if item.name in read], operators, sinks)
    return network, Cluster.of(machines), Placement(place)


FIGURE_1 = """
name = "figure-1"
[sources.x]
[sources.y]
[operators.a1]
kind = "map"
input = "x"
cost = 0.01
[operators.a2]
kind = "map"
input = "y"
cost = 0.02
[operators.b1]
kind = "map"
input = "a1"
cost = 0.03
[operators.b2]
kind = "map"
input = "a2"
cost = 0.01
[sinks.o1]
input = "b1"
[sinks.o2]
input = "b2"
"""
"""The network of the paper's Figure 1, with costs in hundredths."""
