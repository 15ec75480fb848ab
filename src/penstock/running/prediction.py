"""What the micro-batch model says of a run before it begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.latency.batches import BatchHosts, PlacedBatches
from penstock.latency.estimate import ErrorBar, Quantiles, Spread
from penstock.latency.intervals import undrawn
from penstock.latency.microbatch import MicrobatchResult
from penstock.load import LoadModel, Statistics, load_model
from penstock.load.setting import Setting
from penstock.network import Network
from penstock.workload import Rates

if TYPE_CHECKING:
    from penstock.shedding.live import Shedder

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
    error
        What an error of the bottleneck's costs does to it.
    spread
        How far off it may be, if that was asked for.
    notes
        What the prediction leaves out, as interval and all.
    """

    model: LoadModel
    result: MicrobatchResult
    statistics: Statistics
    error: ErrorBar
    spread: Spread | None = None
    notes: tuple[str, ...] = ()


def predict(
    setting: Setting,
    rates: Rates,
    keep: Mapping[str, float | Array] | None = None,
    *,
    rng: np.random.Generator | None = None,
    scheduled: bool = True,
) -> Prediction:
    """Predict batches and latencies of what is deployed, under given rates and keep fractions.

    Costs that the network leaves open come from the statistics, as in every command.

    Parameters
    ----------
    setting
        What is deployed; its own rates and keep fractions do not count.
    rng
        Where the chance of the interval comes from; None: no interval.
    scheduled
        Whether the rates begin at a multiple of the trigger.

    Raises
    ------
    InputError
        If a cost is unknown.
    """
    statistics = setting.statistics
    model = load_model(statistics.complete(setting.network), rates)
    placed = BatchHosts.of(statistics, setting.cluster).placed(model, setting.placement, keep)
    result, notes = placed.run(), placed.notes
    spread = None if rng is None else interval(placed, result, rng, scheduled)
    if spread is not None and not spread.draws:
        notes = (*notes, undrawn(statistics, setting.placement.values()))
    return Prediction(model, result, statistics, placed.error_bar(result), spread, notes)


def interval(
    placed: PlacedBatches, result: MicrobatchResult, rng: np.random.Generator, scheduled: bool = True
) -> Spread:
    """Return the interval of a prediction; where no error is known, nothing but the prediction."""
    told = (
        result.quantiles(),
        {name: Quantiles.of(row[1], row[2]) for name, row in result.sinks.items()},
        result.worst(placed.model.period, placed.model.rates.periods),
    )
    spread = placed.spread(rng, scheduled=scheduled)
    return Spread.none(*told) if spread is None else spread.around(*told)


def kept(shedder: Shedder, network: Network, rates: Rates) -> dict[str, Array]:
    """Return the keep fraction of each stream in each period, as a plan table answers its rates."""
    found = {stream.name: np.ones(rates.periods) for stream in network.streams}
    order = [rates.sources.index(name) for name in shedder.sources]
    for number, now in enumerate(rates.values[order].T):
        for name, share in shedder.plan_of(now).items():
            found[name][number] = share
    return {name: row for name, row in found.items() if row.min() < 1}
