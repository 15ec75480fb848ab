"""``penstock admit``: whether one more query fits."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import common, options
from penstock.cli.estimate import CheckOption, ModelOption, checker
from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock.network import Network
    from penstock.workload import Rates


def command(
    network: options.NetworkArgument,
    new: Annotated[str, typer.Argument(metavar="NEW", help="Network file of the query to add.")],
    rates: options.RatesOption,
    placement: options.PlacementOption,
    latency: Annotated[
        float, typer.Option("--latency", metavar="S", help="Latency bound for every sink, old and new (s).")
    ],
    sink_latency: Annotated[
        str | None,
        typer.Option(
            "--sink-latency", metavar="INLINE", help="Tighter bounds for single sinks, e.g. dashboard=0.5,ledger=2."
        ),
    ] = None,
    model: ModelOption = None,
    check_with: CheckOption = None,
    cluster_file: options.ClusterOption = None,
    hosts: options.HostsOption = None,
    statistics: options.StatisticsOption = None,
    duration: options.DurationOption = 60.0,
    period: options.PeriodOption = 1.0,
    apply: Annotated[
        bool, typer.Option("--apply", help="Attach it to the running network if it fits and the controller agrees.")
    ] = False,
    directory: Annotated[
        str | None, typer.Option("--directory", metavar="DIR", help="The controller's folder.")
    ] = None,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Decide whether one more query fits beside those that run, and where it goes. Exit code 1: it does not fit.

    Example: penstock admit examples/two-chains/network.toml examples/two-chains/alarm.toml --hosts 2
    --rates clicks=160,buys=40 --placement views=h1,scored=h1,paid=h2,billed=h2 --latency 0.5
    """
    from penstock.cli import reading
    from penstock.cluster import Placement
    from penstock.control.chain import worst_simulated
    from penstock.latency.models import checked_bound, default_model, model_of
    from penstock.load import Statistics, read_statistics
    from penstock.network import read_network
    from penstock.sizing.admit import admit, merged
    from penstock.workload.rates import inline_rates

    if model is not None:
        model_of(model)
    check = checker(check_with)
    bound = checked_bound(latency)
    sinks = {} if sink_latency is None else inline_rates(sink_latency, "--sink-latency")
    running, added = read_network(network), read_network(new)
    whole = merged(running, added)
    known = Statistics()
    if statistics is not None:
        known = read_statistics(statistics, whole)
        try:
            whole = known.complete(whole)
            running, added = (known.of(part).complete(part) for part in (running, added))
        except InputError as error:
            raise error.located(statistics) from None
    cluster = reading.get_cluster(cluster_file, hosts, whole)
    placed = reading.get_placement(placement, running, cluster)
    given = reading.get_rates(whole, rates, duration, period)
    model = model or default_model(cluster, placed)
    found = admit(running, added, given, placed, cluster, bound, model=model, sinks=sinks, statistics=known)
    if check:
        both = Placement({**placed, **found.placement})
        found = found.checked(worst_simulated(whole, cluster, both, given, known, model, seed))
    document: dict[str, Any] = {"network": running.name, "new": added.name, **found.document()}
    if apply:
        document |= {"applied": False, **(_attached(added, given, directory) if found.admitted else {})}
    good = found.admitted and document.get("applied", True)
    if json:
        common.answer(document)
        sys.exit(0 if good else 1)
    _show(document, {name: min(bound, sinks.get(name, bound)) for name in document["sinks"]}, model)
    sys.exit(0 if good else 1)


def _show(document: dict[str, Any], bounds: dict[str, float], model: str) -> None:
    verdict = "admitted" if document["admitted"] else "not admitted"
    common.table(
        f"{document['new']}: {verdict} to {document['network']} by the model {model}",
        ["operator", "host"],
        list(document["placement"].items()),
    )
    common.table(
        f"worst latency in s, bound {document['bound']:g}",
        ["sink", "before", "with it", "bound"],
        [[name, row["before"], row["worst"], bounds[name]] for name, row in document["sinks"].items()],
    )
    if "checked" in document:
        common.say(f"the simulator measures a worst latency of {document['checked']['worst']:.4g} s")
    late = ", ".join(document["breaks"])
    common.say(
        f"worst {document['latency']:.4g} s at {document['bottleneck']}"
        + (f"; would miss the bound: {late}" if late else "")
    )
    if "controller" in document:
        common.say(("attached: " if document["applied"] else "not attached: ") + document["controller"]["why"])


def _attached(added: Network, rates: Rates, directory: str | None) -> dict[str, Any]:
    """Ask the controller at work to attach a query, and return what it says."""
    from penstock.control.folder import folder_of
    from penstock.control.state import network_document

    most = {name: float(rates.of_source(name).max()) for name in added.sources}
    answer = folder_of(directory).ask("admit", {"network": network_document(added), "rates": most})
    return {"applied": bool(answer["done"]), "controller": answer}
