"""Advice on a deployment: proposals of every kind that pay, with what is as it is and what growth would do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from penstock.advice.draw import Draw, drawn
from penstock.advice.judge import judge
from penstock.advice.kinds import KINDS
from penstock.advice.measure import busy, correlation, latency
from penstock.advice.rates import grown
from penstock.advice.replay import replay
from penstock.advice.rows import Replayed
from penstock.advice.values import Advice, Aims, Deployment, Job, Report
from penstock.units import human

DRAWS = 40
"""Possible truths that every proposal is judged by."""


FACTORS = (2.0, 5.0)
"""By which all rates are multiplied to show what growth does, beside 1."""

SHARED = "concurrent batches share the driver's cores evenly; memory that they take from each other is left out"
"""What a replay leaves out."""


def advise(deployment: Deployment, aims: Aims, rng: np.random.Generator, draws: int = DRAWS) -> Report:
    """Return advice on a deployment, the best first.

    Parameters
    ----------
    deployment
        With the rates to be ready for, bursts included.
    aims
        The latency bound, if there is one.
    rng
        Draws overheads, costs and noise within the errors of the fits; all proposals are judged by the same draws.
    draws
        How many.

    Returns
    -------
    Report
        Advice is in it only if it helps in 95 % of the draws, or frees cores and keeps every query within the bound
        (without one: about as it was).
    """
    truths = [drawn(deployment.jobs, rng) for _ in range(draws)]
    now = [replay(deployment, truth) for truth in truths]
    found = []
    for kind in KINDS.values():
        for proposal in kind(deployment, aims):
            judged = judge(deployment, proposal, aims, truths, now)
            if judged is not None:
                found.append(judged)
    order = list(KINDS)
    found.sort(key=lambda a: (-round(a.gain[1], 6), -a.proposal.saves, order.index(a.proposal.kind), a.proposal.query))
    return Report(
        deployment=deployment,
        advice=tuple(found),
        latency={name: latency([each[name].latency for each in now]) for name in deployment.jobs},
        growth={1.0: _middle(deployment, now), **{factor: _grown(deployment, factor, truths) for factor in FACTORS}},
        correlation=correlation(deployment),
        aims=aims,
        notes=(*deployment.notes, SHARED, *_unsure(deployment), *_held(deployment, found)),
    )


def _unsure(deployment: Deployment) -> Iterator[str]:
    names = [name for name, job in deployment.jobs.items() if not job.certain]
    if names:
        yield (
            f"the logs do not show overhead and cost of {', '.join(names)}: a row counts as the most that it can cost, "
            "and no trigger, cores or smaller limit are advised"
        )


def _held(deployment: Deployment, found: Iterable[Advice]) -> Iterator[str]:
    """Tell of queries that their limit holds back, where no larger one could be judged, or none is enough."""
    advised = {each.proposal.query for each in found if each.proposal.kind == "rate-limit"}
    for name, job in deployment.jobs.items():
        if name in advised or not job.rate * max(job.trigger, job.seconds(job.limit)) > job.limit:
            continue
        if job.advisable:
            yield f"{name} falls behind with at most {job.limit:,.0f} rows a batch, and {_enough(job)}"
        elif not job.measured:
            yield (
                f"{name} falls behind with at most {job.limit:,.0f} rows a batch, which do not tell whether it keeps "
                "up with more: raise the limit, and look again"
            )


def _enough(job: Job) -> str:
    """Say from how many rows a batch on a query keeps up with its rate, or that no limit is enough."""
    work = job.cost * job.rate
    if work >= 1:
        return f"no limit is enough: what comes in a second takes {work:.3g} s without any overhead"
    rows = job.rate * max(job.trigger, job.shortest, job.overhead / (1 - work))
    return f"keeps up only with {rows:,.0f} rows or more, which take {human(job.seconds(rows))}"


def _grown(deployment: Deployment, factor: float, truths: Iterable[Draw]) -> dict[str, dict[str, float]]:
    larger = grown(deployment, factor)
    return _middle(larger, (replay(larger, truth) for truth in truths))


def _middle(deployment: Deployment, replays: Iterable[dict[str, Replayed]]) -> dict[str, dict[str, float]]:
    """Return figures of each query in the middle of the draws: latency as `Report.latency` has it, and its busy share.

    Parameters
    ----------
    replays
        The deployment replayed under each of the truths.
    """
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in deployment.jobs}
    for replayed in replays:
        share = busy(deployment, replayed)
        for name, rows in replayed.items():
            found[name].append((rows.latency.quantile(0.99), rows.latency.worst, share[name]))
    middle = {name: np.median(rows, axis=0).tolist() for name, rows in found.items()}
    return {name: dict(zip(("p99", "worst", "busy"), row, strict=True)) for name, row in middle.items()}
