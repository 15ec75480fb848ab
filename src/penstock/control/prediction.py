"""The chain from statistics to a run and back: predict, run, compare.

Nothing here needs Spark until a run begins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.cluster import Cluster, Placement
from penstock.errors import EngineError
from penstock.files import Document
from penstock.latency.batches import BatchHosts, PlacedBatches
from penstock.latency.estimate import Quantiles, Spread
from penstock.latency.mace import error_bar as latency_bar
from penstock.latency.microbatch import MicrobatchResult, weighted_quantile
from penstock.load import LoadModel, Statistics, load_model
from penstock.network import Network
from penstock.workload import Rates

if TYPE_CHECKING:
    from penstock.shedding.live import Shedder
    from penstock.simulation import SimulationResult
    from penstock.spark.run import Outcome

Report = Callable[[str, float], None]


@attrs.frozen(eq=False)
class Prediction:
    """What the micro-batch model says of a run, before it begins.

    Attributes
    ----------
    model, statistics
        What it rests on.
    result
        The batches, and the latency of every tuple.
    spread
        How far off it may be, if that was asked for.
    """

    model: LoadModel
    result: MicrobatchResult
    statistics: Statistics
    spread: Spread | None = None


def predict(
    network: Network,
    cluster: Cluster,
    placement: Mapping[str, str],
    rates: Rates,
    statistics: Statistics,
    keep: Mapping[str, float | Array] | None = None,
    *,
    rng: np.random.Generator | None = None,
    scheduled: bool = True,
) -> Prediction:
    """Predict batches and latencies of a placed network under given rates and keep fractions.

    Costs that the network leaves open come from the statistics, as in every command.

    Parameters
    ----------
    rng
        Where the chance of the interval comes from; None: no interval.
    scheduled
        Whether the rates begin at a multiple of the trigger.

    Raises
    ------
    InputError
        If a cost is unknown.
    """
    model = load_model(statistics.complete(network), rates)
    placed = BatchHosts.of(statistics, cluster).placed(model, placement, keep)
    result = placed.run()
    return Prediction(model, result, statistics, None if rng is None else interval(placed, result, rng, scheduled))


def interval(
    placed: PlacedBatches, result: MicrobatchResult, rng: np.random.Generator, scheduled: bool = True
) -> Spread:
    """Return the interval of a prediction; where no error is known, nothing but the prediction."""
    _, latency, weight = result.whole()
    told = (
        Quantiles.of(latency, weight),
        {name: Quantiles.of(row[1], row[2]) for name, row in result.sinks.items()},
        result.worst(placed.model.period, placed.model.rates.periods),
    )
    spread = placed.spread(rng, scheduled=scheduled)
    return Spread.none(*told) if spread is None else spread.around(*told)


def priced(network: Network, statistics: Statistics) -> bool:
    """Whether the cost of every operator is known."""
    return all(operator.cost is not None for operator in statistics.complete(network).operators.values())


def kept(shedder: Shedder, network: Network, rates: Rates) -> dict[str, Array]:
    """Return the keep fraction of each stream in each period, as a plan table answers its rates."""
    found = {stream.name: np.ones(rates.periods) for stream in network.streams}
    order = [rates.sources.index(name) for name in shedder.sources]
    for number, now in enumerate(rates.values[order].T):
        for name, share in shedder.plan_of(now).items():
            found[name][number] = share
    return {name: row for name, row in found.items() if row.min() < 1}


def simulated(
    network: Network,
    cluster: Cluster,
    placement: Mapping[str, str],
    rates: Rates,
    statistics: Statistics,
    model: str = "microbatch",
    seed: int = 0,
) -> SimulationResult:
    """Simulate a run the way a latency model sees it: in micro-batches with the statistics' overheads, or tuple-wise.

    Parameters
    ----------
    model
        Of `penstock.latency.models`; all but ``microbatch`` serve single tuples, the oldest stimulus first.
    """
    from penstock.simulation import MicroBatch, Options, simulate

    batches = None
    if model == "microbatch":
        hosts = BatchHosts.of(statistics, cluster)
        batches = MicroBatch(trigger=hosts.trigger, overhead=hosts.fixed(placement), progressive=hosts.progressive)
        cluster = hosts.paced(cluster)
    options = Options(policy="stimulus", drain=True, microbatch=batches)
    return simulate(network, cluster, Placement(dict(placement)), rates, options, seed=seed)


def worst_simulated(
    network: Network,
    cluster: Cluster,
    placement: Mapping[str, str],
    rates: Rates,
    statistics: Statistics,
    model: str,
    seed: int,
) -> float:
    """Return the worst latency (s) that `simulated` measures; 0 where nothing comes out."""
    latency = simulated(network, cluster, placement, rates, statistics, model, seed).latency
    return float(latency["max"]) if latency["count"] else 0.0


def summary(latency: Array, weight: Array | None = None) -> dict[str, float]:
    """Return mean, p50, p99, max and count of latencies (s)."""
    weights = np.ones(latency.size) if weight is None else weight
    total = float(weights.sum())
    if total <= 0:
        return {"mean": 0.0, "p50": 0.0, "p99": 0.0, "max": 0.0, "count": 0}
    there = weights > 0
    return {
        "mean": float(latency @ weights / total),
        "p50": weighted_quantile(latency, weights, 0.5),
        "p99": weighted_quantile(latency, weights, 0.99),
        "max": float(latency[there].max()),
        "count": round(total),
    }


def error_bar(prediction: Prediction, placement: Mapping[str, str], cluster: Cluster) -> Document:
    """Return how an error of the bottleneck's cost shows in the worst latency: e·ρ/(ρ−1) while it is overloaded."""
    paced = BatchHosts.of(prediction.statistics, cluster).paced(cluster)
    bar = latency_bar(prediction.model, placement, paced, prediction.statistics)
    return {"host": bar.host, "load": bar.load, "cost_error": bar.cost_error, "latency_error": bar.relative}


def learned(
    network: Network,
    cluster: Cluster,
    placement: Mapping[str, str],
    outcome: Outcome,
    rates: Rates | None,
    statistics: Statistics,
) -> Statistics:
    """Return statistics as a run showed them: overhead and factor of its hosts, selectivities.

    Its beginning does not count as far as its batches show that code was young: the rule of all calibration in place.

    Raises
    ------
    EngineError
        If a host had too few batches, or all of one size, and nothing is known of it.
    """
    from penstock.spark.calibrate import calibrate_in_place

    if rates is None:
        raise EngineError("nothing to learn from: no tuple came")
    return calibrate_in_place(statistics, network, cluster, placement, outcome, rates)


def measured_rates(network: Network, outcome: Outcome, *, even: bool = False) -> Rates | None:
    """Return the rates at which tuples of sources came, from the batches of a run; None if there were none.

    ``even``: they came evenly while a batch lasted, as in real-time mode, and not all before it.
    """
    batches = [b for b in outcome.batches if b.rows]
    if not batches:
        return None
    begin = min(b.start for b in batches)
    length = int(max(b.start + even * b.duration for b in batches) - begin) + 1
    values = {name: np.zeros(length) for name in network.sources}
    for name in network.sources:
        # Every reader of a source sees all of it: one of its streams is enough.
        stream = next((stream.name for stream in network.outputs(name)), "")
        for batch in batches:
            first = min(int(batch.start - begin), length - 1)
            last = min(int(batch.start + even * batch.duration - begin), length - 1)
            values[name][first : last + 1] += batch.counts.get(stream, (0, 0))[0] / (last + 1 - first)
    return Rates.of(1.0, values)


def where(directory: str | os.PathLike[str] | None, network: Network) -> str:
    """Return the folder of a run: the one that is named, or ``.penstock/<network name>``."""
    return str(directory) if directory is not None else os.path.join(".penstock", network.name)
