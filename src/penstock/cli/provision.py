"""``penstock provision``: how many hosts are enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import common, options
from penstock.cli.estimate import CheckOption, checker

if TYPE_CHECKING:
    from penstock.sizing.provision import Provision


def command(
    network: options.NetworkArgument,
    rates: options.RatesOption,
    host_like: Annotated[
        str,
        typer.Option("--host-like", metavar="H", help="Type of the new hosts; of several, the cheapest mix is found."),
    ],
    latency: Annotated[float, typer.Option("--latency", metavar="S", help="Latency bound for every sink (s).")],
    cluster_file: options.ClusterOption = None,
    algorithm: Annotated[
        str | None, typer.Option("--algorithm", metavar="NAME", help="Use only this placement algorithm.")
    ] = None,
    model: Annotated[
        str, typer.Option("--model", metavar="NAME", help="mace, pipelined, microbatch or sharing.")
    ] = "mace",
    check_with: CheckOption = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="OUT.png", help="Draw how many hosts other bounds need.")
    ] = None,
    statistics: options.StatisticsOption = None,
    duration: options.DurationOption = 60.0,
    period: options.PeriodOption = 1.0,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Find the fewest hosts, or the cheapest mix of types, that keep a latency bound. Exit code 1: none do.

    Example: penstock provision examples/two-chains/network.toml --rates examples/two-chains/rates.csv
    --cluster examples/two-chains/cluster.toml --host-like h1 --latency 0.5
    """
    from penstock.cli import reading
    from penstock.cluster import Cluster, Host
    from penstock.control.chain import worst_simulated
    from penstock.latency.models import checked_bound
    from penstock.load import load_model
    from penstock.sizing.provision import curve, placing, provision

    graph, known = reading.get_network(network, statistics)
    check = checker(check_with)
    bound = checked_bound(latency)
    like = [name.strip() for name in host_like.split(",") if name.strip()]
    if cluster_file is None:
        named = [o.pin for o in graph.operators.values()]
        named += [end.host for table in (graph.sources, graph.sinks) for end in table.values()]
        cluster = Cluster.of(Host(name=name) for name in dict.fromkeys([*like, *(n for n in named if n)]))
    else:
        cluster = reading.get_cluster(cluster_file, None, graph)
    given = reading.get_rates(graph, rates, duration, period)
    loads = load_model(graph, given)

    def answer(wanted: float) -> Provision:
        return provision(
            loads,
            cluster,
            like,
            wanted,
            name=model,
            place=None if algorithm is None else placing(loads, algorithm, seed),
            improve=placing(loads, "mace-climb", seed),
            statistics=known,
        )

    found = answer(bound)
    if check:
        found = found.checked(worst_simulated(graph, found.cluster, found.placement, given, known, model, seed))
    document = {"network": graph.name, **found.document()}
    if plot is not None:
        rows = curve(answer, bound)
        document["curve"] = [
            {"latency": wanted, "hosts": count, "lower_bound": least, "price": price}
            for wanted, count, least, price in rows
        ]
        from penstock.sizing.plot import draw_hosts

        draw_hosts(plot, rows, bound)
    if json:
        common.answer(document)
        return
    _show(document, found, model)


def _show(document: dict[str, Any], found: Provision, model: str) -> None:
    common.table(
        f"{document['network']}: {found.hosts} hosts ({', '.join(f'{n} like {h}' for h, n in found.mix.items())}), "
        f"price {found.price:g} per hour",
        ["operator", "host"],
        list(found.placement.items()),
    )
    least = "no fewer are enough" if found.lower_bound == found.hosts else f"at least {found.lower_bound} are needed"
    common.say(f"worst {found.estimate.total.worst:.4g} s by the model {model}, bound {document['bound']:g}; {least}")
    if "checked" in document:
        common.say(f"the simulator measures a worst latency of {document['checked']['worst']:.4g} s")
