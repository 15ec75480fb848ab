"""Upper bounds of the worst latency that hold for real tuples, not only for a fluid.

A fluid's waits add up along paths of hosts. Real tuples add to that, on each host: the service of one tuple by each
operator on the way; a younger tuple that is being served and is not interrupted; what a host of several cores cannot
share out, since a tuple and what derives from it are served one after another; and whole tuples where the fluid has
fractions. A tuple is served by one core, so a service takes ``cost · cores / capacity``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.cluster import Cluster, hosts_by_operator
from penstock.load import LoadModel
from penstock.network import Network, Operator


@attrs.frozen(eq=False)
class Grain:
    """What single tuples add to a fluid, by host or link ``a->b``.

    Attributes
    ----------
    lumps
        Work (benchmark-core seconds, or tuples) by which what waits may exceed the fluid.
    steps
        Services and blocking on the way (s).
    """

    lumps: Mapping[str, float]
    steps: Mapping[str, float]


def service_times(network: Network, placement: Mapping[str, str], cluster: Cluster) -> float:
    """Return the sum of all operators' services on that host in use which has the slowest cores (s)."""
    used = [cluster.hosts[name] for name in set(placement.values())]
    speed = min((host.capacity / host.cores for host in used), default=1.0)
    return sum(max(operator.cost or (0.0,)) for operator in network.operators.values()) / speed


def certain(network: Network) -> bool:
    """Whether the load series is what comes: even arrivals, fixed services, exact emission, no windows of time.

    Results of an aggregate's windows come at once, and pairs of a join with a time window meet the rates of before.
    """
    even = all(source.arrivals == "even" for source in network.sources.values())
    return even and all(
        operator.service == "constant"
        and operator.emit == "exact"
        and operator.route is None
        and operator.window is None
        and operator.within is None
        for operator in network.operators.values()
    )


def grain(network: Network, copies: Mapping[str, list[str]], cluster: Cluster) -> Grain:
    """Return what single tuples add on each host and on each link with a bandwidth; ``copies``: `hosts_by_operator`."""
    names = list(cluster.hosts)
    used = {pair: len(names) + k for k, pair in enumerate(_limited_links(network, copies, cluster))}
    row = {name: k for k, name in enumerate(names)}
    # Work on every host and link by one tuple that a writer puts out, the last operators first.
    output: dict[str, Array] = {}
    most, extra = np.zeros(len(names) + len(used)), np.zeros(len(names) + len(used))

    def caused(writer: str, starts: list[str | None]) -> Array:
        total = np.zeros(len(names) + len(used))
        for stream in network.outputs(writer):
            operator = network.operators.get(stream.reader)
            if operator is None:
                continue
            total += _emitted(operator, stream.port) * output[operator.name]
            for end in copies[operator.name]:
                total[row[end]] += (operator.cost or (0.0,))[stream.port]
                for start in starts:
                    if start is not None and (start, end) in used:
                        total[used[start, end]] += 1.0
        return total

    for name in reversed(list(network.operators)):
        output[name] = caused(name, list(copies[name]))
        extra += output[name]
    for name, source in network.sources.items():
        work = caused(name, [source.host])
        extra += work
        most = np.maximum(most, work)
    most = np.max([most, *output.values()], axis=0)
    for operator in network.operators.values():
        for port, cost in enumerate(operator.cost or ()):
            one = _emitted(operator, port) * output[operator.name]
            for end in copies[operator.name]:
                one[row[end]] += cost
            most = np.maximum(most, one)
    lumps, steps = {}, {}
    for name, host in cluster.hosts.items():
        costs = [max(o.cost or (0.0,)) for o in network.operators.values() if name in copies[o.name]]
        speed = host.capacity / host.cores
        lumps[name] = float((host.cores - 1) * most[row[name]] + extra[row[name]])
        steps[name] = (sum(costs) + max(costs, default=0.0)) / speed
    for (start, end), number in used.items():
        lumps[f"{start}->{end}"], steps[f"{start}->{end}"] = float(extra[number]), 0.0
    return Grain(lumps, steps)


def capacity_of(cluster: Cluster, name: str) -> float:
    """Return the capacity of a host (benchmark cores), or the bandwidth of a link ``a->b`` (tuples/s)."""
    return cluster.hosts[name].capacity if name in cluster.hosts else cluster.link(*name.split("->")).bandwidth


def _emitted(operator: Operator, port: int) -> float:
    """Return the most tuples that one tuple makes an operator put out, with exact emission."""
    selectivity = 1.0 if operator.selectivity is None else operator.selectivity[port]
    partners = 1.0 if operator.counts is None else operator.counts[1 - port]
    return float(math.ceil(selectivity * partners - 1e-9))


def _limited_links(network: Network, copies: Mapping[str, list[str]], cluster: Cluster) -> list[tuple[str, str]]:
    """Return the links that some stream uses and that have a bandwidth."""
    if all(math.isinf(link.bandwidth) for link in (cluster.default_link, *cluster.links.values())):
        return []
    found = {
        (start, end)
        for name in network.operators
        for stream in network.inputs(name)
        for start in (copies[stream.writer] if stream.writer in copies else [network.sources[stream.writer].host])
        for end in copies[name]
        if start is not None and start != end and math.isfinite(cluster.link(start, end).bandwidth)
    }
    return sorted(found)


@attrs.frozen
class Bounds:
    """Upper bounds of the worst latency (s); None where nothing is proved.

    Attributes
    ----------
    upper
        For hosts that serve the oldest stimulus first, or at least the older period (section VII-A).
    relaxed
        The same with the paper's allowance for any order inside a period, the load of a period of every host.
    any
        For hosts that serve in any order, as long as no core idles while a tuple waits.
    """

    upper: float | None = None
    relaxed: float | None = None
    any: float | None = None


def upper_bounds(
    model: LoadModel, placement: Mapping[str, str], cluster: Cluster, waits: Mapping[str, float]
) -> Bounds:
    """Return the proved upper bounds, from a fluid's worst waits on each host and link with a bandwidth (s)."""
    network, period = model.network, model.period
    if not certain(network):
        return Bounds()
    copies = hosts_by_operator(placement)
    order = _in_order(network, copies)
    links = [cluster.link(*pair) for pair in _limited_links(network, copies, cluster)]
    # The fluid would cross faster than real tuples do.
    if order is None or any(link.throughput < link.bandwidth * (1 - 1e-9) for link in links):
        return Bounds()
    single = grain(network, copies, cluster)
    load = dict(zip(cluster.hosts, model.host_load(placement, cluster), strict=True))
    traffic = {f"{start}->{end}": row for (start, end), row in model.link_traffic(placement).items()}
    serving = {
        name: sum(name in hosts for hosts in copies.values()) if host.cores > 1 else 1
        for name, host in cluster.hosts.items()
    }

    def prompt(name: str, late: float) -> float:
        # A link keeps no order of age: what is late meets what is younger.
        again = 0.0 if name in load else late
        return late + again + waits[name] + single.lumps[name] / capacity_of(cluster, name) + single.steps[name]

    def held(name: str, late: float) -> float:
        row = load[name] if name in load else traffic[name]
        busy = busiest(row, capacity_of(cluster, name), period, single.lumps[name], late)
        return late + serving.get(name, 1) * busy + single.steps[name]

    upper = period + _latest(order, cluster, waits, prompt)
    share = sum(float(row.max(initial=0.0)) / capacity_of(cluster, name) for name, row in load.items())
    return Bounds(upper, upper + share * period, _latest(order, cluster, waits, held))


def _latest(
    order: Mapping[str, tuple[tuple[str, ...], Mapping[str, None]]],
    cluster: Cluster,
    limited: Mapping[str, float],
    leaves: Callable[[str, float], float],
) -> float:
    """Return how late the latest tuple leaves the last host of a path (s)."""
    late: dict[str, float] = {}
    for host, (entries, before) in order.items():
        reached = 0.0
        for start in (*entries, *before):
            link = f"{start}->{host}"
            sent = late[start] if start in before else 0.0
            sent = leaves(link, sent) if link in limited else sent
            reached = max(reached, sent + cluster.link(start, host).delay)
        late[host] = leaves(host, reached)
    return max(late.values(), default=0.0)


def _in_order(
    network: Network, copies: Mapping[str, list[str]]
) -> dict[str, tuple[tuple[str, ...], Mapping[str, None]]] | None:
    """Return for each host, after those that feed it, the hosts of its sources and the hosts that feed it.

    None where hosts feed each other in a circle, or a join with count windows gives tuples of a late input the
    stimulus of the other one: the loads are then not those of the load model.
    """
    hosts = dict.fromkeys(host for each in copies.values() for host in each)
    if len(hosts) > 1 and any(operator.counts is not None for operator in network.operators.values()):
        return None
    before: dict[str, dict[str, None]] = {host: {} for host in hosts}
    enters: dict[str, dict[str, None]] = {host: {} for host in hosts}
    for name in network.operators:
        for stream in network.inputs(name):
            source = network.sources.get(stream.writer)
            for start in copies[stream.writer] if source is None else [source.host]:
                for end in copies[name]:
                    if start is not None and start != end:
                        (before if source is None else enters)[end][start] = None
    found: dict[str, tuple[tuple[str, ...], Mapping[str, None]]] = {}
    while len(found) < len(hosts):
        ready = [host for host in hosts if host not in found and all(given in found for given in before[host])]
        if not ready:
            return None
        for host in ready:
            found[host] = (tuple(enters[host]), before[host])
    return found


def busiest(load: Array, capacity: float, period: float, lump: float, late: float) -> float:
    """Return the longest time (s) that all of a host's capacity can be in use without a break.

    For T from some moment only if what comes meanwhile, or came up to ``late`` before and was held up, and a ``lump``
    besides, is at least capacity · T. What comes in a period may come anywhere in it.
    """
    flow = np.concatenate([[0.0], np.cumsum(load - capacity)]) * period
    # Whole periods p to q around the span: their load less capacity, and what capacity has more at both ends.
    slack = lump + capacity * (2 * period + late)
    after = np.maximum.accumulate(flow[::-1])[::-1]
    last = flow.size - 1
    longest, q, least, beyond = 0, 0, np.inf, 0.0
    for p in range(flow.size):
        # A later start that is not lower has the shorter span.
        if flow[p] >= least:
            continue
        least = flow[p]
        q = max(q, p)
        while q < last and after[q + 1] - flow[p] + slack >= 0:
            q += 1
        longest = max(longest, q - p)
        if q == last and not beyond:
            # Behind the last period what is left is served.
            beyond = (float(load[p:].sum()) * period + lump) / capacity
    return max(longest * period, beyond)
