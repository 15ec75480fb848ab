"""``penstock estimate``: how late results will be."""

from __future__ import annotations

import calendar
import time
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import common, options
from penstock.files import Document

if TYPE_CHECKING:
    from penstock.cluster import Cluster, Placement
    from penstock.latency.estimate import Estimate, Quantiles
    from penstock.load.setting import Setting
    from penstock.workload import Rates

MEASURED = {"worst": "max", "p99": "p99", "p50": "p50", "mean": "mean"}
"""What the simulator's latencies are called that stand beside those of an estimate."""

BATCHES = (
    "the statistics are of Spark, where rows also wait for batches: ask with --model microbatch, or give the cluster "
    "file a [spark] table"
)
"""What to say where nothing tells that a cluster is Spark but its statistics."""


def command(
    network: options.NetworkOptions,
    rates: options.RatesOptions,
    placement: options.PlacementOption,
    model: options.ModelOptions,
    answer: options.AnswerOptions,
    headroom: Annotated[
        float | None,
        typer.Option(
            "--headroom",
            metavar="S",
            parser=options.span,
            help="Also say how far rates can grow within this latency (s).",
        ),
    ] = None,
) -> None:
    """Estimate latency: worst case, quantiles, over time, and the host that limits it.

    Example: penstock estimate examples/two-chains/network.toml --hosts 1 --rates clicks=100,buys=20
    --placement views=h1,paid=h1,scored=h1,billed=h1
    """
    import numpy as np

    from penstock.cli import reading
    from penstock.latency.intervals import with_interval
    from penstock.latency.models import batches_unsaid, checked_bound, default_model, model_of
    from penstock.latency.second_opinion import second_opinion
    from penstock.latency.unended import note_on
    from penstock.load.setting import Setting
    from penstock.running.as_modelled import unlike
    from penstock.sizing.headroom import headroom as largest

    check = model.check()
    bound = None if headroom is None else checked_bound(headroom, "--headroom")
    graph, known, cluster = reading.get_deployment(network)
    placed = reading.get_placement(placement, graph, cluster)
    loads = reading.get_model(graph, *rates, known)
    decide = model_of(model.model or default_model(cluster, graph, placed))
    found = decide(loads, placed, cluster, known)
    found = with_interval(found, loads, placed, cluster, known, np.random.default_rng(answer.seed))
    document = {"network": graph.name, **found.document()}
    document["notes"] += second_opinion(found, loads, placed, cluster, known)
    if found.model == "microbatch":
        document["notes"] += _crowded(cluster, placed)
    elif model.model is None and batches_unsaid(cluster, placed, known):
        document["notes"].append(BATCHES)
    document["notes"] += note_on(found.unended, loads.rates.duration)
    if bound is not None:
        together, single = largest(loads, bound, lambda trial: decide(trial, placed, cluster, known).total.worst)
        document["headroom"] = {"latency": bound, "together": together, "sources": single}
    if check:
        deployed = Setting(network=graph, cluster=cluster, placement=placed, statistics=known)
        document["notes"] += unlike(graph, cluster, placed, found.model)
        document["simulation"] = _checked(found, deployed, loads.rates, answer.seed)
    if answer.json:
        common.answer(document)
        return
    _print(graph.name, found, document, loads.rates.start)


def _crowded(cluster: Cluster, placed: Placement) -> list[str]:
    """Return a note where ``run`` would start more hosts here than there are cores, which they would share."""
    from penstock.spark.hosts import cores_here

    cores, names = cores_here(), sorted(set(placed.values()))
    if cluster.crowded(names, cores) is cluster:
        return []
    here = ", ".join(
        name for name in names if cluster.hosts[name].spark is None and cluster.hosts[name].machine is None
    )
    return [f"penstock run starts {here} on this machine, where they share {cores} cores; here each has its own"]


def _print(name: str, found: Estimate, document: Document, start: float) -> None:
    """Show an estimate; ``start`` is when its rates begin, by the clock of their file (s)."""
    words = [*MEASURED]
    rows = [_row(f"all {found.units}", found.total)]
    if found.spread is not None and found.spread.draws and found.total.weight:
        rows.append(["p05 to p95", *(common.between(found.spread.total[word]) for word in words)])
    if found.units != "tuples":
        rows.append(_row("all tuples", found.tuples))
    rows += [_row(f"tuples of {sink}", row) for sink, row in found.sinks.items()]
    common.table(
        f"{name}: latency in s by the model {found.model}, bottleneck {found.bottleneck}", ["over", *words], rows
    )
    if found.episodes:
        common.table(
            "backlog: from when to when, and how long the last row waits (s)",
            ["host", "builds from", "to", "drained by", "wait"],
            [[e.host, *_moments(start, e.begins, e.peaks, e.ends), e.wait] for e in found.episodes],
        )
    if "headroom" in document:
        room = document["headroom"]
        rows = [["all together", room["together"]], *room["sources"].items()]
        common.table(
            f"headroom: factor on the rates within {room['latency']:g} s",
            ["source", "factor"],
            [[source, "any" if factor is None else factor or "none"] for source, factor in rows],
        )
    if "simulation" in document:
        check = document["simulation"]
        common.table(
            "checked with the simulator: latency in s over all tuples",
            ["", "estimated", "simulated", "disagreement"],
            [
                [word, estimated, check["latency"][key], _share(check["disagreement"][word])]
                for (word, key), estimated in zip(MEASURED.items(), _row("", found.tuples)[1:], strict=True)
            ],
        )
    bar = found.error
    error, so = (bar.cost_error, ", as the statistics may have,") if bar.cost_error else (0.01, "")
    common.say(
        f"an error of {100 * error:.3g} % in the costs on {bar.host} (load {bar.load:.3g}){so} is "
        f"{100 * error * bar.amplification:.3g} % of the worst"
    )
    common.say(f"statistics: {_source(found)}")
    for note in document["notes"]:
        common.say(f"note: {note}")


def _row(name: str, latency: Quantiles) -> list[object]:
    """Return a row of the table; what is over nothing is left blank."""
    return [name, *latency.told(unended=True).values()]


def _moments(start: float, *since: float) -> list[str]:
    """Return times (s) since the rates began by their own clock, however many digits that has before the point."""
    digits = 4 + (len(f"{abs(start):.0f}") if start else 0)
    return [common.number(start + at, digits) for at in since]


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:+.1f} %"


def _checked(found: Estimate, deployed: Setting, rates: Rates, seed: int) -> Document:
    """Return the simulator's latency, and how far that of the estimated tuples is above it, as a share."""
    from penstock.running.as_modelled import simulated

    latency = {key: float(value) for key, value in simulated(deployed, rates, found.model, seed).latency.items()}
    return {
        "latency": latency,
        "disagreement": {
            word: getattr(found.tuples, word) / latency[key] - 1 if latency["count"] and latency[key] else None
            for word, key in MEASURED.items()
        },
    }


def _source(found: Estimate) -> str:
    """Say where the costs come from, and how old they are."""
    origin = str(found.statistics.get("costs", ""))
    when = found.statistics.get("measured", {}).get("when")
    try:
        measured = calendar.timegm(time.strptime(str(when), "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return origin
    return f"{origin}, measured {max(0.0, time.time() - measured) / 3600:.3g} hours ago"
