"""How fast hosts' cores were in a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import Array
from penstock.load.statistics import HostStatistics
from penstock.running.prediction import Prediction

if TYPE_CHECKING:
    from penstock.spark.run import Outcome


def speed_of(
    outcome: Outcome, host: str, placement: Mapping[str, str], prediction: Prediction | None
) -> dict[str, float]:
    """Return how fast a host's core was in a run: ``speed`` (steps of a fixed loop a second), and what that is of
    what it was while calibrated (``core``), as far as these are known.
    """
    looks = [b for b in outcome.batches if b.rows and b.speed and placement.get(b.query) == host]
    known = None if prediction is None else prediction.statistics.hosts.get(host, HostStatistics()).speed
    if not looks:
        return {}
    # As calibration takes it: each batch counts as long as it took.
    steps = [np.mean([each for _, each in b.speed]) for b in looks]
    speed = float(np.average(steps, weights=[b.duration for b in looks]))
    return {"speed": speed} if known is None else {"speed": speed, "core": speed / known}


def speeds_of(outcome: Outcome, host: str, placement: Mapping[str, str], edges: Array) -> list[float | None]:
    """Return how fast a host's core was in each period (steps/s); None where no batch began or ended in it."""
    total, count = np.zeros(edges.size - 1), np.zeros(edges.size - 1)
    for batch in outcome.batches:
        for at, steps in batch.speed if placement.get(batch.query) == host else ():
            place = int(np.floor(at - outcome.epoch))
            if 0 <= place < total.size:
                total[place] += steps
                count[place] += 1
    return [float(a / b) if b else None for a, b in zip(total, count, strict=True)]
