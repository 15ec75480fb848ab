"""One run on Spark from its request to its report: prepare, run, predict, compare.

The commands ``run`` and ``demo`` share it. Nothing here imports pyspark: the engine is handed in.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.cluster import Cluster, Placement, with_copies
from penstock.files import Document, to_json
from penstock.latency.intervals import undrawn, with_interval
from penstock.latency.models import default_model, model_of
from penstock.latency.real_time import prompt_operators
from penstock.load import Statistics, load_model
from penstock.load.setting import Setting, begun
from penstock.network import Network
from penstock.running.ended import seen, slower
from penstock.running.forecast import Course, Forecast
from penstock.running.learned import measured_rates
from penstock.running.lookout import Lookout
from penstock.running.outlook import reported
from penstock.running.prediction import Prediction, Report, kept, predict
from penstock.running.record import NOTHING, Record, off_by
from penstock.running.report import compare, unread
from penstock.workload import Rates

if TYPE_CHECKING:
    from penstock.shedding.live import Shedder
    from penstock.spark.run import Engine, Outcome
    from penstock.spark.shipped.place import Place

KEPT = 720
"""Forecasts that a run's folder holds, the newest: those of an hour."""


@attrs.frozen(eq=False)
class Job:
    """What to run.

    Attributes
    ----------
    network, cluster, placement
        Every operator placed.
    folder
        Path or URI of the run.
    statistics
        Costs to predict with.
    rates
        Of scheduled sources, and to predict with.
    scheduled
        Whether the rates drive the scheduled sources, or the sources' own options do.
    keep
        Fixed keep fractions by stream.
    shedder
        A plan table to follow.
    seconds, once
        Stop after this time (s), or when all that is there now is delivered.
    trigger
        Interval of the micro-batches (s), if not the cluster's.
    seed
        Of the prediction's interval.
    young
        Seconds in which the code of hosts is young, since they were started for it.
    teach
        Whether statistics are to be learned from it.
    """

    network: Network
    cluster: Cluster
    placement: Placement
    folder: str | os.PathLike[str]
    statistics: Statistics = attrs.field(factory=Statistics)
    rates: Rates | None = None
    scheduled: bool = True
    keep: Mapping[str, float] = attrs.field(factory=dict)
    shedder: Shedder | None = None
    seconds: float | None = None
    once: bool = False
    trigger: float | None = None
    seed: int = 0
    young: float = 0.0
    teach: bool = False

    @property
    def real_time(self) -> frozenset[str]:
        """The operators that run in real-time mode."""
        return frozenset() if self.once else prompt_operators(self.network, self.cluster.spark)

    @property
    def expected(self) -> Rates | None:
        """The rates, as far as the run goes: whole periods, until it is to be stopped."""
        if self.rates is None or self.seconds is None:
            return self.rates
        return self.rates.until(self.seconds)

    @property
    def copied(self) -> bool:
        """Whether operators have copies."""
        return bool(with_copies(self.placement))

    @property
    def priced(self) -> bool:
        """Whether the cost of every operator is known."""
        return not self.statistics.complete(self.network).unpriced

    @property
    def setting(self) -> Setting:
        """What is deployed, for those who look on."""
        return Setting(
            network=self.network,
            cluster=self.cluster,
            placement=self.placement,
            statistics=self.statistics,
            rates=self.rates,
            keep={name: share for name, share in self.keep.items() if share < 1},
        )


@attrs.frozen(eq=False)
class Done:
    """What came of a job.

    Attributes
    ----------
    outcome
        Of the run.
    rates
        Of the sources, expected or else measured; None where no tuple came.
    prediction
        None where a cost or the rates are unknown, or time plays no part (``once``).
    report
        As ``penstock run`` writes it.
    """

    outcome: Outcome
    rates: Rates | None
    prediction: Prediction | None
    report: Document


def execute(engine: Engine, job: Job, tell: Report, say: Callable[[str], None] = lambda _what: None) -> Outcome:
    """Run a job on an engine's hosts, and return the engine's outcome.

    Parameters
    ----------
    tell
        Told how far it is.
    say
        Told in a sentence of hosts that may send messages twice, of a host that is not what it was calibrated to be,
        while the run goes on, of messages that were gone before they were read, of files that are passed over, and of
        rows that windows and joins left out because they are from before 1970.
    """
    deployment = engine.prepare(
        job.network,
        job.placement,
        job.folder,
        keep=job.keep,
        rates=job.rates if job.scheduled else None,
        everything=job.once,
        live=job.shedder is not None,
        about=job.setting.document(),
        teach=job.teach,
    )
    for text in engine.retrying(deployment):
        say(text)
    if job.once:
        outcome = engine.run_once(deployment, trigger=job.trigger, report=tell)
    else:
        heard = None
        if not (job.real_time or job.copied) and job.priced:
            heard = watching(job, deployment.place / "forecasts.json", say).hear
        outcome = engine.run(
            deployment,
            seconds=job.seconds,
            trigger=job.trigger,
            shedder=job.shedder,
            report=tell,
            heard=heard,
        )
    held = outcome.held(job.network)
    for text in unread(outcome.gone, outcome.skipped, outcome.unfound, outcome.unremoved, held):
        say(text)
    if outcome.early:
        say("penstock: rows before 1970 enter no window or join: Spark's watermark begins there")
    return outcome


def watching(job: Job, file: Place, say: Callable[[str], None]) -> Lookout:
    """Return what watches a job's batches; the ``file``, a place of the engine, gets the forecasts as they are made."""
    rates = job.expected or Rates.of(1.0, dict.fromkeys(job.network.sources, np.zeros(1)))
    told: list[Document] = []

    def ahead(forecasts: Sequence[Forecast]) -> None:
        told.extend(attrs.asdict(each) for each in forecasts)
        del told[:-KEPT]
        file.replace(to_json({"forecast": told}).encode())

    course = Course.of(job, rates, _kept(job, rates))
    return Lookout(course, lambda drift: say(drift.says), ahead, np.random.default_rng(job.seed), say, time.time())


def predicted(job: Job, rates: Rates | None) -> Prediction | None:
    """Return what the batch model says of a job; None where it is not its model, or a cost or the rates are unknown.

    It knows nothing of copies.
    """
    if rates is None or job.once or job.real_time or job.copied or not job.priced:
        return None
    scheduled = job.rates is not None and job.network.scheduled
    rng = np.random.default_rng(job.seed)
    return predict(job.setting, begun(rates, job.network), _kept(job, rates), rng=rng, scheduled=scheduled)


def _kept(job: Job, rates: Rates) -> Mapping[str, float | Array]:
    """Return the keep fractions of a job: fixed ones, or those of its plan table by period."""
    return job.keep if job.shedder is None else kept(job.shedder, job.network, rates)


def finish(job: Job, outcome: Outcome, prediction: Prediction | None = None, *, record: Record = NOTHING) -> Done:
    """Compare a job's outcome with its prediction, made from measured rates where none were expected; note it."""
    expected = job.expected
    if expected is not None and outcome.asked is not None:
        expected = expected.until(outcome.asked - outcome.epoch)
    rates = expected or measured_rates(job.network, outcome, even=bool(job.real_time))
    prediction = prediction or predicted(job, rates)
    report = compare(job.network, job.cluster, job.placement, outcome, prediction, job.shedder)
    if prediction is not None:
        course = Course.of(job, prediction.model.rates, _kept(job, prediction.model.rates)).since(outcome.epoch)
        told = seen(course.network, job.cluster, job.placement, job.statistics, outcome)
        batches = [batch for batch in told if batch.start >= 0]
        report |= reported(course, batches, outcome, np.random.default_rng(job.seed))
        for host, share in slower(batches).items():
            report["hosts"][host]["slower"] = share
        # A run that ended before its rates did not deliver what was predicted.
        whole = job.rates is None or min(job.seconds or math.inf, outcome.seconds) >= job.rates.duration
        # Nor does it tell of intervals where something is left out of them, or where rows had waited before it.
        spread = prediction.spread if whole and not ("waited" in report or prediction.notes) else None
        off = off_by(spread, report["predicted"], report["latency"]) if spread is not None else {}
        record.note(job.statistics, job.cluster, [batch for batch in batches if batch.age >= job.young], off)
    elif rates is not None and job.real_time:
        add_estimate(report, job, rates)
    return Done(outcome, rates, prediction, report)


def add_estimate(report: Document, job: Job, rates: Rates) -> None:
    """Add to a report what the model of real-time mode says, where all operators run in it and nothing is dropped."""
    whole = job.real_time == frozenset(job.network.operators)
    if not whole or not job.priced or any(share < 1 for share in job.keep.values()):
        return
    loads = load_model(job.statistics.complete(job.network), rates)
    name = default_model(job.cluster, job.network, job.placement)
    found = model_of(name)(loads, job.placement, job.cluster, job.statistics).over_tuples()
    rng = np.random.default_rng(job.seed)
    found = with_interval(found, loads, job.placement, job.cluster, job.statistics, rng)
    report["model"] = name
    counts = {
        sink: float(sum(loads.arrivals[loads.stream_index[each.name]].sum() for each in job.network.inputs(sink)))
        for sink in job.network.sinks
    }
    rows = [(report, found.total, sum(counts.values()))]
    rows += [(report["sinks"][sink], told, counts[sink]) for sink, told in found.sinks.items()]
    for row, told, count in rows:
        figures = {"mean": told.mean, "p50": told.p50, "p99": told.p99, "max": told.worst}
        row["predicted"] = {**figures, "count": round(count * loads.period)}
    if found.spread is not None:
        if not found.spread.draws:
            report["notes"] = [*report.get("notes", ()), undrawn(job.statistics, job.placement.values())]
        report |= found.spread.document()
        for sink, pairs in found.spread.sinks.items():
            report["sinks"][sink]["interval"] = {key: list(pair) for key, pair in pairs.items()}
