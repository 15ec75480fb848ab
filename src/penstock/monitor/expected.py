"""What the latency model expects of a setting: beside what is measured, and under rates that somebody asks about."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from penstock.arrays import Array
from penstock.cluster import Placement
from penstock.errors import InputError
from penstock.files import Document, suggest
from penstock.latency.batches import POLLING, BatchHosts
from penstock.latency.estimate import Quantiles, Spread, Told
from penstock.latency.fragments import fragments
from penstock.latency.mace import mace
from penstock.latency.unended import note_on, unended
from penstock.load import load_model
from penstock.load.setting import Setting
from penstock.network import Network
from penstock.placement import ALGORITHMS, Problem, Terms, place
from penstock.shedding.optimum import Solver
from penstock.shedding.program import Program, build_program
from penstock.shedding.room import rooms, shares
from penstock.shedding.runs import Run
from penstock.workload import Rates

DRAWS, QUICK = 200, 40
"""How often an interval is drawn: where there is time, and where somebody waits for the answer."""

FOLLOWED = 120
"""Operators up to which micro-batches are followed; of larger networks Mace tells the backlog of the hosts."""

OVERLOAD_ONLY = "The model mace counts only the time that rows wait because a host is overloaded: 0 s is no overload."
"""What has to be said wherever Mace predicts latency."""

LONGEST = 3600.0
"""Seconds of a question at most, so that it is answered while somebody waits."""


@attrs.frozen(eq=False, kw_only=True)
class Expected(Told):
    """What a latency model expects.

    Attributes
    ----------
    model
        Its name: ``microbatch``, or ``mace`` of a large network, which leaves out batches.
    period
        Of all series (s), which begin with the rates.
    total, sinks
        Latency (s) over everything and by sink.
    series
        Array (periods,): worst latency (s) of what enters in each period.
    load
        Array (hosts, periods): share of its time that each host needs; with the fixed costs of its batches at most 1,
        since batches grow longer and fewer under load, so that above 1 it is the work alone.
    spread
        The interval; None where nothing is known to be uncertain.
    notes
        What it cannot tell.
    unended
        Sinks of which nothing is known, since no window before them ends within the rates.
    """

    model: str
    period: float
    total: Quantiles
    sinks: Mapping[str, Quantiles]
    series: Array
    load: Array
    spread: Spread | None
    notes: Sequence[str] = ()
    unended: tuple[str, ...] = ()

    def interval(self) -> dict[str, list[float]] | None:
        """Return the interval over everything by figure; None where there is none, or nothing to tell it of."""
        if self.spread is None or (self.unended and not self.total.weight):
            return None
        return {key: list(pair) for key, pair in self.spread.total.items()}


def expect(setting: Setting, rng: np.random.Generator, draws: int = DRAWS, *, batches: bool = True) -> Expected:
    """Return what the model expects of a setting with rates.

    Parameters
    ----------
    rng
        Where the chance of the interval comes from.
    draws
        How often it is drawn, at most.
    batches
        Whether hosts work in micro-batches, rather than row by row.

    Raises
    ------
    InputError
        If rates or a cost are not known.
    """
    if setting.rates is None:
        raise InputError("needs the rates of the sources", at="rates")
    network = setting.statistics.complete(setting.network)
    kept = load_model(network, setting.rates, setting.keep)
    hosts = BatchHosts.of(setting.statistics, setting.cluster)
    work = kept.host_load(setting.placement, setting.cluster) * _factors(setting, hosts)[:, None]
    load = _busy(work, _fixed(setting, hosts)[:, None]) if batches else work
    if len(network.operators) > FOLLOWED or not batches:
        told = mace(kept, setting.placement, hosts.paced(setting.cluster), setting.statistics)
        return Expected(
            model="mace", period=kept.period, total=told.total, sinks=told.sinks, series=told.series, load=load,
            spread=None,
        )  # fmt: skip
    # The model of batches drops by itself.
    placed = hosts.placed(load_model(network, setting.rates), setting.placement, setting.keep)
    result = placed.run()
    total = result.quantiles()
    sinks = {name: Quantiles.of(row[1], row[2]) for name, row in result.sinks.items()}
    series = result.worst(kept.period, kept.rates.periods)
    found = placed.spread(rng, scheduled=network.scheduled, count=draws) if draws else None
    interval = None if found is None else found.around(total, sinks, series)
    quiet = unended(sinks, kept)
    return Expected(
        model="microbatch",
        period=kept.period,
        total=total,
        sinks=sinks,
        series=series,
        load=load,
        spread=interval,
        notes=[f"{note[0].upper()}{note[1:]}." for note in note_on(quiet, kept.rates.duration)],
        unended=quiet,
    )


def _factors(setting: Setting, hosts: BatchHosts) -> Array:
    """Return by host the seconds that a benchmark-core second of load takes."""
    return np.array([hosts.factor[name] for name in setting.cluster.hosts])


def _fixed(setting: Setting, hosts: BatchHosts) -> Array:
    """Return by host the share of its time that the fixed costs of its batches take while it has little to do.

    Without a trigger Spark makes a batch only when there is data, so that nothing is fixed.
    """
    if hosts.trigger <= POLLING:
        return np.zeros(len(setting.cluster.hosts))
    spent = dict.fromkeys(setting.cluster.hosts, 0.0)
    for fragment in fragments(setting.network, setting.placement):
        spent[fragment.host] += hosts.overhead[fragment.host] + hosts.for_state(fragment.operators)
    return np.minimum([seconds / hosts.trigger for seconds in spent.values()], 1.0)


def _busy(work: Array, fixed: Array) -> Array:
    return np.maximum(work, np.minimum(work + fixed, 1.0))


@attrs.frozen(kw_only=True)
class Question:
    """What would happen if …

    Attributes
    ----------
    rates
        Tuples per second by source; sources that are not named keep their mean rate.
    duration
        How long these rates last (s).
    placement
        Operators that would run elsewhere.
    algorithm
        Place everything else by this algorithm.
    keep
        Keep fractions by stream.
    shed
        Drop as much as the hosts need, in the way that keeps the greatest score; what is kept cannot be given then.
    """

    rates: Mapping[str, float] = attrs.field(factory=dict)
    duration: float = 60.0
    placement: Mapping[str, str] = attrs.field(factory=dict)
    algorithm: str | None = None
    keep: Mapping[str, float] = attrs.field(factory=dict)
    shed: bool = False


def asked(setting: Setting, question: Question, usual: Mapping[str, float]) -> Setting:
    """Return the setting that a question is about.

    Parameters
    ----------
    usual
        Mean rate of each source (tuples/s), for those that the question does not name.

    Raises
    ------
    InputError
        If it names strangers or impossible numbers.
    """
    network, cluster = setting.network, setting.cluster
    if not 0 < question.duration <= LONGEST:
        raise InputError(
            f"expected a duration > 0 and of at most {LONGEST:.0f} s, got {question.duration:g}", at="duration"
        )
    for name, rate in question.rates.items():
        if name not in network.sources:
            raise InputError("is no source", at=f"rates.{name}", hint=suggest(name, network.sources, "sources"))
        if not (math.isfinite(rate) and rate >= 0):
            raise InputError(f"expected a rate >= 0, got {rate}", at=f"rates.{name}")
    streams = [stream.name for stream in network.streams]
    for name, share in question.keep.items():
        if name not in streams:
            raise InputError("is no stream", at=f"keep.{name}", hint=suggest(name, streams, "streams"))
        if not 0 <= share <= 1:
            raise InputError(f"expected a fraction 0..1, got {share}", at=f"keep.{name}")
    if question.keep and question.shed:
        raise InputError("cannot be asked for together with what does not fit being dropped", at="keep")
    period = min(question.duration, max(1.0, question.duration / 600))
    rates = Rates.constant(
        {name: question.rates.get(name, usual.get(name, 0.0)) for name in network.sources}, question.duration, period
    )
    placement = Placement({**setting.placement, **question.placement})
    placement.check(network.operators, cluster.hosts, network.pins)
    changed = attrs.evolve(setting, rates=rates, placement=placement, keep={**setting.keep, **question.keep})
    if question.algorithm is not None:
        if question.algorithm not in ALGORITHMS or ALGORITHMS[question.algorithm].replicas != "none":
            free = [name for name, row in ALGORITHMS.items() if row.replicas == "none"]
            raise InputError(
                f"{question.algorithm!r} cannot be asked for", at="algorithm", hint=suggest("", free, "algorithms")
            )
        problem = Problem.of(load_model(setting.statistics.complete(network), rates), cluster, setting.statistics)
        problem = attrs.evolve(problem, pins={**problem.pins, **question.placement})
        # What does not fit is dropped afterwards.
        terms = Terms(overload=question.shed)
        found = place(problem, question.algorithm, np.random.default_rng(0), terms).placement
        changed = attrs.evolve(changed, placement=found)
    return changed


def what_if(
    setting: Setting, question: Question, usual: Mapping[str, float], seed: int = 0, *, batches: bool = True
) -> Document:
    """Answer a question: latency with its interval, load of every host, drops, moves, and what to know about them.

    Parameters
    ----------
    usual
        Mean rate of each source (tuples/s), for those that the question does not name.
    seed
        Of the interval.
    batches
        Whether hosts work in micro-batches, rather than row by row.

    Raises
    ------
    InputError
        If the question names strangers, or a cost is not known.
    Infeasible
        If what cannot be dropped is too much for a host.
    """
    begin = time.perf_counter()
    changed = asked(setting, question, usual)
    network = setting.statistics.complete(setting.network)
    hosts = BatchHosts.of(setting.statistics, setting.cluster)
    program = build_program(network, hosts.paced(setting.cluster), changed.placement)
    rates = np.array([changed.rates.of_source(name)[0] for name in program.sources])  # type: ignore[union-attr]
    flow = program.flow(rates, changed.keep)
    if question.shed:
        run = Run.of(_roomy(changed, network) if batches else program, rates)
        keep = run.keep(rates, Solver(run.program).solve(rates))
        flow, changed = program.flow(rates, keep), attrs.evolve(changed, keep=keep)
    expected = expect(changed, np.random.default_rng(seed), QUICK, batches=batches)
    work = program.load(flow)
    busy = _busy(work, _fixed(changed, hosts)) if batches else work
    full = _score_of_everything(changed, network, rates)
    return {
        "rates": {name: float(changed.rates.of_source(name)[0]) for name in network.sources},  # type: ignore[union-attr]
        "duration": question.duration,
        "model": expected.model,
        "notes": [*expected.notes, *([OVERLOAD_ONLY] if expected.model == "mace" else [])],
        "latency": expected.told(),
        "interval": expected.interval(),
        "sinks": {name: expected.told(name) for name in expected.sinks},
        "hosts": {
            name: {"work": float(work[k]), "busy": float(busy[k]), "quota": host.quota}
            for k, (name, host) in enumerate(setting.cluster.hosts.items())
        },
        "fits": program.feasible(flow),
        "keep": dict(changed.keep),
        "score": program.score(flow),
        "full": full,
        "placement": dict(changed.placement),
        "moved": sorted(name for name, host in changed.placement.items() if setting.placement.get(name) != host),
        "seconds": time.perf_counter() - begin,
    }


def _roomy(setting: Setting, network: Network) -> Program:
    """Return the program in which hosts have room beside what batches take: without it these grow for ever."""
    cluster, placement = setting.cluster, setting.placement
    found = rooms(network, cluster, placement, setting.statistics, network.operators)
    return build_program(network, cluster, placement).leaving(shares(cluster, found))


def _score_of_everything(setting: Setting, network: Network, rates: Array) -> float:
    """Return the score where nothing is dropped and no host has a limit."""
    program = build_program(network, setting.cluster, setting.placement)
    return program.score(program.flow(rates))
