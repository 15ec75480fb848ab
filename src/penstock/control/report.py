"""The report of a run: measured beside predicted, counts of every stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import Array
from penstock.cluster import Cluster
from penstock.control.chain import Prediction, error_bar, summary
from penstock.files import Document
from penstock.latency.cores import covered
from penstock.load import Statistics
from penstock.load.statistics import HostStatistics
from penstock.network import Network

if TYPE_CHECKING:
    from penstock.shedding.live import Shedder
    from penstock.spark.run import Outcome


def describe(network: Network, statistics: Statistics | None = None) -> Document:
    """Return a network as a plain document, for reports and pictures, with how small a cost could be measured."""
    known = {} if statistics is None else statistics.operators
    return {
        "name": network.name,
        "sources": list(network.sources),
        "operators": {
            name: {
                "kind": operator.kind,
                "inputs": list(operator.inputs),
                "cost": operator.cost[0] if operator.cost else None,
                "selectivity": operator.selectivity[0] if operator.selectivity else None,
                **({"resolution": known[name].resolution} if name in known and known[name].resolution else {}),
            }
            for name, operator in network.operators.items()
        },
        "sinks": {name: {"input": sink.input} for name, sink in network.sinks.items()},
    }


def compare(
    network: Network,
    cluster: Cluster,
    placement: Mapping[str, str],
    outcome: Outcome,
    prediction: Prediction | None,
    shedder: Shedder | None = None,
) -> Document:
    """Return the report of a run: measured beside predicted, counts of every stream.

    Parameters
    ----------
    shedder
        The plan table that the run followed, if it did.
    """
    used = [name for name in cluster.hosts if name in set(placement.values())]
    # Queries are named by their first operators.
    host_of = dict(placement)
    stop = outcome.stop
    spans: dict[str, list[tuple[float, float]]] = {name: [] for name in used}
    for batch in outcome.batches:
        # A query that was attached to the run later is on no host of this placement.
        if batch.query in host_of:
            spans[host_of[batch.query]].append(batch.span)
    busy = {name: sum(b - a for a, b in covered(rows, outcome.epoch, stop)) for name, rows in spans.items()}
    document: Document = {
        "network": describe(prediction.model.network, prediction.statistics) if prediction else describe(network),
        "placement": dict(sorted(placement.items())),
        "latency": summary(*outcome.latencies()),
        "sinks": {name: {"latency": summary(*outcome.latencies(name))} for name in network.sinks},
        "predicted": None,
        "model": None,
        "streams": outcome.streams(network),
        "hosts": {
            name: {"busy": busy[name] / (stop - outcome.epoch), **speed_of(outcome, name, host_of, prediction)}
            for name in used
        },
        "balanced": outcome.balanced(network),
        "seconds": outcome.seconds,
    }
    for name, rows in outcome.repeated.items():
        if rows:
            document["sinks"][name]["repeated"] = rows
    if shedder is not None:
        from penstock.shedding.live import described

        document["plan"] = {**described(shedder.taken), "refused": sorted(outcome.refused)}
    if prediction is not None:
        _add_prediction(document, prediction)
        document["error_bar"] = error_bar(prediction, placement, cluster)
        document["series"] = series(cluster, placement, outcome, prediction, host_of)
    return document


def _add_prediction(document: Document, prediction: Prediction) -> None:
    """Add what was predicted, in all and at each sink, and how far off it may be."""
    _, latency, weight = prediction.result.whole()
    document["model"] = "microbatch"
    document["predicted"] = summary(latency, weight)
    for name, (_, lat, wgt) in prediction.result.sinks.items():
        document["sinks"][name]["predicted"] = summary(lat, wgt)
    if prediction.spread is not None:
        document |= prediction.spread.document()
        for name, pairs in prediction.spread.sinks.items():
            document["sinks"][name]["interval"] = {key: list(pair) for key, pair in pairs.items()}


def speed_of(
    outcome: Outcome, host: str, host_of: Mapping[str, str], prediction: Prediction | None
) -> dict[str, float]:
    """Return how fast a host's core was in a run: ``speed`` (steps of a fixed loop a second), and what that is of
    what it was while calibrated (``core``), as far as these are known.
    """
    looks = [b for b in outcome.batches if b.rows and b.speed and host_of.get(b.query) == host]
    known = None if prediction is None else prediction.statistics.hosts.get(host, HostStatistics()).speed
    if not looks:
        return {}
    # As calibration takes it: each batch counts as long as it took.
    steps = [np.mean([each for _, each in b.speed]) for b in looks]
    speed = float(np.average(steps, weights=[b.duration for b in looks]))
    return {"speed": speed} if known is None else {"speed": speed, "core": speed / known}


def series(
    cluster: Cluster, placement: Mapping[str, str], outcome: Outcome, prediction: Prediction, host_of: Mapping[str, str]
) -> Document:
    """Return rate, load, busy share and worst latency per second, predicted and measured."""
    model = prediction.model
    length = int(np.ceil(model.rates.duration + 5))
    edges = np.arange(length + 1, dtype=float)
    periods = np.minimum((edges[:-1] / model.period).astype(int), model.rates.periods - 1)
    active = edges[:-1] < model.rates.duration
    hosts = {}
    for (name, host), load in zip(cluster.hosts.items(), model.host_load(placement, cluster), strict=True):
        if name in placement.values():
            known = prediction.statistics.hosts.get(name, HostStatistics())
            rows = [(b.start, b.start + b.duration) for b in prediction.result.batches if host_of[b.query] == name]
            real = [
                (b.start - outcome.epoch, b.start + b.duration - outcome.epoch)
                for b in outcome.batches
                if host_of[b.query] == name
            ]
            hosts[name] = {
                "speed": _speeds(outcome, name, host_of, edges),
                "predicted": np.where(active, load[periods] * known.factor / host.capacity, 0.0),
                "busy": _busy(rows, edges),
                "measured": _busy(real, edges),
            }
    stimulus, latency, weight = prediction.result.whole()
    measured = outcome.latency()
    entered = np.concatenate([np.zeros(0), *(outcome.stimulus[name] for name in sorted(outcome.stimulus))])
    band = {}
    if prediction.spread is not None:
        for key, row in (("low", prediction.spread.low), ("high", prediction.spread.high)):
            band[key] = [float(row[period]) if on else None for period, on in zip(periods, active, strict=True)]
    return {
        "time": edges[:-1],
        "rate": {
            name: np.where(active, row[periods], 0.0)
            for name, row in zip(model.rates.sources, model.rates.values, strict=True)
        },
        "hosts": hosts,
        "latency": {
            "predicted": _worst(stimulus[weight > 0], latency[weight > 0], edges),
            "measured": _worst(entered - outcome.epoch, measured, edges),
            **band,
        },
    }


def _busy(spans: list[tuple[float, float]], edges: Array) -> Array:
    total = np.zeros(edges.size - 1)
    for start, end in covered(spans, edges[0], edges[-1]):
        total += np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], start), 0.0, None)
    return total


def _speeds(outcome: Outcome, host: str, host_of: Mapping[str, str], edges: Array) -> list[float | None]:
    """Return how fast a host's core was in each period (steps/s); None where no batch began or ended in it."""
    total, count = np.zeros(edges.size - 1), np.zeros(edges.size - 1)
    for batch in outcome.batches:
        for at, steps in batch.speed if host_of.get(batch.query) == host else ():
            place = int(np.floor(at - outcome.epoch))
            if 0 <= place < total.size:
                total[place] += steps
                count[place] += 1
    return [float(a / b) if b else None for a, b in zip(total, count, strict=True)]


def _worst(times: Array, values: Array, edges: Array) -> list[float | None]:
    worst = np.full(edges.size - 1, -np.inf)
    place = np.floor(times).astype(int)
    inside = (place >= 0) & (place < worst.size)
    np.maximum.at(worst, place[inside], values[inside])
    return [None if value == -np.inf else float(value) for value in worst]
