"""``penstock admit``: whether one more query fits."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

import attrs
import typer

from penstock.cli import common, options
from penstock.errors import locating
from penstock.files import Document

if TYPE_CHECKING:
    from penstock.load import Statistics
    from penstock.network import Network
    from penstock.workload import Rates


class QueryOptions(NamedTuple):
    """The query to add, and what it must not break."""

    new: Annotated[str, typer.Argument(metavar="NEW", help="Network file of the query to add.")]
    placement: options.PlacementOption
    latency: Annotated[
        float,
        typer.Option(
            "--latency", metavar="S", parser=options.span, help="Latency bound for every sink, old and new (s)."
        ),
    ]
    sink_latency: Annotated[
        str | None,
        typer.Option(
            "--sink-latency", metavar="INLINE", help="Tighter bounds for single sinks, e.g. dashboard=0.5,ledger=2."
        ),
    ] = None
    sure: options.SureOption = False
    apply: Annotated[
        bool, typer.Option("--apply", help="Attach it to the running network if it fits and the controller agrees.")
    ] = False
    directory: Annotated[str | None, typer.Option("--directory", metavar="DIR", help="The controller's folder.")] = None


def command(
    network: options.NetworkOptions,
    query: QueryOptions,
    rates: options.RatesOptions,
    model: options.ModelOptions,
    answer: options.AnswerOptions,
) -> None:
    """Decide whether one more query fits beside those that run, and where it goes. Exit code 1: it does not fit.

    Example: penstock admit examples/two-chains/network.toml examples/two-chains/alarm.toml --hosts 2
    --rates clicks=160,buys=40 --placement views=h1,scored=h1,paid=h2,billed=h2 --latency 0.5
    """
    from penstock.cli import reading
    from penstock.latency.models import checked_bound, default_model
    from penstock.latency.unended import note_on
    from penstock.load.setting import Setting
    from penstock.running.as_modelled import unlike, worst_by_sink
    from penstock.sizing.admit import admit
    from penstock.sizing.beside import beside, doubting
    from penstock.units import pairs, spoken

    options.goes_with("--directory", query.directory is not None, "--apply", query.apply)
    check = model.check()
    bound = checked_bound(query.latency)
    own = query.sink_latency
    bounds = {} if own is None else pairs(own, "--sink-latency", "sink=seconds", "dashboard=1,ledger=5", spoken)
    running, added, whole, known = _networks(network.network, query.new, network.statistics)
    cluster = reading.get_cluster(network.cluster, network.hosts, whole)
    placed = reading.get_placement(query.placement, running, cluster)
    expected = reading.get_rates(whole, *rates, known)
    name = model.model or default_model(cluster, whole, placed)
    runs = Setting(network=running, cluster=cluster, placement=placed, statistics=known, rates=expected)
    doubt = doubting(runs, whole, answer.seed, sure=query.sure)
    found = admit(runs, added, bound, model=name, sinks=bounds, doubt=doubt if query.sure else None)
    if found.after.spread is None:
        found = attrs.evolve(found, after=doubt(found.after, found.placement))
    notes, after = note_on(found.after.unended, expected.duration), beside(runs, whole, found.placement)
    if check:
        found = attrs.evolve(found, simulated=worst_by_sink(after, expected, name, answer.seed))
        notes += unlike(whole, cluster, after.placement, name)
    document: Document = {"network": running.name, "new": added.name, **found.document()}
    document["notes"] += notes
    if query.apply:
        document["applied"] = False
        if found.admitted:
            document |= _attached(added, running, expected, query.directory, bound, bounds)
    if answer.json:
        common.answer(document)
    else:
        _show(document, {sink: found.bounds.of(sink) for sink in document["sinks"]}, name)
        for note in notes:
            common.say(f"note: {note}")
    sys.exit(0 if found.admitted and document.get("applied", True) else 1)


def _networks(path: str, new: str, statistics: str | None) -> tuple[Network, Network, Network, Statistics]:
    """Read the running network and the new one; with both as one, and what is known of them."""
    from penstock.cli import reading
    from penstock.load import Statistics, read_statistics
    from penstock.sizing.admit import merged

    running, added = reading.network_of(path), reading.network_of(new)
    whole = merged(running, added)
    if statistics is None:
        return running, added, whole, Statistics()
    known = read_statistics(statistics, whole)
    with locating(statistics):
        return known.of(running).complete(running), known.of(added).complete(added), known.complete(whole), known


def _show(document: Document, bounds: dict[str, float], model: str) -> None:
    verdict = "admitted" if document["admitted"] else "not admitted"
    common.table(
        f"{document['new']}: {verdict} to {document['network']} by the model {model}",
        ["operator", "host"],
        list(document["placement"].items()),
    )
    columns = ["sink", "before", "with it", "bound"]
    rows = [[name, row["before"], row["worst"], bounds[name]] for name, row in document["sinks"].items()]
    if "interval" in document:
        columns.insert(3, "p05 to p95")
        for shown, row in zip(rows, document["sinks"].values(), strict=True):
            shown.insert(3, None if row["worst"] is None else common.between(row["interval"]["worst"]))
    common.table(f"worst latency in s, bound {document['bound']:g}", columns, rows)
    if "checked" in document:
        common.say(f"the simulator measures a worst latency of {document['checked']['worst']:.4g} s")
    late, unknown = ", ".join(document["breaks"]), ", ".join(document["unknown"])
    common.say(
        f"worst {common.worst(document['latency'], document)} at {document['bottleneck']}"
        + (f"; would miss the bound: {late}" if late else "")
        + (f"; not known to keep it: {unknown}" if unknown else "")
    )
    if "controller" in document:
        answer = document["controller"]
        # What the controller decided was not applied where the engine refused it.
        reasons = [answer["why"]] if document["applied"] else [*answer.get("refused", ()), answer["why"]]
        common.say(f"{'attached' if document['applied'] else 'not attached'}: {reasons[0]}")


def _attached(
    added: Network, running: Network, rates: Rates, directory: str | None, bound: float, sinks: dict[str, float]
) -> Document:
    """Ask the controller at work, wherever it was started, to attach a query, and return what it says."""
    from penstock.control.folder import folder_of
    from penstock.network import network_document
    from penstock.spark.paths import settled

    most = {name: float(rates.of_source(name).max()) for name in added.sources}
    answer = folder_of(directory).ask(
        "admit",
        {"network": network_document(settled(added, running.sources)), "rates": most, "latency": bound, "sinks": sinks},
    )
    # The controller decides by what runs now.
    decided = answer.get("decided", {}).get("attach") if answer["done"] else None
    placement = {} if decided is None else {"placement": decided}
    return {"applied": bool(answer["done"]), "controller": answer, **placement}
