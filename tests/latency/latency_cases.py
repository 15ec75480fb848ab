"""Random placed networks with bursts that overload some hosts for a while."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.cluster import Cluster, Host, Link, Placement
from penstock.load import LoadModel, load_model
from penstock.load.setting import Setting
from penstock.network import Network, Operator, Sink, Source, chain
from penstock.workload import Rates

KINDS = ("filter", "map", "union", "join")


def random_chain(seed, periods):
    """Return the load model of three operators in a row under random rates, and all of them on one host."""
    rng = np.random.default_rng(seed)
    network = chain(rng.uniform(1e-3, 5e-3, 3).tolist())
    model = load_model(network, Rates.of(1.0, {"s1": rng.uniform(10, 200, periods)}))
    return model, Placement(dict.fromkeys(network.operators, "h1"))


def random_network(rng, operators, sources, *, joins=True):
    """Return filters, maps, unions and count-window joins; every stream that nobody reads ends in a sink."""
    names, rows, unread = [f"s{k}" for k in range(sources)], [], [f"s{k}" for k in range(sources)]
    for k in range(operators):
        kind = KINDS[int(rng.choice(4, p=(0.4, 0.2, 0.25, 0.15) if joins else (0.5, 0.2, 0.3, 0.0)))]
        first = unread[int(rng.integers(len(unread)))] if rng.random() < 0.7 and unread else None
        first = first or names[int(rng.integers(len(names)))]
        others = [name for name in names if name != first]
        wanted = {"union": int(rng.integers(2, 4)), "join": 2}.get(kind, 1)
        picked = [others[i] for i in rng.permutation(len(others))[: wanted - 1]]
        kind = "filter" if wanted > 1 and not picked else kind
        inputs = (first, *picked)
        selectivity = {"filter": rng.uniform(0.4, 1.0), "map": 1.0, "union": 1.0, "join": 0.2}[kind]
        rows.append(
            Operator(
                name=f"o{k:02}",
                kind=kind,
                inputs=inputs,
                cost=tuple(float(c) for c in rng.uniform(0.2e-3, 2e-3, len(inputs))),
                selectivity=(float(selectivity),) * len(inputs),
                counts=(int(rng.integers(1, 4)), int(rng.integers(1, 4))) if kind == "join" else None,
            )
        )
        unread = [name for name in unread if name not in inputs] + [f"o{k:02}"]
        names.append(f"o{k:02}")
    ends = [name for name in unread if name.startswith("o")]
    return Network.of(
        "random", [Source(name=f"s{k}") for k in range(sources)], rows, [Sink(name=f"t-{n}", input=n) for n in ends]
    )


def random_case(seed, *, joins=True, hosts=5, operators=30, links=True, circles=True, peak=2.5):
    """Return model, placement and cluster; in some periods the busiest host has up to ``peak`` times its capacity."""
    rng = np.random.default_rng(seed)
    sources = int(rng.integers(1, 5))
    network = random_network(rng, int(rng.integers(2, operators + 1)), sources, joins=joins)
    count = int(rng.integers(1, hosts + 1))
    machines = [Host(name=f"h{k + 1}", capacity=float(rng.choice((0.5, 1.0, 1.0, 2.0)))) for k in range(count)]
    link = Link(float(rng.choice((0.0, 0.02, 0.2)))) if links and rng.random() < 0.3 else Link()
    cluster = Cluster.of(machines, link)
    names = list(network.operators)
    where = rng.integers(0, count, len(names))
    if not circles:
        # Operators in topological order on hosts in order: no host feeds one before it.
        where = np.sort(where)
    placement = Placement({name: f"h{h + 1}" for name, h in zip(names, where, strict=True)})
    periods = int(rng.integers(6, 20))
    rates = {}
    for k in range(sources):
        high = rng.random(periods) < 0.3
        rates[f"s{k}"] = np.where(high, rng.uniform(1.0, 3.0, periods), rng.uniform(0.05, 0.8, periods)) * 100
    model = load_model(network, Rates.of(1.0, rates))
    capacity = np.array([h.capacity for h in cluster.hosts.values()])
    share = (model.host_load(placement, cluster) / capacity[:, None]).max()
    target = rng.uniform(1.2, peak)
    # Rates of some hundreds a second keep single services small beside the backlog; costs make the load.
    scale = target / share
    return scaled_costs(model, scale), placement, cluster


def scaled_costs(model: LoadModel, factor: float) -> LoadModel:
    """Return the model with all costs times a factor."""
    network = model.network
    rows = [attrs.evolve(o, cost=tuple(c * factor for c in o.cost or ())) for o in network.operators.values()]
    made = Network.of(network.name, network.sources.values(), rows, network.sinks.values())
    return load_model(made, model.rates)


def slack(model: LoadModel, cluster: Cluster) -> float:
    """Return the sum of all costs on the slowest host (s): what single services may add to a fluid's latency."""
    costs = sum(max(operator.cost or (0.0,)) for operator in model.network.operators.values())
    return costs / min(host.capacity for host in cluster.hosts.values())


def runs(network: Network, rates: Rates, placement: Placement, cluster: Cluster) -> Setting:
    """Return a network that runs, of which nothing was measured."""
    return Setting(network=network, rates=rates, placement=placement, cluster=cluster)


def renamed(network: Network, prefix: str) -> Network:
    """Return the network with all names but those of its sources prefixed."""
    operators = [
        attrs.evolve(o, name=prefix + o.name, inputs=tuple(i if i in network.sources else prefix + i for i in o.inputs))
        for o in network.operators.values()
    ]
    sinks = [attrs.evolve(s, name=prefix + s.name, input=prefix + s.input) for s in network.sinks.values()]
    return Network.of("new", network.sources.values(), operators, sinks)
