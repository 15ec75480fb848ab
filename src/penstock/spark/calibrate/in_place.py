"""The second pass: overhead and factor of each host, from the batches of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from penstock.cluster import Cluster
from penstock.errors import EngineError
from penstock.latency.fragments import fragments
from penstock.load import Statistics, load_model
from penstock.load.observed import work_of
from penstock.load.statistics import HostStatistics
from penstock.network import Network, Operator
from penstock.spark.run import Engine, Outcome
from penstock.workload import Rates

FAR = 0.5
"""A batch that differs by more than this part of its duration counts as one that differs by as much."""

LEAST = 0.1
"""Smallest factor of a host: in place nothing costs less than a tenth of what it costs alone."""


def calibrate_in_place(
    statistics: Statistics,
    network: Network,
    cluster: Cluster,
    placement: Mapping[str, str],
    outcome: Outcome,
    rates: Rates,
    *,
    skip: float,
) -> Statistics:
    """Return the statistics with each host's overhead and factor and the selectivities, from the batches of a run.

    Parameters
    ----------
    statistics
        Of the first pass.
    network
        Its own costs count before those of the statistics, as wherever they are used.
    cluster, placement
        Of the run. Factors are per benchmark-core second: the work divided by a host's capacity.
    outcome
        Of a run whose batches had many sizes.
    rates
        Of the sources during the run.
    skip
        Seconds at the beginning that are left out: the code is not warm yet.

    Raises
    ------
    EngineError
        If a host has too few batches, or all of one size.
    """
    costs = statistics.complete(network)
    found = {}
    host_of = {fragment.name: fragment.host for fragment in fragments(network, placement)}
    for host in sorted(set(host_of.values())):
        warm = [b for b in outcome.batches if host_of[b.query] == host and b.start - outcome.epoch > skip]
        batches, empty = [b for b in warm if b.rows > 0], [b.duration for b in warm if b.rows == 0 and b.known]
        load = np.array([work_of(costs, b.counts) for b in batches]) / cluster.hosts[host].capacity
        took = np.array([b.duration for b in batches])
        if len(batches) < 8 or load.max() < 2 * max(load.min(), 1e-12):
            raise EngineError(
                f"host {host!r} had {len(batches)} batches, too few or too alike to tell overhead from cost; "
                "calibrate for longer, with bursts"
            )
        found[host] = attrs.evolve(fit(load, took), idle=float(np.median(empty)) if empty else None)
    measured = {**statistics.measured, "pass": "alone, then in place"}
    return attrs.evolve(measured_selectivities(statistics, network, outcome, rates), hosts=found, measured=measured)


def measured_selectivities(statistics: Statistics, network: Network, outcome: Outcome, rates: Rates) -> Statistics:
    """Return the statistics with the selectivities that a run under known rates had, where its counts tell them."""
    streams = outcome.streams(network)
    found = dict(statistics.operators)
    for name in network.operators:
        outputs = [out.name for out in network.outputs(name) if out.share == 1]
        known = found.get(name)
        if not outputs or known is None or known.selectivity is None:
            continue
        # The model with what is known so far, upstream in place already, against what came out.
        model = load_model(attrs.evolve(statistics, operators=found).complete(network, override=True), rates)
        expected = float(model.arrivals[model.stream_index[outputs[0]]].sum() * rates.period)
        went = max(streams[out]["arrived"] for out in outputs)
        if expected > 0 and went > 0:
            scale = went / expected
            found[name] = attrs.evolve(known, selectivity=tuple(share * scale for share in known.selectivity))
    return attrs.evolve(statistics, operators=found)


def fit(load: np.ndarray[Any, Any], took: np.ndarray[Any, Any]) -> HostStatistics:
    """Fit ``took = overhead + factor · load`` by a regression that a few disturbed batches do not sway.

    Disturbances only lengthen batches, so that plain least squares would take them for cost: residuals beyond a
    scale, the median of the absolute ones, count by their size only (Huber's loss). Where the overhead hides the
    cost, noise alone would give it any sign: the overhead is not negative, and the factor is `LEAST` at least.
    """
    from scipy.optimize import least_squares

    table = np.column_stack([np.ones(len(load)), load])

    def misfit(guess: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(table @ guess - took)

    least = (0.0, LEAST)
    (overhead, factor), *_ = np.linalg.lstsq(table, took, rcond=None)
    overhead, factor = max(overhead, 0.0), max(factor, LEAST)
    scale = math.inf
    for _ in range(50):
        rest = took - overhead - factor * load
        before, scale = scale, max(1.4826 * float(np.median(np.abs(rest))), 1e-6)
        found = least_squares(
            misfit, (overhead, factor), bounds=(least, np.inf), loss="huber", f_scale=scale, x_scale=(0.1, 1.0)
        )
        overhead, factor = (float(value) for value in found.x)
        if abs(scale - before) <= 0.01 * scale:
            break
    rest = took - overhead - factor * load
    weight = np.minimum(1.0, scale / np.maximum(np.abs(rest), 1e-12))
    sigma = float(np.sqrt((weight * rest**2).sum() / max(weight.sum() - 2, 1.0)))
    centre = float((weight * load).sum() / weight.sum())
    spread = float(np.sqrt((weight * (load - centre) ** 2).sum()))
    # A few disturbed batches count among the others: the run to come will have such, too.
    share = np.clip(rest / np.maximum(overhead + factor * load, 1e-9), -FAR, FAR)
    across = math.sqrt(1 / weight.sum() + (centre / spread) ** 2) if spread > 0 else 0.0
    return HostStatistics(
        overhead=overhead,
        factor=factor,
        error=sigma / spread / factor if spread > 0 else 1.0,
        overhead_error=sigma * across,
        correlation=-centre / spread / across if spread > 0 and across > 0 else 0.0,
        residual=float(np.sqrt((share**2).sum() / max(len(share) - 2, 1))),
    )


def measure_overhead(engine: Engine, host: str, statistics: Statistics, seconds: float = 8.0) -> Statistics:
    """Return the statistics with a host's overhead: how long a micro-batch of a trivial query takes.

    In place, with more sources and state, it is larger: `calibrate_in_place` measures that.
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
    known = HostStatistics(overhead=float(np.median(took)) if took else 0.0)
    return attrs.evolve(statistics, hosts={**statistics.hosts, host: known})
