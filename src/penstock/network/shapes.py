"""Standard shapes of networks, for tests and experiments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.network.model import Network, Operator, Sink, Source


def chain(costs: Sequence[float], selectivities: Sequence[float] | float = 1.0, name: str = "chain") -> Network:
    """Return one source, a filter per cost in a row, and one sink.

    Parameters
    ----------
    costs
        Benchmark-core seconds per tuple of each operator.
    selectivities
        Of each operator, or one number for all.
    """
    return chains([costs], [np.broadcast_to(np.asarray(selectivities, float), len(costs)).tolist()], name)


def chains(
    costs: Sequence[Sequence[float]], selectivities: Sequence[Sequence[float]] | None = None, name: str = "chains"
) -> Network:
    """Return independent chains: source ``s1`` feeds ``o1.1``, ``o1.2``, …, sink ``t1``, and so on."""
    sources, operators, sinks = [], [], []
    for c, row in enumerate(costs, 1):
        sources.append(Source(name=f"s{c}"))
        before = f"s{c}"
        for k, cost in enumerate(row, 1):
            selectivity = 1.0 if selectivities is None else float(selectivities[c - 1][k - 1])
            operators.append(
                Operator(
                    name=f"o{c}.{k}", kind="filter", inputs=(before,), cost=(float(cost),), selectivity=(selectivity,)
                )
            )
            before = f"o{c}.{k}"
        sinks.append(Sink(name=f"t{c}", input=before))
    return Network.of(name, sources, operators, sinks)


def tree(depth: int, fanout: int, cost: float = 1e-3, selectivity: float = 1.0, name: str = "tree") -> Network:
    """Return one source whose stream is copied down a tree of filters; every leaf has a sink."""
    operators, sinks = [], []
    level = ["s1"]
    for _ in range(depth):
        below = []
        for parent in level:
            for k in range(1 if parent == "s1" else fanout):
                child = f"o{k + 1}" if parent == "s1" else f"{parent}.{k + 1}"
                operators.append(
                    Operator(name=child, kind="filter", inputs=(parent,), cost=(cost,), selectivity=(selectivity,))
                )
                below.append(child)
        level = below
    sinks = [Sink(name=f"t-{leaf}", input=leaf) for leaf in level]
    return Network.of(name, [Source(name="s1")], operators, sinks)


def fan(common: float, costs: Sequence[float], name: str = "fan") -> Network:
    """Return one source and an operator of cost ``common`` (s), whose stream is copied to a branch of each cost."""
    operators = [Operator(name="common", kind="map", inputs=("s",), cost=(common,))]
    operators += [
        Operator(name=f"branch{k}", kind="map", inputs=("common",), cost=(cost,)) for k, cost in enumerate(costs)
    ]
    sinks = [Sink(name=f"t{k}", input=f"branch{k}") for k in range(len(costs))]
    return Network.of(name, [Source(name="s")], operators, sinks)


def together(networks: Sequence[Network]) -> Network:
    """Return several networks, whose names differ, as one that is called as the first."""
    return Network.of(
        networks[0].name,
        [source for each in networks for source in each.sources.values()],
        [operator for each in networks for operator in each.operators.values()],
        [sink for each in networks for sink in each.sinks.values()],
    )


def hybrid(operators: int, sources: int, filters: float, rng: np.random.Generator, name: str = "hybrid") -> Network:
    """Return a random network of filters and count-window joins.

    Costs, selectivities and windows are drawn as in Table 2 of the paper on potential-driven placement: filters
    U(1, 5) ms and U(0.8, 1), joins U(1, 2) ms, U(0.01, 0.2) and windows U(1, 10) tuples.

    Parameters
    ----------
    operators, sources
        How many of each.
    filters
        Share of filters among the operators, 0..1.
    """
    made = [Source(name=f"s{k + 1}") for k in range(sources)]
    free = [source.name for source in made]
    rows: list[Operator] = []
    read: set[str] = set()
    width = len(str(operators))
    for k in range(operators):
        label = f"o{k + 1:0{width}d}"
        unread = [given for given in free if given not in read] or free
        first = unread[int(rng.integers(len(unread)))]
        others = [given for given in free if given != first]
        if rng.random() < filters or not others:
            cost, selectivity = rng.uniform(1e-3, 5e-3), rng.uniform(0.8, 1.0)
            rows.append(Operator(name=label, kind="filter", inputs=(first,), cost=(cost,), selectivity=(selectivity,)))
        else:
            second = others[int(rng.integers(len(others)))]
            cost, selectivity = rng.uniform(1e-3, 2e-3), rng.uniform(0.01, 0.2)
            counts = (int(rng.integers(1, 11)), int(rng.integers(1, 11)))
            pair = (first, second)
            rows.append(
                Operator(
                    name=label,
                    kind="join",
                    inputs=pair,
                    cost=(cost,) * 2,
                    selectivity=(selectivity,) * 2,
                    counts=counts,
                )
            )
        read.update(rows[-1].inputs)
        free.append(label)
    ends = [name for name in free if name not in read and not name.startswith("s")]
    return Network.of(name, made, rows, [Sink(name=f"t-{end}", input=end) for end in ends])
