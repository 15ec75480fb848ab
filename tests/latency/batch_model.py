"""The model of micro-batches with its numbers given one by one, as tests need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

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
    **more: Any,
) -> MicrobatchResult:
    """Predict as `reference_batches.microbatch` does; ``more`` goes to `penstock.latency.carried.carried`."""
    made = carried(model, fragments, **more)
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
    )
    return predicted(made, fragments, pace, factors)
