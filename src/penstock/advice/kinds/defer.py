"""``defer``: what to stop first where not all can be kept."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.advice.kinds.common import on_driver
from penstock.advice.measure import harm_of
from penstock.advice.replay import replay
from penstock.advice.values import Aims, Deployment, Proposal


def defer(deployment: Deployment, aims: Aims) -> Iterator[Proposal]:
    """Propose the query to stop during a burst: of those with the least weight, the one that the others gain most by.

    It loses no row: its source keeps them, and it catches up when it starts again on its checkpoint. But they wait as
    long as it is stopped, which counts against the gain. Proposed only under a bound that another query of the driver
    misses.
    """
    if aims.latency is None:
        return
    for driver in deployment.drivers:
        here = on_driver(deployment, driver)
        late = {name for name, rows in replay(here).items() if rows.latency.worst > aims.latency}
        if len(here.jobs) < 2 or not late:
            continue
        lightest = min(job.weight for job in here.jobs.values())
        gains = {}
        for name, job in here.jobs.items():
            others = here.without(name)
            if job.advisable and job.weight == lightest and late - {name} and job.rate > 0:
                before = harm_of(here, aims) - job.weight * _own(here, name, aims)
                gains[name] = before - harm_of(others, aims)
        if not gains or max(gains.values()) <= 0:
            continue
        name = max(sorted(gains), key=lambda each: gains[each])
        rest = tuple(other for other in here.jobs if other != name)
        load = float(here.jobs[name].load().max())
        yield Proposal(
            kind="defer",
            query=name,
            setting="run",
            old="always",
            new="outside bursts",
            why=f"its weight, {lightest:g}, is the least on the driver; without it the others have {load:.2g} more "
            f"cores in a burst, and with it {_count(len(late - {name}))} of them would miss the bound",
            after=deployment.without(name),
            about=rest,
            costs=lightest * aims.misses(_stopped(deployment)),
            remark="its own rows wait until the burst is over, so the source must keep them that long",
        )


def _stopped(deployment: Deployment) -> float:
    """Return how long a query would be stopped (s): for the burst, and without one for the whole time."""
    recorded = deployment.recorded
    return deployment.period * (deployment.periods if recorded is None else (deployment.periods - recorded) / 2)


def _own(here: Deployment, name: str, aims: Aims) -> float:
    from penstock.advice.measure import BESIDE

    worst = replay(here)[name].latency.worst
    return aims.misses(worst) + BESIDE * worst


def _count(number: int) -> str:
    return "one" if number == 1 else str(number)
