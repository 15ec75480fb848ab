"""The interval of an estimate: the same model again, with what the statistics do not know drawn by chance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
import numpy as np

from penstock.cluster import Cluster
from penstock.errors import TooLong
from penstock.latency.batches import BatchHosts
from penstock.latency.draws import DRAWS, certain, draw, guessed, homes
from penstock.latency.estimate import Estimate, Spread
from penstock.latency.models import model_of, timed
from penstock.latency.recosted import recosted
from penstock.latency.spread import spread_of
from penstock.load import LoadModel, Statistics, load_model

FEW, NUMBERS = 50, 20_000_000
"""Draws of models that are slower than Mace, and loads (operators times periods times draws) followed at most."""

UNDRAWN = "the interval was not drawn"
"""How the note begins of a prediction whose interval is the prediction itself."""


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
    why = undrawn(statistics, placement.values())
    if found.model == "microbatch":
        placed = BatchHosts.of(statistics, cluster).placed(model, placement)
        spread = placed.spread(rng, scheduled=model.network.scheduled, ends=True)
    else:
        found = attrs.evolve(found, notes=(*found.notes, *guessed(statistics, placement.values())))
        try:
            spread = _recomputed(found, model, placement, cluster, statistics, rng)
        except TooLong:
            spread, why = None, f"{UNDRAWN}: costs may be so high that the backlog is too long to be followed"
    if spread is None:
        nothing = Spread.none(found.total, found.sinks, found.series)
        return attrs.evolve(found, spread=nothing, notes=(*found.notes, why))
    return attrs.evolve(found, spread=spread.around(found.total, found.sinks, found.series))


def undrawn(statistics: Statistics | None, hosts: Iterable[str]) -> str:
    """Return the note of a prediction whose interval is the prediction itself."""
    why = "no errors of the costs are known" if certain(statistics, hosts) else "it would take too long"
    return f"{UNDRAWN}: {why}"


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
    if certain(statistics, placement.values()) or model.load.size * count > NUMBERS:
        return None
    cluster, statistics = timed(found.model, cluster, statistics)
    names, network = list(cluster.hosts), model.network
    drawn = draw(model, placement, names, statistics, rng, count=count)
    home = homes(placement, statistics)
    place = [names.index(home[name]) for name in network.operators]
    scale = drawn.cost * (drawn.factor * drawn.speed * drawn.wander[:, :, 0])[:, place]
    if found.model == "mace":
        return spread_of(*recosted(model, placement, cluster, scale, found.units))
    decide, answers = model_of(found.model), []
    for row in scale.tolist():
        dear = [
            attrs.evolve(operator, cost=tuple(cost * factor for cost in operator.cost or ()))
            for operator, factor in zip(network.operators.values(), row, strict=True)
        ]
        answers.append(decide(load_model(network.having(dear), model.rates), placement, cluster, statistics))
    totals = [answer.total if answer.units == found.units else answer.tuples for answer in answers]
    rows = np.array([[*total.by_key().values()] for total in totals])
    sinks = {name: np.array([[*answer.sinks[name].by_key().values()] for answer in answers]) for name in found.sinks}
    return spread_of(rows, sinks, np.array([answer.series for answer in answers]))
