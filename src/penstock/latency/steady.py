"""The steady state of micro-batches in closed form, where there is one.

At constant rates a query whose batches end within the trigger T starts one every T; one that does not keep up starts
the next at once, and its batches settle at ``c / (1 - a)`` seconds if their fixed cost is c and a share a < 1 of the
time goes into tuples. Rows that one query makes visible within T are taken by the next one's batch T later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from penstock.files import Document
from penstock.latency.fragments import Fragment
from penstock.latency.microbatch import COMMIT, READING
from penstock.load import LoadModel
from penstock.network import Network


@attrs.frozen
class Interval:
    """How often a query's batches start, and how long they last (s)."""

    every: float
    lasts: float


@attrs.frozen
class Steady:
    """A steady state: batches by query, and by sink the worst and the mean latency (s)."""

    queries: Mapping[str, Interval]
    sinks: Mapping[str, tuple[float, float]]

    def document(self) -> Document:
        """Return it as a plain document."""
        return {
            "queries": {name: attrs.asdict(row) for name, row in self.queries.items()},
            "sinks": {name: {"worst": worst, "mean": mean} for name, (worst, mean) in self.sinks.items()},
        }


def steady_state(
    model: LoadModel,
    fragments: Sequence[Fragment],
    *,
    trigger: float,
    overhead: Mapping[str, float] | None = None,
    factor: Mapping[str, float] | None = None,
) -> Steady | None:
    """Return the steady state at the mean rates, with outputs at the batches' ends; arguments as of `microbatch`.

    Returns
    -------
    Steady or None
        None where none is known in closed form: hosts that share their time among queries, operators that keep
        windows, rates that no host of the way can keep up with, and, in networks of several queries, batches that
        last longer than the trigger.
    """
    overhead, factor = overhead or {}, factor or {}
    network = model.network
    hosts = [fragment.host for fragment in fragments]
    if len(set(hosts)) < len(hosts) or any(operator.stateful for operator in network.operators.values()):
        return None
    row = {name: number for number, name in enumerate(network.operators)}
    found: dict[str, Interval] = {}
    for fragment in fragments:
        fixed, slow = overhead.get(fragment.host, 0.0), factor.get(fragment.host, 1.0)
        share = slow * float(model.load[[row[name] for name in fragment.operators]].mean(axis=1).sum())
        on_time = fixed + share * trigger
        # What a batch shows must be there before the next one of a reader looks.
        if on_time <= trigger:
            found[fragment.name] = Interval(trigger, on_time)
        elif share < 1 and len(fragments) == 1:
            found[fragment.name] = Interval(fixed / (1 - share), fixed / (1 - share))
        else:
            return None
    home = {name: fragment.name for fragment in fragments for name in fragment.operators}
    cuts = frozenset[str]().union(*(fragment.cuts for fragment in fragments))
    hops = _hops(network, home, cuts)
    sinks = {}
    for name, sink in network.sinks.items():
        if sink.input not in home:
            continue  # it reads a source: no batch stands before it
        batch = found[home[sink.input]]
        few, many = hops[sink.input]
        if few != many:
            return None
        worst = many * batch.every + max(batch.lasts - COMMIT - READING, 0.0)
        sinks[name] = worst, worst - batch.every / 2
    return Steady(found, sinks)


def _hops(network: Network, home: Mapping[str, str], cuts: frozenset[str]) -> dict[str, tuple[int, int]]:
    """Return through how many queries an operator's tuples have come, at least and at most."""
    found: dict[str, tuple[int, int]] = {}
    for name in network.operators:
        ways = []
        for stream in network.inputs(name):
            few, many = found.get(stream.writer, (0, 0))
            further = home.get(stream.writer) != home[name] or stream.name in cuts
            ways.append((few + further, many + further))
        found[name] = min(way[0] for way in ways), max(way[1] for way in ways)
    return found
