"""The second pass: overhead and factor of each host, from the batches of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs
import numpy as np

from penstock.cluster import Cluster
from penstock.errors import EngineError
from penstock.latency.batches import BatchHosts
from penstock.latency.cores import alone
from penstock.latency.fragments import fragments
from penstock.load import Statistics
from penstock.load.counted import work_of
from penstock.load.fitting import ALONE, UNLIKE, HostBatches, overhead_anew, told
from penstock.load.statistics import HostStatistics
from penstock.network import Network, Operator
from penstock.spark.calibrate.alone import moment
from penstock.spark.calibrate.selectivities import measured_selectivities
from penstock.spark.run import Batch, Engine, Outcome
from penstock.workload import Rates


def calibrate_in_place(
    statistics: Statistics,
    network: Network,
    cluster: Cluster,
    placement: Mapping[str, str],
    outcome: Outcome,
    rates: Rates,
) -> Statistics:
    """Return the statistics with each host's overhead and factor and the selectivities, from the batches of a run.

    Batches at the beginning do not count as long as the code is not warm (`penstock.load.fitting.warm_from`). A host
    with little to do may have batches that are all alike: then its factor stays as it was known, if it was.

    Parameters
    ----------
    statistics
        Of the first pass, or of an earlier run.
    network
        Its own costs count before those of the statistics, as wherever they are used.
    cluster, placement
        Of the run. Factors are per benchmark-core second: the work divided by a host's capacity.
    outcome
        Of a run whose batches had many sizes.
    rates
        Of the sources during the run, at the level at which they came.

    Raises
    ------
    EngineError
        If a host has too few batches, or all of one size, and nothing is known of it.
    """
    found, statistics = {}, measured_state(statistics, cluster, placement, outcome)
    for host, batches in host_batches(statistics, network, cluster, placement, outcome).items():
        known, before = told(batches), statistics.hosts.get(host)
        if known is None and before is not None:
            known = overhead_anew(before, batches)
        if known is None:
            raise too_few(host, len(batches))
        found[host] = known
    passes = "alone, then in place" if "pass" in statistics.measured else "in place"
    measured = {**statistics.measured, "pass": passes, "when": moment()}
    statistics = measured_selectivities(statistics, network, outcome, rates)
    return attrs.evolve(statistics, hosts={**statistics.hosts, **found}, measured=measured)


def too_few(host: str, batches: int) -> EngineError:
    """Return the error for a host whose batches do not tell overhead from cost."""
    return EngineError(
        f"host {host!r} had {batches} batches, too few or too alike to tell overhead from cost; "
        "calibrate for longer, with bursts"
    )


def host_batches(
    statistics: Statistics, network: Network, cluster: Cluster, placement: Mapping[str, str], outcome: Outcome
) -> dict[str, HostBatches]:
    """Return the batches of each host of a run; those that shared it, with the seconds that each would take alone.

    What they took for the state of their operators is left out, and so are those up to the first with input: a query's
    plans are compiled in them. Queries that were attached later are on no host of the placement.

    Parameters
    ----------
    statistics
        They have the costs that the network leaves open, and what operators take for their state.
    """
    network, hosts = statistics.complete(network), BatchHosts.of(statistics, cluster)
    queries = {fragment.name: fragment for fragment in fragments(network, placement)}
    host_of = {name: fragment.host for name, fragment in queries.items()}
    state = {name: hosts.for_state(fragment.operators) for name, fragment in queries.items()}
    machine = {name: host.machine or f"host {name}" for name, host in cluster.hosts.items()}
    ours = [b for b in outcome.batches if b.query in host_of]
    took: dict[tuple[str, int], float] = {}
    for group in sorted(set(machine.values())):
        mine = [b for b in ours if b.known and machine[host_of[b.query]] == group]
        spans = [(b.start, b.start + b.duration) for b in mine]
        seconds = alone(spans, float(cluster.machines.get(group, 1)), [host_of[b.query] for b in mine])
        took.update({(b.query, b.number): own - state[b.query] for b, own in zip(mine, seconds, strict=True)})
    full = [b for b in ours if b.rows]
    first = {query: min((b.start for b in full if b.query == query), default=0.0) for query in host_of}
    found = {}
    for host in sorted(set(host_of.values())):
        known = sorted((b for b in ours if host_of[b.query] == host and b.known), key=lambda b: b.start)
        full = [b for b in known if b.rows and b.start > first[b.query]]
        empty = [b for b in known if not b.rows and b.start > first[b.query]]
        found[host] = HostBatches(
            at=np.array([b.start - outcome.epoch for b in full]),
            load=np.array([work_of(network, b.counts) for b in full]) / cluster.hosts[host].capacity,
            took=np.array([took[b.query, b.number] for b in full]),
            empty=np.array([took[b.query, b.number] for b in empty]),
            speed=np.array([mean_speed(b) for b in full]),
            empty_speed=np.array([mean_speed(b) for b in empty]),
        )
    return found


def mean_speed(batch: Batch) -> float:
    """Return how fast the core was in a batch (steps/s); NaN: it was not looked at."""
    return float(np.mean([steps for _, steps in batch.speed])) if batch.speed else math.nan


def measured_state(
    statistics: Statistics, cluster: Cluster, placement: Mapping[str, str], outcome: Outcome
) -> Statistics:
    """Return the statistics with what Spark said of state stores: the most bytes, and the seconds that a commit takes.

    The tasks of a batch commit side by side, as many as the host has cores.
    """
    found = dict(statistics.operators)
    told: dict[str, list[tuple[int, float]]] = {}
    for batch in outcome.batches:
        for stream, seen in batch.state.items():
            told.setdefault(stream.partition("->")[2], []).append(seen)
    for name in found.keys() & told.keys() & placement.keys():
        cores = cluster.hosts[placement[name]].cores
        most, commit = max(size for size, _ in told[name]), float(np.median([spent for _, spent in told[name]]))
        found[name] = attrs.evolve(found[name], state=float(most), overhead=commit / cores)
    return attrs.evolve(statistics, operators=found)


def measure_overhead(engine: Engine, host: str, statistics: Statistics, seconds: float = 8.0) -> Statistics:
    """Return the statistics with the overhead of hosts: how long a micro-batch of a trivial query takes on one of them.

    In place, with more sources and state, it is larger, and costs are others: `calibrate_in_place` measures that. How
    far off they may be until then is told as errors (`ALONE`, `UNLIKE`), of the cluster's other hosts as well.
    """
    import tempfile

    from penstock.network import Sink, Source

    tiny = Network.of(
        "overhead",
        [Source(name="events", format="nexmark")],
        [Operator(name="bids", kind="filter", inputs=("events",), where="kind = 'bid'", cost=(0.0,))],
        [Sink(name="out", input="bids")],
    )
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        rates = Rates.constant({"events": 50.0}, seconds, 1.0)
        outcome = engine.run(engine.prepare(tiny, {"bids": host}, folder, rates=rates))
    took = [b.duration for b in outcome.batches if b.rows and b.start - outcome.epoch > seconds / 2]
    overhead = float(np.median(took)) if took else 0.0
    known = HostStatistics(overhead=overhead, error=ALONE, overhead_error=UNLIKE * overhead)
    return attrs.evolve(statistics, hosts={**statistics.hosts, **dict.fromkeys(engine.cluster.hosts, known)})
