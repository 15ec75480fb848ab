"""``penstock compare``: which network and placement has the least latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.cli import common, options
from penstock.errors import Infeasible, InputError, locating

if TYPE_CHECKING:
    from penstock.cli.reading import Deployment
    from penstock.cluster import Placement
    from penstock.latency.estimate import Estimate
    from penstock.load import LoadModel, Statistics
    from penstock.network import Network
    from penstock.sizing.compare import Candidate
    from penstock.workload import Rates


class PlanOptions(NamedTuple):
    """What is compared."""

    placements: Annotated[
        list[str] | None,
        typer.Option("--placements", metavar="FILE|INLINE …", help="One or more placements to compare."),
    ] = None
    variants: Annotated[
        list[str] | None,
        typer.Option("--variant", metavar="FILE", help="Another network with the same sources; may be repeated."),
    ] = None
    reorder: Annotated[
        bool, typer.Option("--reorder", help="Also try other legal orders of filters, maps and joins.")
    ] = False

    def others(self, known: Statistics, statistics: str | None, rates: Rates) -> list[tuple[str, Network]]:
        """Return the variants, with the files that they are from; the statistics have been read from theirs."""
        from penstock.cli import reading

        found = [(path, reading.completed(reading.network_of(path), known, statistics)) for path in self.variants or []]
        for path, variant in found:
            with locating(path):
                rates.check(variant.sources)
        return found

    def read(self) -> list[tuple[str, Placement]]:
        """Read the placements, each with how it was given."""
        from penstock.cluster import read_placement

        return [(text, read_placement(text)) for text in self.placements or ()]


def _chosen(
    given: Sequence[tuple[str, Placement]], deployed: Deployment, rates: Rates, seed: int
) -> list[tuple[str, Placement]]:
    """Return the placements of a network with how each was given; one that is decided, if none is."""
    from penstock.cli import reading

    graph, _, cluster = deployed
    if given:
        return [(text, reading.fitting(placed, text, graph, cluster)) for text, placed in given]
    label = "one host" if len(cluster.hosts) == 1 else "mace-climb"
    return [(label, reading.decide_placement(deployed, None, "mace-climb", rates, seed))]


def command(
    network: options.NetworkOptions,
    rates: options.RatesOptions,
    plans: PlanOptions,
    model: options.ModelOptions,
    answer: options.AnswerOptions,
    top: Annotated[int, typer.Option("--top", metavar="N", help="How many rows of the ranking to show.")] = 20,
) -> None:
    """Rank placements and variants of a network by predicted latency, best first.

    Example: penstock compare examples/two-chains/network.toml --hosts 2 --rates examples/two-chains/rates.csv
    --placements views=h1,scored=h1,paid=h2,billed=h2 views=h2,scored=h1,paid=h2,billed=h2
    """
    import numpy as np

    from penstock.cli import reading
    from penstock.latency.intervals import with_interval
    from penstock.latency.models import default_model, model_of
    from penstock.load import load_model
    from penstock.load.setting import Setting
    from penstock.running.as_modelled import unlike, worst_simulated
    from penstock.sizing.compare import certain, compared, ranked, with_intervals

    check = model.check()
    if top < 1:
        raise InputError(f"expected at least 1 row, got {top}", at="--top")
    graph, known, cluster = deployed = reading.get_deployment(network)
    expected = reading.get_rates(graph, *rates, known)
    graphs = [(network.network, graph), *plans.others(known, network.statistics, expected)]
    given = plans.read()
    # All are compared by one model, and with copies in any of them that is Mace.
    name = model.model or default_model(cluster, graph, [copy for _, placed in given for copy in placed])

    def measure(variant: Network, placed: Placement) -> float:
        deployed = Setting(network=variant, cluster=cluster, placement=placed, statistics=known)
        return worst_simulated(deployed, expected, name, answer.seed)

    def estimate(loads: LoadModel, placed: Placement) -> Estimate:
        return model_of(name)(loads, placed, cluster, known)

    def refine(one: Candidate) -> Estimate:
        loads, rng = load_model(one.made, expected), np.random.default_rng(answer.seed)
        return with_interval(estimate(loads, one.placement), loads, one.placement, cluster, known, rng)

    found, unfit = ranked(compared(
        graphs, expected, lambda variant: _chosen(given, deployed._replace(network=variant), expected, answer.seed),
        estimate, reorder=plans.reorder, measure=measure if check else None,
    ))  # fmt: skip
    ranking = with_intervals(found, refine)
    sure, best = certain(ranking), ranking[0]
    said = _said(best, unfit, expected) + (unlike(best.made, cluster, best.placement, name) if check else [])
    if answer.json:
        rows, notes = [candidate.document() for candidate in ranking], [*best.estimate.notes, *said]
        common.answer({"network": graph.name, "model": name, "ranking": rows, "certain": sure, "notes": notes})
        return
    _show(ranking, top, graph.name, name, several=len(graphs) > 1)
    if not sure:
        common.say("the first two differ by less than their errors: measure the costs better, or take either")
    for note in said:
        common.say(f"note: {note}")


def _said(best: Candidate, unfit: Sequence[Infeasible], rates: Rates) -> list[str]:
    """Return notes on sinks of which nothing is known, and on plans that are not ranked."""
    from penstock.latency.unended import note_on

    left = [f"plans that hosts have no room for are left out: {len(unfit)}; of the first {unfit[0]}"] if unfit else []
    return note_on(best.estimate.unended, rates.duration) + left


def _show(ranking: Sequence[Candidate], top: int, name: str, model: str, *, several: bool) -> None:
    simulated = ranking[0].simulated is not None
    shown = [
        [
            position,
            _words(candidate.network, several, candidate.order, candidate.given),
            candidate.estimate.total.worst,
            candidate.estimate.total.mean,
            candidate.estimate.bottleneck,
            candidate.load,
            *([candidate.simulated] if simulated else []),
        ]
        for position, candidate in enumerate(ranking[:top], 1)
    ]
    columns = ["rank", "plan", "worst", "mean", "bottleneck", "load", *(["simulated"] if simulated else [])]
    common.table(f"{name}: latency in s by the model {model}, load in benchmark cores", columns, shown)
    if len(ranking) > top:
        common.say(f"{len(ranking) - top} more are not shown (--top)")


def _words(path: str, several: bool, order: tuple[tuple[str, ...], ...], given: str) -> str:
    parts = [path] if several else []
    parts += [" > ".join(row) for row in order]
    return "; ".join([*parts, given])
