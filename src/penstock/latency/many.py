"""The worst latencies of many placements of one network, by the recursion over micro-batches: for searches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.cluster import Cluster
from penstock.latency.batches import BatchHosts, without_replicas
from penstock.load import LoadModel, Statistics


class Worst(NamedTuple):
    """The worst latency (s) of a placed network: over all tuples, also those that end in an operator, and by sink."""

    total: float
    sinks: Mapping[str, float]


class Many:
    """Says of one placement after another what `microbatch_estimate` would call the worst latencies.

    Hosts that are joined by no machine and no stream do nothing to each other, so that each such part of a placement
    is followed by itself, and only once.
    """

    def __init__(self, model: LoadModel, cluster: Cluster, statistics: Statistics | None) -> None:
        self.model, self.hosts = model, BatchHosts.of(statistics, cluster)
        self.known: dict[frozenset[tuple[str, str]], Mapping[str, float]] = {}

    def worst(self, placement: Mapping[str, str]) -> Worst:
        """Return the worst latencies of a placement.

        Raises
        ------
        InputError
            As `microbatch_estimate` does.
        """
        without_replicas(placement)
        found: dict[str, float] = {}
        for part in self.parts(placement):
            key = frozenset(part.items())
            if key not in self.known:
                self.known[key] = self.hosts.placed(self.model, part).worst()
            found |= self.known[key]
        sinks = {name: found.get(name, 0.0) for name in self.model.network.sinks}
        return Worst(max(found.values(), default=0.0), sinks)

    def parts(self, placement: Mapping[str, str]) -> Iterator[dict[str, str]]:
        """Iterate over the parts of a placement, which do nothing to each other."""
        part = {host: {host} for host in placement.values()}
        for hosts in self._joined(placement):
            if any(part[host] is not part[hosts[0]] for host in hosts):
                whole = set[str]().union(*(part[host] for host in hosts))
                part |= dict.fromkeys(whole, whole)
        for whole in {id(hosts): hosts for hosts in part.values()}.values():
            yield {name: host for name, host in placement.items() if host in whole}

    def _joined(self, placement: Mapping[str, str]) -> Iterable[list[str]]:
        """Iterate over hosts that share a machine or a stream."""
        for members, _ in self.hosts.machines.values():
            if used := [host for host in members if host in placement.values()]:
                yield used
        for stream in self.model.network.streams:
            if stream.writer in placement and stream.reader in placement:
                yield [placement[stream.writer], placement[stream.reader]]
