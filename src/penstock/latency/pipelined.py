"""Pipelined Mace: the backlog followed along the network, slice by slice of stimulus time.

The printed upper bound of Mace (Chandramouli et al., theorem 2) is false when backlog forms on one host and then on
another downstream. Here the tuples of a short slice of stimulus time are a fluid. Slices are taken oldest first, as
stimulus-time scheduling does, so each sees on every host the capacity that older ones leave; inside a slice the
operators follow each other in topological order. Hosts may therefore feed each other in a circle. This is checked
against simulation, not proved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.cluster import Cluster, base_name
from penstock.errors import InputError
from penstock.latency.estimate import Estimate, Quantiles
from penstock.latency.mace import cumulative_excess, described, error_bar
from penstock.load import LoadModel, Statistics

Array = NDArray[np.float64]

SLICE = 0.1
"""Longest slice of stimulus time (s)."""

NOTES = (
    "assumes hosts that serve the oldest stimulus first; checked by simulation, not proved, for more than one host",
    "leaves out the service times of single tuples and the bandwidth of links",
)


def flow_plain(
    work: Array,
    host: NDArray[np.int64],
    capacity: Array,
    first: NDArray[np.int64],
    count: NDArray[np.int64],
    inputs: NDArray[np.int64],
    delays: Array,
    width: float,
    steps: int,
) -> Array:
    """Return when each operator has finished each slice.

    Parameters
    ----------
    work
        Array (operators, slices), benchmark-core seconds, operators in topological order.
    host, capacity
        Row of each operator's host, and capacity of each host (benchmark cores).
    first, count, inputs, delays
        Where each operator's inputs begin in ``inputs`` and how many there are; a row of ``work``, or -1 for a source;
        seconds that the link takes.
    width
        Length of a slice and of a step of time (s).
    steps
        How many steps of time there are.

    Returns
    -------
    ndarray, shape (operators, slices)
        Seconds from the beginning.
    """
    free = np.repeat(capacity[:, None] * width, steps, axis=1)
    done = np.empty(work.shape)
    for q in range(work.shape[1]):
        spans: list[tuple[float, float]] = []
        for o in range(work.shape[0]):
            given = range(first[o], first[o] + count[o])
            ends = [(spans[inputs[j]] if inputs[j] >= 0 else (q * width, (q + 1) * width), delays[j]) for j in given]
            start, last = min(a + d for (a, _), d in ends), max(b + d for (_, b), d in ends)
            room, rate, whole = free[host[o]], capacity[host[o]], work[o, q]
            served, opened, finish, k = 0.0, None, last, int(start / width + 1e-9)
            while served < whole * (1 - 1e-12):
                edge = (k + 1) * width
                here = whole if edge >= last - 1e-12 else whole * max(0.0, (edge - start) / (last - start))
                part = min(room[k], rate * (edge - max(start, k * width)), here - served)
                if room[k] > 1e-12 * rate * width and part > 0:
                    opened = max(start, edge - room[k] / rate) if opened is None else opened
                    room[k] -= part
                    served += part
                    finish = max(last, edge - room[k] / rate)
                k += 1
            spans.append((start if opened is None else opened, finish))
            done[o, q] = finish
    return done


def pipelined(
    model: LoadModel, placement: Mapping[str, str], cluster: Cluster, statistics: Statistics | None = None
) -> Estimate:
    """Estimate latency by pipelined Mace.

    Returns
    -------
    Estimate
        A period's value is that of its end, or a peak inside it, so that on one host the series is that of Mace. The
        totals are over slices, those of the sinks over their tuples.

    Raises
    ------
    InputError
        If the placement has replicas.
    """
    from penstock.latency.kernel import flow

    network, capacity = model.network, np.array([host.capacity for host in cluster.hosts.values()])
    for name in placement:
        if base_name(name) != name:
            raise InputError(f"{name!r} is a replica", at="placement", hint="use --model mace for replicas")
    parts = max(1, int(np.ceil(model.period / SLICE - 1e-9)))
    width = model.period / parts
    host, first, count, inputs, delays = _arrays(model, placement, cluster)
    work = np.repeat(model.load * width, parts, axis=1)
    backlog = (model.host_load(placement, cluster).sum(axis=1) * model.period / capacity).sum()
    reach = model.rates.duration + float(backlog) + float(delays.sum())
    if reach / width * capacity.size > 2e8:
        raise InputError("the backlog is too long to be followed", hint="use --model mace, or lower the rates")
    steps = int(reach / width) + 2
    done: Array = flow(work, host, capacity, first, count, inputs, delays, width, steps)
    late = done - (np.arange(work.shape[1]) + 1) * width
    late[late < 1e-12 * reach] = 0.0
    fine = np.zeros(work.shape[1])
    sinks = {}
    for name, sink in network.sinks.items():
        row = model.operator_index.get(sink.input)
        tuples = np.repeat(model.arrivals[model.stream_index[f"{sink.input}->{name}"]], parts)
        waits = late[row] if row is not None else np.zeros(fine.size)
        sinks[name] = Quantiles.of(waits, tuples)
    for waits in late:
        np.maximum(fine, waits, out=fine)
    bar = error_bar(model, placement, cluster, statistics)
    excess = cumulative_excess(model.host_load(placement, cluster), capacity, model.period)
    series = _by_period(fine, parts)
    service = sum(max(operator.cost or (0.0,)) for operator in network.operators.values()) / float(capacity.min())
    worst = float(series.max(initial=0.0))
    return Estimate(
        model="pipelined",
        period=model.period,
        total=Quantiles.of(fine),
        series=series,
        bottleneck=bar.host,
        excess=dict(zip(cluster.hosts, excess, strict=True)),
        sinks=sinks,
        bounds={"lower": worst, "upper": worst + width + service},
        error=bar,
        notes=NOTES,
        statistics=described(statistics),
    )


def _arrays(model: LoadModel, placement: Mapping[str, str], cluster: Cluster) -> tuple[Any, ...]:
    """Return host, first, count, inputs and delays for the kernel."""
    network, rows = model.network, {name: row for row, name in enumerate(cluster.hosts)}
    first: list[int] = []
    count: list[int] = []
    inputs: list[int] = []
    delays: list[float] = []
    for name in network.operators:
        first.append(len(inputs))
        streams = network.inputs(name)
        count.append(len(streams))
        for stream in streams:
            source = network.sources.get(stream.writer)
            start = source.host if source else placement[stream.writer]
            inputs.append(model.operator_index.get(stream.writer, -1))
            delays.append(cluster.link(start, placement[name]).delay if start else 0.0)
    host = np.array([rows[placement[name]] for name in network.operators], np.int64)
    integers = [np.array(column, np.int64) for column in (first, count, inputs)]
    return host, *integers, np.array(delays, float)


def _by_period(fine: Array, parts: int) -> Array:
    """Return each period's last value, or the largest inside it where that exceeds both ends."""
    table = fine.reshape(-1, parts)
    last, inside = table[:, -1], table.max(axis=1)
    before = np.concatenate([[0.0], last[:-1]])
    series: Array = np.where(inside > np.maximum(before, last) + 1e-12, inside, last)
    return series
