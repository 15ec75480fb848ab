"""``penstock estimate``: how late results will be."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import common
from penstock.errors import InputError

MODELS = ("mace", "pipelined", "microbatch")


def command(
    network: common.NetworkArgument,
    rates: common.RatesOption,
    placement: common.PlacementOption,
    model: Annotated[str, typer.Option("--model", metavar="NAME", help=f"{', '.join(MODELS)}.")] = "mace",
    cluster: common.ClusterOption = None,
    hosts: common.HostsOption = None,
    statistics: common.StatisticsOption = None,
    duration: common.DurationOption = 60.0,
    period: common.PeriodOption = 1.0,
    json: common.JsonOption = False,
) -> None:
    """Estimate latency: worst, quantiles, over time, and which host decides it.

    Example: penstock estimate examples/two-chains/network.toml --hosts 1 --rates clicks=100,buys=20
    --placement views=h1,paid=h1,scored=h1,billed=h1
    """
    from penstock.latency.batches import microbatch_estimate
    from penstock.latency.mace import mace
    from penstock.latency.pipelined import pipelined

    if model not in MODELS:
        raise InputError(f"expected {', '.join(MODELS)}, got {model!r}", at="--model")
    graph, known = common.get_network(network, statistics)
    machines = common.get_cluster(cluster, hosts, graph)
    placed = common.get_placement(placement, graph, machines)
    loads = common.get_model(graph, rates, duration, period)
    models = {"mace": mace, "pipelined": pipelined, "microbatch": microbatch_estimate}
    found = models[model](loads, placed, machines, known)
    if json:
        common.answer(found.document())
        return
    common.table(
        f"{graph.name}: latency in s by the model {found.model}, bottleneck {found.bottleneck}",
        ["sink", "worst", "p99", "p50", "mean"],
        [
            ["all", found.total.worst, found.total.p99, found.total.p50, found.total.mean],
            *([name, row.worst, row.p99, row.p50, row.mean] for name, row in found.sinks.items()),
        ],
    )
    bar = found.error
    common.say(
        f"an error of 1 % in the costs on {bar.host} (load {bar.load:.3g}) is {bar.amplification:.3g} % of the worst"
    )
    for note in found.notes:
        common.say(f"note: {note}")
