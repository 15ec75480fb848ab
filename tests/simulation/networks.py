"""Random networks of every feature, for comparing the kernel with the reference."""

from __future__ import annotations

import numpy as np

from penstock.cluster import Cluster, Host, Link
from penstock.network import Network, Operator, Sink, Source
from penstock.network.windows import drops_whole
from penstock.simulation import Arrivals, Failure, Move, Options, Recovery
from penstock.workload import Rates

SERVICES = ("constant", "exponential", "gamma:2", "gamma:0.5", "two-point:10:0.1")


def random_case(seed, *, features=True):
    """Return network, cluster, placement, arrivals and options of a random small run."""
    rng = np.random.default_rng(seed)
    pick = lambda *options: options[int(rng.integers(len(options)))]  # noqa: E731
    sources = [
        Source(name=f"s{k}", arrivals=pick("even", "poisson"), host=pick(None, "h1", "h2"))
        for k in range(pick(1, 2, 3))
    ]
    names, operators = [s.name for s in sources], []
    for k in range(int(rng.integers(1, 8))):
        kind = pick("filter", "map", "union", "join", "join", "aggregate", "delay")
        given = [names[i] for i in rng.permutation(len(names))]
        inputs = given[: {"join": 2, "union": int(rng.integers(1, 4))}.get(kind, 1)]
        if kind == "join" and len(inputs) < 2:
            kind = "filter"
        extra = {}
        if kind == "join":
            extra = pick(
                {"counts": (int(rng.integers(1, 6)), int(rng.integers(1, 6)))}, {"within": float(rng.uniform(0, 0.5))}
            )
        if kind == "aggregate":
            extra = pick({"window": 0.5}, {"window": 0.7, "slide": 0.25}, {})
        selectivity = tuple(float(pick(0.0, 0.3, 0.8, 1.0, 1.5)) * (0.3 if kind == "join" else 1) for _ in inputs)
        operators.append(
            Operator(
                name=f"o{k}",
                kind=kind,
                inputs=tuple(inputs),
                selectivity=selectivity,
                service=pick(*SERVICES),
                cost=tuple(float(rng.uniform(0, 0.02)) for _ in inputs),
                emit=pick("exact", "chance"),
                **extra,
            )
        )
        names.append(f"o{k}")
    sinks = [
        Sink(name=f"t{k}", input=name)
        for k, name in enumerate(names[len(sources) :])
        if k % 2 == 0 or name == names[-1]
    ]
    for index, operator in enumerate(operators):
        readers = [o.name for o in operators if operator.name in o.inputs] + [
            s.name for s in sinks if s.input == operator.name
        ]
        if len(readers) > 1 and rng.random() < 0.5:
            shares = rng.dirichlet(np.ones(len(readers)))
            operators[index] = Operator(
                **{a: getattr(operator, a) for a in operator.__slots__ if a not in ("route", "__weakref__")},
                route=dict(zip(readers, shares.tolist(), strict=True)),
            )
    network = Network.of("random", sources, operators, sinks)
    hosts = [Host(name=f"h{k + 1}", capacity=float(pick(0.5, 1.0, 2.0)), cores=pick(1, 1, 2)) for k in range(3)]
    links = {("h1", "h2"): Link(0.05, 100.0), ("h2", "h3"): Link(0.0, np.inf), ("h3", "h1"): Link(0.02, 1e9)}
    default = pick(Link(), Link(0.01, np.inf), Link(0.1, 20.0), Link(0.0, 30.0), Link(0.25, 9.0))
    cluster = Cluster.of(hosts, default, links)
    placement = {name: pick("h1", "h2", "h3") for name in network.operators}
    if features and rng.random() < 0.5:
        for name in network.operators:
            if rng.random() < 0.3:
                placement[f"{name}#2"] = pick("h1", "h2", "h3")
    if rng.random() < 0.7:
        arrivals = Rates.of(0.5, {s.name: rng.choice([0.0, 10.0, 40.0, 80.0], size=6) for s in sources})
    else:
        times = np.sort(np.round(rng.uniform(0, 3, 100), 2))
        arrivals = Arrivals.of(times, [pick(*(s.name for s in sources)) for _ in times], rng.uniform(0.2, 3, 100))
    streams = [stream.name for stream in network.streams]
    streams += [f"{s.writer}->{copy}" for s in network.streams for copy in placement if copy == f"{s.reader}#2"]
    # Where no window behind can be dropped whole, keep fractions are refused.
    mixed = {stream.name for stream in network.streams if not drops_whole(network, stream)}
    options = Options(
        policy=pick("fcfs", "round-robin", "stimulus", "longest-queue"),
        queue=pick(None, None, 0, 1, 2, 3, 20),
        drain=bool(rng.random() < 0.5),
        duration=None if rng.random() < 0.7 else float(rng.uniform(0.5, 5)),
        keep={
            name: float(pick(0.0, 0.5, 0.8))
            for name in streams
            if rng.random() < 0.2 and name.partition("#")[0] not in mixed
        },
        failures=(Failure("h2", 1.0),) if features and rng.random() < 0.4 else (),
        moves=tuple(
            Move(pick(*placement), pick("h1", "h2", "h3"), float(rng.uniform(0, 3)))
            for _ in range(pick(0, 0, 1, 3) if features else 0)
        ),
        move_time=pick(0.0, 0.3),
        move_time_per_tuple=pick(0.0, 0.01),
        limits={s.name: float(pick(2.0, 12.5, 30.0)) for s in sources if rng.random() < 0.3},
    )
    if options.failures and rng.random() < 0.6:
        import attrs

        options = attrs.evolve(options, recoveries=(Recovery("h2", 1.6),))
    return network, cluster, placement, arrivals, options
