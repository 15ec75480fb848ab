"""The latency models by their names on the command line."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from penstock.cluster import Cluster
from penstock.errors import InputError
from penstock.files import suggest
from penstock.latency.estimate import Estimate
from penstock.load import LoadModel, Statistics
from penstock.network import Network

MODELS: Mapping[str, tuple[str, str]] = {
    "mace": ("mace", "mace"),
    "pipelined": ("pipelined", "pipelined"),
    "microbatch": ("batches", "microbatch_estimate"),
    "sharing": ("sharing", "sharing"),
}
"""Name to module and function; imported when used."""

Model = Callable[[LoadModel, Mapping[str, str], Cluster, Statistics | None], Estimate]


def model_of(name: str) -> Model:
    """Return a latency model by name.

    Raises
    ------
    InputError
        If there is no such model.
    """
    if name not in MODELS:
        raise InputError(f"{name!r} is no latency model", at="--model", hint=suggest(name, MODELS, "models"))
    module, function = MODELS[name]
    found: Model = getattr(importlib.import_module(f"penstock.latency.{module}"), function)
    return found


def above_backlog(name: str, network: Network) -> bool:
    """Whether a model never answers less than the largest backlog of a host.

    What a join with count windows yields of a late input has the stimulus of the prompt one, so that `pipelined` may
    answer less; micro-batches have costs of their own.
    """
    joins = any(operator.counts is not None for operator in network.operators.values())
    return name == "mace" or (name == "pipelined" and not joins)


def checked_bound(latency: float, at: str = "--latency") -> float:
    """Return a latency bound (s) if it is one."""
    if not (latency >= 0 and latency < float("inf")):
        raise InputError(f"expected a finite number of seconds >= 0, got {latency}", at=at)
    return latency


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
    other = {"mace": "pipelined", "pipelined": "mace"}.get(found.model)
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
