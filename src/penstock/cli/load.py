"""``penstock load``: what the network costs."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli import common, options
from penstock.files import Document


def command(
    network: options.NetworkOptions,
    rates: options.RatesOptions,
    placement: Annotated[
        str | None,
        typer.Option("--placement", metavar="FILE|INLINE", help="Placement; also show the load of the hosts."),
    ] = None,
    series: Annotated[
        bool, typer.Option("--series", help="With --json: also all series and load correlations.")
    ] = False,
    json: options.JsonOption = False,
) -> None:
    """Compute the load of every operator, and how it grows with the rate of each source.

    Example: penstock load examples/two-chains/network.toml --hosts 2 --rates clicks=100,buys=20
    """
    from penstock.cli import reading
    from penstock.load.summary import load_document

    graph, _ = reading.get_network(network.network, network.statistics)
    model = reading.get_model(graph, *rates)
    cluster = placed = None
    if network.cluster is not None or network.hosts is not None or placement is not None:
        cluster = reading.get_cluster(network.cluster, network.hosts, graph)
        placed = None if placement is None else reading.get_placement(placement, graph, cluster)
    document = load_document(model, cluster, placed, series=series and json)
    if json:
        common.answer(document)
        return
    if series:
        common.note("note: --series: the series and their correlations are in --json")
    _show(document)


def _show(document: Document) -> None:
    common.table(
        f"{document['network']}: load in benchmark cores, period {document['period']:g} s",
        ["operator", "mean", "std", "max", *(f"per {name}/s" for name in document["sources"])],
        [
            [name, row["mean"], row["std"], row["max"], *document["coefficients"][name].values()]
            for name, row in document["operators"].items()
        ],
    )
    if "hosts" in document:
        common.show_hosts(document["hosts"])
