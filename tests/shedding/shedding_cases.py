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
