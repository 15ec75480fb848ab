"""``penstock provision``: how many hosts are enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.cli import common, options
from penstock.files import Document

if TYPE_CHECKING:
    from penstock.cluster import Cluster
    from penstock.load import LoadModel
    from penstock.network import Network
    from penstock.sizing.fleet import Fleet
    from penstock.sizing.provision import Provision


BATCHES = "mace knows of no batches, for which rows wait on Spark too: --model microbatch does, and takes longer"
"""What to say where the cluster is Spark, and the model is the one that finds the least number for sure."""


class FleetOptions(NamedTuple):
    """What runs, and on what hosts it might."""

    network: options.NetworkArgument
    host_like: Annotated[
        str,
        typer.Option("--host-like", metavar="H", help="Type of the new hosts; of several, the cheapest mix is found."),
    ]
    cluster: options.ClusterOption = None
    statistics: options.StatisticsOption = None


class SearchOptions(NamedTuple):
    """What is searched for."""

    latency: Annotated[
        float, typer.Option("--latency", metavar="S", parser=options.span, help="Latency bound for every sink (s).")
    ]
    algorithm: Annotated[
        str | None, typer.Option("--algorithm", metavar="NAME", help="Use only this placement algorithm.")
    ] = None
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="mace, pipelined, microbatch or sharing.")] = (
        "mace"
    )
    sure: options.SureOption = False
    check_with: options.CheckOption = None
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot", metavar="OUT.png", callback=options.picture, help="Draw how many hosts other bounds need."
        ),
    ] = None


def command(
    fleet: FleetOptions,
    rates: options.RatesOptions,
    search: SearchOptions,
    answer: options.AnswerOptions,
) -> None:
    """Find the fewest hosts, or the cheapest mix of types, that keep a latency bound. Exit code 1: none do.

    Example: penstock provision examples/two-chains/network.toml --rates examples/two-chains/rates.csv
    --cluster examples/two-chains/cluster.toml --host-like h1 --latency 0.5
    """
    from penstock.cli import reading
    from penstock.latency.models import checked_bound
    from penstock.latency.unended import note_on
    from penstock.load import load_model
    from penstock.load.setting import Setting
    from penstock.running.as_modelled import unlike, worst_simulated
    from penstock.sizing.fleet import Fleet
    from penstock.sizing.provision import curve

    graph, known = reading.get_network(fleet.network, fleet.statistics)
    check = options.checks(search.check_with)
    bound = checked_bound(search.latency)
    like = [name.strip() for name in fleet.host_like.split(",") if name.strip()]
    cluster = _types(fleet.cluster, like, graph)
    expected = reading.get_rates(graph, *rates, known)
    loads = load_model(graph, expected)
    hosts = Fleet.of(loads, cluster, like, known)

    def enough(wanted: float) -> Provision:
        return _provided(loads, hosts, wanted, search, answer.seed)

    found = enough(bound)
    notes = note_on(found.estimate.unended, loads.rates.duration)
    if check:
        measured = hosts.statistics(found.cluster) or known
        deployed = Setting(network=graph, cluster=found.cluster, placement=found.placement, statistics=measured)
        found = found.checked(worst_simulated(deployed, expected, search.model, answer.seed))
        notes += unlike(graph, found.cluster, found.placement, search.model)
    if search.model == "mace" and cluster.spark.given and cluster.spark.mode == "micro-batch":
        notes.append(BATCHES)
    document = {"network": graph.name, **found.document(), "sure": search.sure}
    document["notes"] += notes
    if search.plot is not None:
        from penstock.sizing.plot import draw_hosts

        rows = curve(enough, bound)
        document["curve"] = [row._asdict() for row in rows]
        draw_hosts(search.plot, rows, bound)
    if answer.json:
        common.answer(document)
        return
    _show(document, found, search.model)
    for note in notes:
        common.say(f"note: {note}")


def _provided(loads: LoadModel, hosts: Fleet, bound: float, search: SearchOptions, seed: int) -> Provision:
    """Return the answer for a bound (s), with its interval."""
    import numpy as np

    from penstock.sizing.provision import placing, provision
    from penstock.sizing.sure import doubted, surely

    place = None if search.algorithm is None else placing(loads, search.algorithm, seed)
    improve = placing(loads, "mace-climb", seed)

    def ask(taken: Fleet) -> Provision:
        found = provision(loads, taken, bound, name=search.model, place=place, improve=improve)
        return doubted(found, loads, hosts, np.random.default_rng(seed), sure=search.sure)

    return surely(hosts, ask) if search.sure else ask(hosts)


def _types(path: str | None, like: list[str], network: Network) -> Cluster:
    """Read the cluster; without one, the types and the hosts that the network names are hosts of capacity 1."""
    from penstock.cli import reading
    from penstock.cluster import Cluster, Host

    if path is not None:
        return reading.get_cluster(path, None, network)
    named = [host for _, host in network.named_hosts]
    return Cluster.of(Host(name=name) for name in dict.fromkeys([*like, *named]))


def _show(document: Document, found: Provision, model: str) -> None:
    common.table(
        f"{document['network']}: {found.hosts} hosts ({', '.join(f'{n} like {h}' for h, n in found.mix.items())}), "
        f"price {found.price:g} per hour",
        ["operator", "host"],
        list(found.placement.items()),
    )
    least = "no fewer are enough" if found.lower_bound == found.hosts else f"at least {found.lower_bound} are needed"
    worst = common.worst(document["worst"], document)
    unknown = f"; not known to keep the bound: {', '.join(document['unknown'])}" if document["unknown"] else ""
    common.say(f"worst {worst} by the model {model}, bound {document['bound']:g}; {least}{unknown}")
    if "checked" in document:
        common.say(f"the simulator measures a worst latency of {document['checked']['worst']:.4g} s")
