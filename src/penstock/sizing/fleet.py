"""The hosts that provisioning may take."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

import attrs

from penstock.cluster import Cluster
from penstock.errors import InputError
from penstock.files import suggest
from penstock.latency.models import timed
from penstock.load import LoadModel, Statistics


@attrs.frozen(eq=False)
class Fleet:
    """Hosts that may be taken: those that the network names, and as many as needed like some others.

    Attributes
    ----------
    cluster
        The given cluster: its links hold for its hosts, its default link for the further ones.
    like
        Names of hosts of the cluster that further ones are like.
    named
        Hosts on which the network insists, by pins or where its sources and sinks are.
    known
        What was measured of hosts of the cluster.
    """

    cluster: Cluster
    like: tuple[str, ...]
    named: tuple[str, ...]
    known: Statistics | None = None

    @classmethod
    def of(cls, model: LoadModel, cluster: Cluster, like: Sequence[str], known: Statistics | None = None) -> Fleet:
        """Check the names."""
        for name in like:
            if name not in cluster.hosts:
                raise InputError(
                    f"{name!r} is no host of the cluster", at="--host-like", hint=suggest(name, cluster.hosts, "hosts")
                )
        if not like or len(set(like)) < len(like):
            raise InputError(f"expected different hosts, got {','.join(like) or 'none'}", at="--host-like")
        network = model.network
        named = {operator.pin for operator in network.operators.values()}
        named |= {end.host for table in (network.sources, network.sinks) for end in table.values()}
        return cls(cluster, tuple(like), tuple(sorted(name for name in named if name is not None)), known)

    def names(self, like: str, count: int) -> list[str]:
        """Return names for hosts like one: itself, those of the cluster that are equal to it, then new ones.

        Of one that was measured otherwise nothing is known to be equal. No two types share a name.
        """
        model = self.cluster.hosts[like]
        found, stem, first = [like], f"{like}-", 1
        if len(self.like) == 1:
            known = {} if self.known is None else self.known.hosts
            same = [
                name
                for name, host in self.cluster.hosts.items()
                if attrs.evolve(host, name=like) == model and known.get(name, known.get(like)) == known.get(like)
            ]
            found += [name for name in same if name != like]
            if (split := re.fullmatch(r"(.*?)(\d+)", like)) is not None:
                stem, first = split[1], int(split[2])
        for number in itertools.count(first + 1):
            if len(found) >= count:
                break
            if f"{stem}{number}" not in self.cluster.hosts:
                found.append(f"{stem}{number}")
        return found[:count]

    def types(self, count: int) -> dict[str, str]:
        """Return what hosts are like, by their names: all that so many hosts of this fleet may have."""
        most = count + len(self.named) + 1
        return {name: like for like in self.like for name in self.names(like, most)}

    def called(self, names: Iterable[str]) -> Cluster:
        """Return the cluster of the hosts of this fleet that have these names."""
        chosen, given = [*names], self.cluster.hosts
        types = self.types(len(chosen))
        return self.cluster.having(
            attrs.evolve(given[name if name in given else types[name]], name=name) for name in chosen
        )

    def hosts(self, counts: Mapping[str, int]) -> Cluster:
        """Return the cluster of the named hosts and so many like each type (a named host counts as one)."""
        further = (name for like in self.like for name in self.names(like, counts.get(like, 0)))
        return self.called(dict.fromkeys([*self.named, *further]))

    def statistics(self, cluster: Cluster) -> Statistics | None:
        """Return what is known, with hosts that are new having what is known of the host that they are like."""
        known = self.known
        if known is None or not known.hosts:
            return known
        hosts = dict(known.hosts)
        for name, like in self.types(len(cluster.hosts)).items():
            if like in known.hosts:
                hosts.setdefault(name, known.hosts[like])
        return attrs.evolve(known, hosts=hosts)

    def timed(self, model: str) -> Fleet:
        """Return the fleet as a latency model sees it (see `penstock.latency.models.timed`)."""
        cluster, known = timed(model, self.cluster, self.known)
        return attrs.evolve(self, cluster=cluster, known=known)

    def slower(self, factor: float) -> Fleet:
        """Return the fleet as if all hosts took so many times as long."""
        hosts = [attrs.evolve(host, capacity=host.capacity / factor) for host in self.cluster.hosts.values()]
        return attrs.evolve(self, cluster=self.cluster.having(hosts))
