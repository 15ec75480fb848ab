"""The latency models by their names on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import attrs
import numpy as np

from penstock.cluster import Cluster, base_name
from penstock.errors import InputError
from penstock.files import suggest
from penstock.latency.batches import BatchHosts, microbatch_estimate
from penstock.latency.draws import DRAWS, certain, draw
from penstock.latency.estimate import Estimate, Spread
from penstock.latency.mace import mace
from penstock.latency.pipelined import pipelined
from penstock.latency.real_time import batched
from penstock.latency.sharing import sharing
from penstock.latency.spread import spread_of
from penstock.load import LoadModel, Statistics, load_model
from penstock.network import Network

Model = Callable[[LoadModel, Mapping[str, str], Cluster, Statistics | None], Estimate]


def _without_count_joins(network: Network) -> bool:
    return all(operator.counts is None for operator in network.operators.values())


@attrs.frozen
class Row:
    """One latency model.

    Attributes
    ----------
    estimate
        The function.
    above_backlog
        For which networks it never answers less than the largest backlog of a host. What a join with count windows
        yields of a late input has the stimulus of the prompt one, so that `pipelined` may answer less; micro-batches
        have costs of their own.
    second
        The model that is asked for a second opinion.
    """

    estimate: Model
    above_backlog: Callable[[Network], bool] = lambda _: False
    second: str | None = None


MODELS: Mapping[str, Row] = {
    "mace": Row(mace, lambda _: True, second="pipelined"),
    "pipelined": Row(pipelined, _without_count_joins, second="mace"),
    "microbatch": Row(microbatch_estimate),
    "sharing": Row(sharing),
}


MODES: Mapping[str, str] = {"micro-batch": "microbatch", "real-time": "mace"}
"""The model of each of Spark's modes."""


def default_model(cluster: Cluster, network: Network, placement: Iterable[str] = ()) -> str:
    """Return the name of the model that fits a cluster: of its mode, if it says that it is Spark, else Mace.

    Parameters
    ----------
    network
        What runs there: of a cluster in real-time mode, some operators may run in micro-batches all the same.
    placement
        Operators and replicas; Spark runs no replicas, so that with them it is Mace.

    Raises
    ------
    InputError
        If some run in real-time mode and some in micro-batches: no model follows both.
    """
    replicas = any("#" in name for name in placement)
    if not cluster.spark.given or replicas:
        return "mace"
    slow = batched(network, cluster.spark)
    if not slow or len(slow) == len(network.operators):
        return MODES["micro-batch" if slow else "real-time"]
    name, why = next(iter(slow.items()))
    raise InputError(
        f"{name!r} {why}, so that it runs in micro-batches and others in real-time mode; no model follows both",
        at="--model",
        hint="--model microbatch takes all for micro-batches, which is slower than what runs",
    )


def model_of(name: str) -> Model:
    """Return a latency model by name.

    Raises
    ------
    InputError
        If there is no such model.
    """
    return _row(name).estimate


def above_backlog(name: str, network: Network) -> bool:
    """Whether a model never answers less than the largest backlog of a host."""
    return _row(name).above_backlog(network)


def _row(name: str) -> Row:
    if name not in MODELS:
        raise InputError(f"{name!r} is no latency model", at="--model", hint=suggest(name, MODELS, "models"))
    return MODELS[name]


def checked_bound(latency: float, at: str = "--latency") -> float:
    """Return a latency bound (s) if it is one."""
    if not (latency >= 0 and latency < float("inf")):
        raise InputError(f"expected a finite number of seconds >= 0, got {latency}", at=at)
    return latency


FEW, NUMBERS = 50, 20_000_000
"""Draws of models that are slower than Mace, and loads (operators times periods times draws) followed at most."""


def with_interval(
    found: Estimate,
    model: LoadModel,
    placement: Mapping[str, str],
    cluster: Cluster,
    statistics: Statistics | None,
    rng: np.random.Generator,
) -> Estimate:
    """Return an estimate with its interval: the same model again, with what the statistics do not know drawn by chance.

    Parameters
    ----------
    found
        The estimate.
    rng
        Where chance comes from.
    """
    spread: Spread | None
    if found.model == "microbatch":
        placed = BatchHosts.of(statistics, cluster).placed(model, placement)
        spread = placed.spread(rng, scheduled=model.network.scheduled)
    else:
        spread = _recomputed(found, model, placement, cluster, statistics, rng)
    if spread is None:
        nothing = Spread.none(found.total, found.sinks, found.series)
        why = "no errors of the costs are known" if certain(statistics) else "it would take too long"
        return attrs.evolve(found, spread=nothing, notes=(*found.notes, f"the interval was not drawn: {why}"))
    return attrs.evolve(found, spread=spread.around(found.total, found.sinks, found.series))


def _recomputed(
    found: Estimate,
    model: LoadModel,
    placement: Mapping[str, str],
    cluster: Cluster,
    statistics: Statistics | None,
    rng: np.random.Generator,
) -> Spread | None:
    """Return the interval of a model of single tuples: factors and speeds of hosts are drawn as part of the costs."""
    count = DRAWS if found.model == "mace" else FEW
    if certain(statistics) or model.load.size * count > NUMBERS:
        return None
    names, network, decide = list(cluster.hosts), model.network, model_of(found.model)
    drawn = draw(model, placement, names, statistics, rng, count=count)
    home = {base_name(copy): names.index(host) for copy, host in placement.items()}
    place = [home[name] for name in network.operators]
    scale = drawn.cost * (drawn.factor * drawn.speed * drawn.wander[:, :, 0])[:, place]
    answers = []
    for row in scale.tolist():
        dear = [
            attrs.evolve(operator, cost=tuple(cost * factor for cost in operator.cost or ()))
            for operator, factor in zip(network.operators.values(), row, strict=True)
        ]
        made = Network.of(network.name, network.sources.values(), dear, network.sinks.values(), network.file)
        answers.append(decide(load_model(made, model.rates), placement, cluster, statistics))
    rows = np.array([attrs.astuple(answer.total) for answer in answers])
    sinks = {name: np.array([attrs.astuple(answer.sinks[name]) for answer in answers]) for name in found.sinks}
    return spread_of(rows, sinks, np.array([answer.series for answer in answers]))


SLICES = 200_000
"""Operators times slices up to which a second opinion is asked for."""


def second_opinion(
    found: Estimate,
    model: LoadModel,
    placement: Mapping[str, str],
    cluster: Cluster,
    statistics: Statistics | None = None,
) -> list[str]:
    """Return a note if mace and pipelined differ by more than their bars, for networks where asking costs little.

    The bars are those of the costs, and for each the span in which the model itself may be off: a period for mace,
    a slice for pipelined.
    """
    other = _row(found.model).second
    replicas = any("#" in name for name in placement)
    # Backlog on one host alone is the same for both.
    behind = sum(bool(series.any()) for series in found.excess.values())
    if other is None or replicas or behind < 2 or 10 * model.load.size > SLICES:
        return []
    second = model_of(other)(model, placement, cluster, statistics)
    low, high = sorted((found, second), key=lambda each: each.total.worst)
    gap = high.total.worst - low.total.worst
    bars = sum(each.error.relative * each.total.worst for each in (low, high)) + model.period
    if gap <= bars:
        return []
    return [
        f"{other} says {second.total.worst:.4g} s: the models differ by more than their error bars, because backlog "
        "forms on one host after another; pipelined follows it"
    ]
