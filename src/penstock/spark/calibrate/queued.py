"""What hosts in real-time mode cost, from a run in which rows queued: there are no batches of which to tell."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.errors import EngineError
from penstock.latency.fragments import Fragment, fragments
from penstock.load import Statistics
from penstock.load.counted import work_of
from penstock.load.queueing import Passed, told_by_queues
from penstock.load.setting import Setting
from penstock.network import Network
from penstock.spark.calibrate.alone import moment
from penstock.spark.calibrate.selectivities import measured_selectivities
from penstock.spark.run import Outcome
from penstock.spark.run.outcome import Counts, added
from penstock.spark.run.queues import from_outside

Times = tuple[Array, Array]
"""When rows were in a topic, and their stimulus times (s since 1970)."""


def calibrate_by_queues(setting: Setting, outcome: Outcome, young: float = 0.0) -> Statistics:
    """Return the statistics with the factors of hosts in real-time mode and the selectivities, from a run.

    A factor is told where rows queued on a host (see `penstock.load.queueing`); where none did it stays as it was.

    Parameters
    ----------
    setting
        What ran, all of it in real-time mode, under which rates, and what is known of it. Costs of the network count
        before those of the statistics.
    outcome
        Of a run that was to teach.
    young
        Seconds after the first row in which the hosts' code was young.

    Raises
    ------
    EngineError
        If rows queued on no host.
    """
    network, statistics, found = setting.network, setting.statistics, {}
    parts = fragments(network, setting.placement, real_time=frozenset(network.operators))
    for host in sorted({part.host for part in parts}):
        passed = [_passed(setting, part, outcome) for part in parts if part.host == host]
        there = [each for each in passed if each is not None]
        first = min((float(each.left[0]) for each in there), default=0.0)
        known = told_by_queues(there, statistics.hosts.get(host), first + young)
        if known is not None:
            found[host] = known
    if not found:
        raise EngineError("rows queued on no host for long enough to tell what one costs: let more come for a while")
    measured = {**statistics.measured, "pass": "in real-time mode", "queued": sorted(found), "when": moment()}
    if setting.rates is not None:
        statistics = measured_selectivities(statistics, network, outcome, setting.rates)
    return attrs.evolve(statistics, hosts={**statistics.hosts, **found}, measured=measured)


def _passed(setting: Setting, query: Fragment, outcome: Outcome) -> Passed | None:
    """Return the rows that left a query on the way that most of them took; None: none did."""
    network = setting.network
    batches = [batch for batch in outcome.batches if batch.query == query.name]
    counts = added(batch.counts for batch in batches)
    ways = _ways(network, query, outcome, counts, [batch.logged for batch in batches])
    if not ways:
        return None
    rows, (visible, stimulus) = max(ways, key=lambda way: way[0])
    order = np.argsort(visible, kind="stable")
    doors = {stream.writer for name in query.operators for stream in from_outside(network, query, name)}
    before = [outcome.between[name] for name in sorted(doors & outcome.between.keys())]
    work = work_of(setting.statistics.complete(network), counts) / rows
    capacity = setting.cluster.hosts[query.host].capacity
    return Passed(_came(stimulus[order], before), visible[order], work / capacity)


def _ways(
    network: Network, query: Fragment, outcome: Outcome, counts: Counts, logged: Sequence[Counts]
) -> list[tuple[int, Times]]:
    """Return how many rows left a query on each of its ways, and when."""
    found = []
    for name in query.operators:
        if name in outcome.between:
            found.append((sum(row[name][1] for row in logged if name in row), outcome.between[name]))
        for stream in network.outputs(name):
            if stream.reader in network.sinks:
                arrived, dropped = counts.get(stream.name, (0, 0))
                found.append((arrived - dropped, (outcome.visible[stream.reader], outcome.stimulus[stream.reader])))
    return [(rows, times) for rows, times in found if rows and times[0].size]


def _came(stimulus: Array, before: Sequence[Times]) -> Array:
    """Return when rows came to a query: at their stimulus times, or when the latest query before it had such rows."""
    came = stimulus
    for visible, of in before:
        order = np.argsort(of, kind="stable")
        if of.size:
            came = np.maximum(came, np.interp(stimulus, of[order], np.maximum.accumulate(visible[order])))
    return came
