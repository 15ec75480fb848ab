"""New operators beside what runs, and how far off estimates of both may be."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from penstock.cluster import Placement
from penstock.latency.estimate import Estimate
from penstock.load.setting import Setting
from penstock.network import Network
from penstock.sizing.candidates import Doubt
from penstock.sizing.sure import drawn


def beside(running: Setting, whole: Network, added: Mapping[str, str]) -> Setting:
    """Return what runs together with new operators, on the hosts where they are put."""
    return attrs.evolve(running, network=whole, placement=Placement({**running.placement, **added}))


def doubting(running: Setting, whole: Network, seed: int, *, sure: bool) -> Doubt:
    """Return what gives estimates of new operators beside what runs their intervals, by the same chance each time."""

    def doubt(found: Estimate, added: Mapping[str, str]) -> Estimate:
        return drawn(found, beside(running, whole, added), np.random.default_rng(seed), sure=sure)

    return doubt
