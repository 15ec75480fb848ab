"""The selectivities that a run had, from the counts of its batches."""

from __future__ import annotations

import math

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.load import LoadModel, Statistics, load_model
from penstock.load.stretches import Stretch, over_windows
from penstock.network import Network, Operator
from penstock.spark.run import Outcome
from penstock.spark.run.outcome import Batch
from penstock.workload import Rates

LEAST = 2
"""Stretches of whole windows from which on a selectivity is told: the first one has rows of windows still open."""


def measured_selectivities(statistics: Statistics, network: Network, outcome: Outcome, rates: Rates) -> Statistics:
    """Return the statistics with the selectivities that a run had, where its counts tell them.

    What came out of an operator is compared with what went in. Where that is not enough, as with joins, windows and
    outputs that do not grow as inputs do, it is compared with what the model makes of the rates, as far as the rows
    came: windows that were open at the end put nothing out. Windows of which a run has seen too few (`LEAST`) keep what
    was known.

    Parameters
    ----------
    rates
        Of the sources during the run, at the level at which they came.
    """
    found, given = dict(statistics.operators), statistics.complete(network, override=True).operators
    for name, operator in network.operators.items():
        outputs = [out.name for out in network.outputs(name) if out.share == 1]
        known = found.get(name)
        if not outputs or known is None or known.selectivity is None:
            continue
        taken, went = _counted(network, operator, outputs, outcome)
        if operator.stateful or known.growth is not None:
            # The model with what is known so far, upstream in place already.
            completed = attrs.evolve(statistics, operators=found).complete(network, override=True)
            expected = _modelled(load_model(completed, rates), name, outputs[0], taken)
        else:
            expected = float(np.dot(taken, given[name].selectivity or ()))
        if expected > 0 and went > 0:
            scale = went / expected
            found[name] = attrs.evolve(known, selectivity=tuple(share * scale for share in known.selectivity))
    return attrs.evolve(statistics, operators=found)


def _counted(network: Network, operator: Operator, outputs: list[str], outcome: Outcome) -> tuple[Array, float]:
    """Return the rows that went into each input of an operator, and those that came of them."""
    streams = [stream.name for stream in network.inputs(operator.name)]

    def put(batch: Batch) -> int:
        # What has left to a log its readers may take later, in batches of which others are known.
        if operator.name in batch.logged:
            return batch.logged[operator.name][1]
        return max(batch.counts.get(out, (0, 0))[0] for out in outputs)

    queries = {batch.query for batch in outcome.batches if not batch.counts.keys().isdisjoint(streams)}
    mine = sorted((batch for batch in outcome.batches if batch.query in queries), key=lambda batch: batch.start)
    each = np.array([[np.subtract(*batch.counts.get(stream, (0, 0))) for stream in streams] for batch in mine], float)
    if not over_windows(operator):
        return each.reshape(-1, len(streams)).sum(axis=0), sum(map(put, mine))
    stretch, before = Stretch(), mine[0].start if mine else 0.0
    for batch, rows in zip(mine, each, strict=True):
        stretch = stretch.after(operator, (batch.start - before, float(rows.sum()), put(batch)), math.inf, 1.0)
        before = batch.start
    _, taken, went = stretch.closed if stretch.ended >= LEAST else (0.0, 0.0, 0.0)
    return np.array([taken]), went


def _modelled(model: LoadModel, name: str, output: str, taken: Array) -> float:
    """Return the rows that the model makes of what was taken: of all its rows, or of the input that had the least."""
    came = model.inflow(name).sum(axis=1) * model.period
    share = np.divide(taken, came, out=np.zeros(len(taken)), where=came > 0).min()
    return float(share * model.arrivals[model.stream_index[output]].sum() * model.period)
