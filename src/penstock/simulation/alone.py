"""Hosts that decide by themselves what to keep, each from its own table, again and again in virtual time."""

from __future__ import annotations

import math
from collections.abc import Mapping

from penstock.files import Document
from penstock.shedding.doors import decided
from penstock.shedding.host_table import HostTable
from penstock.simulation.run import Simulation

STEP = 0.25
"""Seconds between two decisions of a host that serves tuple by tuple; one that works in batches decides before each."""


class Alone:
    """The tables of a run's hosts, and what came since they decided last.

    Parameters
    ----------
    documents
        By host: `HostTable.document`.
    """

    def __init__(self, documents: Mapping[str, Document], sim: Simulation) -> None:
        self.tables = {host: HostTable.of(document) for host, document in documents.items()}
        self.versions = {host: str(document["id"]) for host, document in documents.items()}
        batches = sim.options.microbatch
        self._step = batches.trigger if batches is not None and batches.trigger > 0 else STEP
        self._take(sim)

    @property
    def due(self) -> float:
        """When they decide next (s)."""
        return (math.floor(self._at / self._step + 1e-9) + 1) * self._step

    def decide(self, sim: Simulation) -> None:
        """Let every host decide from what has come since the last time."""
        at, entered, arrived = self._at, self._entered, self._arrived
        self._take(sim)
        long = self._at - at
        if long <= 0 or not self.tables:
            return
        keep = decided(
            sim.network,
            self.tables,
            {name: (count - entered.get(name, 0)) / long for name, count in self._entered.items()},
            {name: (count - arrived.get(name, 0)) / long for name, count in self._arrived.items()},
        )
        sim.keep({name: share for name, share in keep.items() if name in self._arrived})

    def _take(self, sim: Simulation) -> None:
        self._at, self._arrived = sim.at, sim.arrived()
        self._entered = dict(zip(sim.network.sources, sim.entered().tolist(), strict=True))
