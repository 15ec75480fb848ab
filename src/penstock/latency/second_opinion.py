"""Where mace and pipelined differ by more than their bars."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.cluster import Cluster, with_copies
from penstock.errors import InputError
from penstock.latency.estimate import Estimate
from penstock.latency.models import model_of, row_of
from penstock.latency.pipelined import slices
from penstock.load import LoadModel, Statistics

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
    other = row_of(found.model).second
    replicas = with_copies(placement)
    # Backlog on one host alone is the same for both.
    behind = sum(bool(series.any()) for series in found.excess.values())
    costly = other == "pipelined" and model.load.size * slices(model.period) > SLICES
    if other is None or replicas or behind < 2 or costly:
        return []
    try:
        second = model_of(other)(model, placement, cluster, statistics)
    except InputError:
        # The backlog is too long for the other model: nobody has asked for it.
        return []
    low, high = sorted((found, second), key=lambda each: each.total.worst)
    gap = high.total.worst - low.total.worst
    bars = sum(each.error.relative * each.total.worst for each in (low, high)) + model.period
    if gap <= bars:
        return []
    return [
        f"{other} says {second.total.worst:.4g} s: the models differ by more than their error bars, because backlog "
        "forms on one host after another; pipelined follows it"
    ]
