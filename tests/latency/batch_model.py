"""The model of micro-batches with its numbers given one by one, as tests need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.arrays import Array
from penstock.latency.carried import carried
from penstock.latency.fragments import Fragment
from penstock.latency.microbatch import COMMIT, READING, MicrobatchResult, predicted
from penstock.latency.shape import Pace
from penstock.load import LoadModel


def microbatch(
    model: LoadModel,
    fragments: Sequence[Fragment],
    *,
    trigger: float,
    overhead: Mapping[str, float] | None = None,
    factor: Mapping[str, float] | None = None,
    idle: Mapping[str, float] | None = None,
    reading: float = READING,
    commit: float = COMMIT,
    progressive: bool = False,
    drain: float = 3600.0,
    keep: Mapping[str, float | Array] | None = None,
    machines: Mapping[str, tuple[Sequence[str], float]] | None = None,
) -> MicrobatchResult:
    """Predict every batch and every tuple's latency, from plain numbers instead of a cluster and statistics.

    Parameters
    ----------
    model
        The load model: rates, costs, selectivities.
    fragments
        The streaming queries.
    trigger
        Interval of the micro-batches (s); multiples count from the beginning of the rates.
    overhead, factor
        By host: seconds per batch, and what in-place costs are of the model's costs.
    idle
        By host: seconds per batch without input, where they differ from the overhead.
    reading
        Seconds after its start at which a batch sees its input.
    commit
        Seconds between the output's becoming visible and the batch's end.
    progressive
        Whether output appears evenly during the batch (Kafka) rather than at its end (directory).
    drain
        Seconds after the end of the rates at which the recursion stops at the latest.
    keep
        Keep fractions by stream: fixed, or one per period of the rates for what enters in it.
    machines
        By name: hosts that share a machine, and on how many cores.
    """
    made = carried(model, fragments, progressive=progressive, keep=keep, machines=machines)
    overhead, factor, idle = overhead or {}, factor or {}, idle or {}
    factors = [factor.get(host, 1.0) for host in made.hosts]
    pace = Pace(
        trigger=trigger,
        phase=0.0,
        overhead=[overhead.get(host, 0.0) for host in made.hosts],
        idle=[idle.get(host, overhead.get(host, 0.0)) for host in made.hosts],
        work=made.seconds(factors),
        noise=[np.ones(1) for _ in made.hosts],
        reading=reading,
        commit=commit,
        limit=model.rates.duration + drain,
    )
    return predicted(made, fragments, pace, factors)
