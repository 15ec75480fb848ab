"""Batches that have ended, beside what they would have taken as measured before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from penstock.cluster import Cluster
from penstock.latency.batches import BatchHosts
from penstock.latency.cores import alone
from penstock.latency.fragments import fragments
from penstock.load import Statistics
from penstock.load.counted import work_of
from penstock.network import Network
from penstock.running.drift import Seen

if TYPE_CHECKING:
    from penstock.spark.run import Batch


class Batches(Protocol):
    """Micro-batches that have ended, of a run that is over or goes on."""

    @property
    def batches(self) -> Sequence[Batch]:
        """All of them, or the last."""

    @property
    def epoch(self) -> float:
        """When the run began (s since 1970)."""

    @property
    def begun(self) -> Sequence[float]:
        """When it began and went on after each stop (s since 1970); empty: only once."""


def seen(
    network: Network, cluster: Cluster, placement: Mapping[str, str], statistics: Statistics, run: Batches
) -> list[Seen]:
    """Return a run's batches, as they ended, with what they would have taken as measured before.

    Parameters
    ----------
    network
        With every cost known.
    """
    hosts = BatchHosts.of(statistics, cluster)
    queries = {fragment.name: fragment for fragment in fragments(network, placement)}
    host_of = {name: fragment.host for name, fragment in queries.items()}
    machines = {name: machine for machine, (members, _) in hosts.machines.items() for name in members}
    groups: dict[str, list[Batch]] = {}
    for batch in run.batches:
        if batch.known and batch.query in host_of:
            host = host_of[batch.query]
            groups.setdefault(machines.get(host, f"host {host}"), []).append(batch)
    found = []
    for name, batches in groups.items():
        cores = float(hosts.machines[name][1]) if name in hosts.machines else 1.0
        spans = [(batch.start, batch.start + batch.duration) for batch in batches]
        took = alone(spans, cores, [host_of[batch.query] for batch in batches])
        for batch, own in zip(batches, took, strict=True):
            host = host_of[batch.query]
            fixed = hosts.overhead[host] if batch.rows else hosts.idle.get(host, hosts.overhead[host])
            fixed += hosts.for_state(queries[batch.query].operators)
            expected = fixed + hosts.factor[host] * work_of(network, batch.counts)
            start = batch.start - run.epoch
            core = core_of(batch, hosts.of_host(host).speed)
            age = batch.start - max((at for at in (run.epoch, *run.begun[1:]) if at <= batch.start), default=run.epoch)
            found.append(Seen(host, start, start + batch.duration, own, expected, fixed, core, batch.query, age=age))
    return sorted(found, key=lambda each: each.end)


def core_of(batch: Batch, calibrated: float | None) -> float | None:
    """Return how fast a batch's core was, as a share of what it was while calibrated; None where either is unknown."""
    if calibrated is None or not batch.speed:
        return None
    return float(np.mean([steps for _, steps in batch.speed])) / calibrated


def slower(batches: Iterable[Seen]) -> dict[str, float]:
    """Return by host how many times as long its batches took as had been measured before."""
    took: dict[str, tuple[float, float]] = {}
    for batch in batches:
        own, expected = took.get(batch.host, (0.0, 0.0))
        took[batch.host] = own + batch.duration, expected + batch.expected
    return {host: own / expected for host, (own, expected) in took.items() if own > 0 and expected > 0}
