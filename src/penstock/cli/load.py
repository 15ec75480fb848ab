"""``penstock load``: what the network costs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.cli import common, options


def command(
    network: options.NetworkArgument,
    rates: options.RatesOption,
    cluster_file: options.ClusterOption = None,
    hosts: options.HostsOption = None,
    placement: Annotated[
        str | None,
        typer.Option("--placement", metavar="FILE|INLINE", help="Placement; also show the load of the hosts."),
    ] = None,
    series: Annotated[
        bool, typer.Option("--series", help="With --json: also all series and load correlations.")
    ] = False,
    statistics: options.StatisticsOption = None,
    duration: options.DurationOption = 60.0,
    period: options.PeriodOption = 1.0,
    json: options.JsonOption = False,
) -> None:
    """Compute the load of every operator, and how it grows with the rate of each source.

    Example: penstock load examples/two-chains/network.toml --hosts 2 --rates clicks=100,buys=20
    """
    from penstock.cli import reading
    from penstock.load import correlation_matrix, deviation

    graph, _ = reading.get_network(network, statistics)
    model = reading.get_model(graph, rates, duration, period)
    document: dict[str, Any] = {
        "network": graph.name,
        "period": model.period,
        "sources": {
            name: {"mean": float(row.mean()), "max": float(row.max())}
            for name, row in zip(model.rates.sources, model.rates.values, strict=True)
        },
        "operators": {
            name: {"mean": float(row.mean()), "std": deviation(row), "max": float(row.max())}
            for name, row in zip(graph.operators, model.load, strict=True)
        },
        "coefficients": {
            name: dict(zip(model.rates.sources, map(float, row), strict=True))
            for name, row in zip(graph.operators, model.coefficients, strict=True)
        },
    }
    if cluster_file is not None or hosts is not None or placement is not None:
        cluster = reading.get_cluster(cluster_file, hosts, graph)
        if placement is not None:
            placed = reading.get_placement(placement, graph, cluster)
            document["hosts"] = reading.host_rows(model, placed, cluster)
    if series:
        for name, row in zip(model.rates.sources, model.rates.values, strict=True):
            document["sources"][name]["series"] = row
        for name, row in zip(graph.operators, model.load, strict=True):
            document["operators"][name]["series"] = row
        if "hosts" in document:
            for (name, host), row in zip(cluster.hosts.items(), model.host_load(placed, cluster), strict=True):
                document["hosts"][name]["series"] = row / host.capacity
        matrix = correlation_matrix(model.load)
        document["correlation"] = {
            name: dict(zip(graph.operators, map(float, row), strict=True))
            for name, row in zip(graph.operators, matrix, strict=True)
        }
    if json:
        common.answer(document)
        return
    _show(document)


def _show(document: dict[str, Any]) -> None:
    common.table(
        f"{document['network']}: load in benchmark cores, period {document['period']:g} s",
        ["operator", "mean", "std", "max", *(f"per {name}/s" for name in document["sources"])],
        [
            [name, row["mean"], row["std"], row["max"], *document["coefficients"][name].values()]
            for name, row in document["operators"].items()
        ],
    )
    if "hosts" in document:
        common.table(
            "hosts: load as a share of capacity",
            ["host", "mean", "std", "max"],
            [[name, row["mean"], row["std"], row["max"]] for name, row in document["hosts"].items()],
        )
