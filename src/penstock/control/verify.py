"""The verifier: what no plan may do, whoever made it, checked before anything changes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping

import attrs
import numpy as np

from penstock.cluster import Cluster, base_name, with_copies
from penstock.control.flow import Floats, Ints
from penstock.control.situation import Situation
from penstock.network import Network
from penstock.placement import Arrays
from penstock.placement.base import TIE, links_between
from penstock.placement.objective import traffic
from penstock.placement.verify import over_link
from penstock.steering import Plan
from penstock.units import size_text


def wrong(now: Situation, plan: Plan, *, quotas: bool = True) -> tuple[str, ...]:
    """Return what is wrong with a plan, one sentence each; nothing if it may be applied.

    Parameters
    ----------
    quotas
        Whether no host that gets an operator may have more to do than it can work off, under the keep fractions that
        the plan leaves in force, and no link more to carry than it can, if nothing were dropped. A plan that leaves
        every such host and link with less than before is right all the same.
    """
    network = plan.network or now.network
    hosts = {*now.seen.cluster.hosts, *(host.name for host in plan.add)}
    found = [
        f"{name!r} is no operator" for name in plan.placement if name not in now.row and name not in network.operators
    ]
    found += [f"{host!r} is no host" for host in sorted(set(plan.placement.values())) if host not in hosts]
    found += [f"{host!r} is down" for host in sorted(set(plan.placement.values()) & now.seen.down)]
    gained = {host for name, host in plan.placement.items() if now.seen.placement.get(name) != host}
    found += [f"{host!r} does not answer" for host in sorted(gained & now.seen.silent - now.seen.down)]
    found += [
        f"{name!r} is pinned to {pin!r}" for name, pin in network.pins.items() if plan.placement.get(name, pin) != pin
    ]
    homeless = network.operators.keys() - plan.placement.keys() - now.seen.placement.keys()
    found += [f"{name!r} has no host" for name in sorted(homeless)]
    found += [f"{name!r} is moving already" for name in plan.placement if name in now.seen.moving]
    found += _together(now, plan.placement)
    streams = {stream.name for stream in network.streams} if plan.keep else set()
    for name, share in (plan.keep or {}).items():
        writer, _, reader = name.partition("->")
        if f"{writer}->{base_name(reader)}" not in streams:
            found.append(f"{name!r} is no stream")
        elif not 0 <= share <= 1:
            found.append(f"{name!r} keeps {share:g}, expected 0..1")
    moves = {name: host for name, host in plan.placement.items() if name in now.seen.placement}
    alive = [name for name in moves if now.seen.placement[name] not in now.seen.down]
    free, count = now.goals.moves - now.moving(now.seen.moving), now.moving(alive)
    if count > free:
        found.append(f"{count} moves, and {max(free, 0)} may begin now")
    found += _full(now, plan, moves)
    if quotas and moves and not found and now.ready and len(alive) == len(moves):
        found += _crowded(now, plan, moves) + _narrow(now, moves)
    return tuple(found)


def unfit(network: Network, cluster: Cluster, placement: Mapping[str, str]) -> list[str]:
    """Return what no plan might do of where operators are at first, one sentence each."""
    there: dict[tuple[str, str], str] = {}
    kept, found = Counter[str](), []
    for name, host in sorted(placement.items()):
        kept[host] += int(network.operators[base_name(name)].state or 0)
        if (other := there.setdefault((base_name(name), host), name)) != name:
            found.append(f"the copies {other!r} and {name!r} are both on {host!r} and stop together")
    memory = {name: host.memory for name, host in cluster.hosts.items()}
    full = [host for host in sorted(kept) if kept[host] > memory[host]]
    said = "{} keeps {} of state and has memory for {}"
    return found + [said.format(host, size_text(kept[host]), size_text(memory[host])) for host in full]


def _together(now: Situation, placement: Mapping[str, str]) -> list[str]:
    """Return a sentence for each two copies of an operator that would be on one host and are not now."""
    copies = with_copies(now.seen.operators)
    if not copies:
        return []
    after = {**now.seen.placement, **placement}
    found, there = [], dict[tuple[str, str], str]()
    for name in sorted(after):
        base = base_name(name)
        if base in copies:
            other = there.setdefault((base, after[name]), name)
            if other != name and (name in placement or other in placement):
                found.append(f"the copies {other!r} and {name!r} would both be on {after[name]!r}")
    return found


def _full(now: Situation, plan: Plan, moves: Mapping[str, str]) -> list[str]:
    """Return a sentence for each host on which moves would bring more state together than it can hold."""
    memory = {name: host.memory for name, host in now.seen.cluster.hosts.items() if math.isfinite(host.memory)}
    operators = (plan.network or now.network).operators
    kept = dict.fromkeys(sorted(memory.keys() & set(moves.values())), 0.0)
    if not kept:
        return []
    for name, host in {**now.seen.placement, **moves}.items():
        if host in kept:
            kept[host] += operators[base_name(name)].state or 0.0
    said = "{} would keep {} of state and has memory for {}"
    full = [host for host, size in kept.items() if size > memory[host]]
    return [said.format(host, size_text(kept[host]), size_text(memory[host])) for host in full]


def _crowded(now: Situation, plan: Plan, moves: Mapping[str, str]) -> list[str]:
    """Return a sentence for each host that moves fill beyond what it can work off."""
    added = [host.name for host in plan.add]
    if any(host in added for host in moves.values()):
        return []
    keep = now.seen.keep if plan.keep is None else plan.keep
    before = now.host_load(now.where(), keep).mean(axis=1) / now.usable
    after = now.host_load(now.where(moves), keep).mean(axis=1) / now.usable
    return [
        f"{name} would have to do {share:.2f} times what it can work off"
        for name, share, old in zip(now.hosts, after, before, strict=True)
        if name in moves.values() and share > 1 + 1e-9 and share > before.max() - 1e-9 and share > old
    ]


def _narrow(now: Situation, moves: Mapping[str, str]) -> list[str]:
    """Return a sentence for each link that moves would ask for more than it can carry."""
    where = now.where()
    links = Links.of(now, where)
    if links is None:
        return []
    after = now.where(moves)
    rows = np.flatnonzero((after != where) & (after >= 0))
    return links.said(rows, after[rows])


@attrs.frozen(eq=False)
class Links:
    """The mean traffic between hosts under the last rates, if nothing were dropped.

    What is dropped now does not count: it would be lost for good if a link had no room for it.

    Attributes
    ----------
    arrays
        The streams between operators and replicas, and from sources that have a host. Nothing else in it is set.
    bandwidth
        Array (hosts, hosts), tuples/s.
    where
        Array (operators and replicas,): the number in ``Situation.hosts`` of each; changed by moves that are made.
    flow
        Array (hosts, hosts), tuples/s; changed by moves that are made.
    """

    arrays: Arrays
    bandwidth: Floats
    where: Ints
    flow: Floats

    @classmethod
    def of(cls, now: Situation, where: Ints) -> Links | None:
        """Return the links of a moment with operators on given hosts; None where none has a limited bandwidth."""
        if not now.seen.cluster.limited_links:
            return None
        _, bandwidth = links_between(now.seen.cluster, now.hosts)
        if bandwidth is None or not np.isfinite(bandwidth).any():
            return None
        rows = sorted(_streams(now, where), key=lambda row: -row[2])  # of what readers share the most counts
        columns = list(zip(*rows, strict=True)) if rows else [()] * 5
        arrays = attrs.evolve(
            Arrays.of(np.zeros((where.size, 1)), now.usable),
            hosts=now.hosts,
            writer=np.array(columns[0], np.int64),
            reader=np.array(columns[1], np.int64),
            rate=np.array(columns[2], np.float64),
            shared=np.array(columns[3], np.bool_),
            sender=np.array(columns[4], np.int64),
            bandwidth=bandwidth,
        )
        return cls(arrays, bandwidth, where.copy(), traffic(arrays, where))

    def after(self, rows: Ints, ends: Ints) -> Floats:
        """Return what links would carry if some operators were on other hosts, array (hosts, hosts)."""
        arrays, senders = self.arrays, self.arrays.senders
        near = np.isin(arrays.writer, rows) | np.isin(arrays.reader, rows)
        # What a sender's readers share depends on where all of them are.
        near = np.isin(senders, senders[near])
        some = attrs.evolve(
            arrays, writer=arrays.writer[near], reader=arrays.reader[near], rate=arrays.rate[near],
            shared=arrays.shared[near], sender=senders[near],
        )  # fmt: skip
        found: Floats = self.flow - traffic(some, self.where) + traffic(some, self._moved(rows, ends))
        return found

    def overloads(self, rows: Ints, ends: Ints) -> bool:
        """Whether moves ask a link for more than it can carry, and for more than it is asked for already."""
        return bool(self._worse(self.after(rows, ends)).any())

    def said(self, rows: Ints, ends: Ints) -> list[str]:
        """Return a sentence for each link that moves would overload."""
        worse = self._worse(self.after(rows, ends))
        arrays = attrs.evolve(self.arrays, bandwidth=np.where(worse, self.bandwidth, np.inf))
        return over_link(arrays, self._moved(rows, ends)) if worse.any() else []

    def made(self, rows: Ints, ends: Ints) -> None:
        """Make moves."""
        self.flow[:] = self.after(rows, ends)
        self.where[rows] = ends

    def _moved(self, rows: Ints, ends: Ints) -> Ints:
        where = self.where.copy()
        where[rows] = ends
        return where

    def _worse(self, flow: Floats) -> np.ndarray:
        # What was taken off and put on again may differ by a rounding.
        return flow > np.maximum(self.bandwidth, self.flow) * (1 + TIE) + TIE


def _streams(now: Situation, where: Ints) -> Iterator[tuple[int, int, float, bool, int]]:
    """Iterate over the streams to operators on hosts that are up: writer, reader, rate, whether readers share, sender.

    A source that has a host is ``~host``, and a sender of its own.
    """
    sources, flow, rates = tuple(now.network.sources.values()), now.flow, now.arrivals.mean(axis=1)
    number = {name: k for k, name in enumerate(now.hosts)}
    copies: dict[str, list[int]] = {}
    for row, name in enumerate(now.seen.operators):
        if where[row] >= 0:
            copies.setdefault(base_name(name), []).append(row)
    operators = tuple(now.network.operators)
    for index, writer in enumerate(flow.writer.tolist()):
        if writer < len(sources):
            host = number.get(sources[writer].host or "")
            starts = [] if host is None else [(~host, ~writer)]
        else:
            starts = [(row, row) for row in copies.get(operators[writer - len(sources)], ())]
        shared, rate = bool(flow.share[index] == 1), float(rates[index])
        for start, sender in starts:
            for end in copies.get(operators[flow.reader[index]], ()):
                yield start, end, rate, shared, sender
