"""The latency models by their names on the command line."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping

import attrs

from penstock.cluster import Cluster, with_copies
from penstock.errors import InputError
from penstock.files import suggest
from penstock.latency.batches import in_time, microbatch_estimate
from penstock.latency.estimate import Estimate
from penstock.latency.mace import mace
from penstock.latency.many import Many
from penstock.latency.pipelined import pipelined
from penstock.latency.real_time import batched
from penstock.latency.sharing import sharing
from penstock.load import LoadModel, Statistics
from penstock.network import Network

Model = Callable[[LoadModel, Mapping[str, str], Cluster, Statistics | None], Estimate]


def in_place(model: Model) -> Model:
    """Return a model of single tuples whose hosts are as fast as statistics say that they are in place."""

    @functools.wraps(model)
    def estimate(
        load: LoadModel, placement: Mapping[str, str], cluster: Cluster, statistics: Statistics | None = None
    ) -> Estimate:
        return model(load, placement, *in_time(cluster, statistics))

    return estimate


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
    factors
        Whether it reads hosts' factors itself.
    many
        What searches ask for the worst latencies of many placements, where that is faster.
    """

    estimate: Model
    above_backlog: Callable[[Network], bool] = lambda _: False
    second: str | None = None
    factors: bool = False
    many: Callable[[LoadModel, Cluster, Statistics | None], Many] | None = None


MODELS: Mapping[str, Row] = {
    "mace": Row(mace, lambda _: True, second="pipelined"),
    "pipelined": Row(pipelined, _without_count_joins, second="mace"),
    "microbatch": Row(microbatch_estimate, factors=True, many=Many),
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
        Operators and replicas; of these the models of Spark know nothing, so that with them it is Mace.

    Raises
    ------
    InputError
        If some run in real-time mode and some in micro-batches: no model follows both.
    """
    replicas = with_copies(placement)
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


def batches_unsaid(cluster: Cluster, placement: Iterable[str], statistics: Statistics) -> bool:
    """Whether only statistics tell that a cluster is Spark, so that `default_model` gave one that knows no batches."""
    if cluster.spark.given or with_copies(placement):
        return False
    return any(host.overhead for host in statistics.hosts.values())


def timed(name: str, cluster: Cluster, statistics: Statistics | None) -> tuple[Cluster, Statistics | None]:
    """Return a cluster and statistics as a model sees them (`in_time`), for searches that weigh loads by themselves."""
    return (cluster, statistics) if row_of(name).factors else in_time(cluster, statistics)


def model_of(name: str) -> Model:
    """Return a latency model by name.

    Raises
    ------
    InputError
        If there is no such model.
    """
    row = row_of(name)
    return row.estimate if row.factors else in_place(row.estimate)


def above_backlog(name: str, network: Network) -> bool:
    """Whether a model never answers less than the largest backlog of a host."""
    return row_of(name).above_backlog(network)


def row_of(name: str) -> Row:
    """Return what is known of a model by name."""
    if name not in MODELS:
        raise InputError(f"{name!r} is no latency model", at="--model", hint=suggest(name, MODELS, "models"))
    return MODELS[name]


def many_of(name: str, model: LoadModel, cluster: Cluster, statistics: Statistics | None) -> Many | None:
    """Return what says the worst latencies of many placements faster than the model does, if there is anything."""
    many = row_of(name).many
    return None if many is None else many(model, cluster, statistics)


def checked_bound(latency: float, at: str = "--latency") -> float:
    """Return a latency bound (s) if it is one."""
    if not (latency >= 0 and latency < float("inf")):
        raise InputError(f"expected a finite number of seconds >= 0, got {latency}", at=at)
    return latency
