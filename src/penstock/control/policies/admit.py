"""The policy `admit`: a query that is asked for is attached where it fits, or refused with the reason."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from penstock.cluster import Cluster, Placement, base_name
from penstock.control.policies.base import Proposal
from penstock.control.situation import Situation
from penstock.errors import Infeasible, InputError, NotReady
from penstock.load import load_model
from penstock.load.setting import Setting
from penstock.network import Network
from penstock.network.meaning import meant
from penstock.sizing.admission import Admission
from penstock.sizing.admit import admit as admission
from penstock.sizing.admit import merged
from penstock.steering import Admit, Plan
from penstock.workload import Rates

LONGER = 1e-6
"""Share by which a wait must grow to be a longer one."""

FULL = 1 - 1e-9
"""Quota of a host of which all may be used: at 1 the mean load would be without a limit."""


def admit(now: Situation, asked: Admit) -> Proposal:
    """Decide on a query under the rates and costs of late, over the horizon.

    Source: Chandramouli et al., section V (admission). Operators that run stay where they are; hosts that are dead, do
    not answer, or are to become empty get nothing, and no host gets more than it can work off. Of the latency bounds of
    who asks and of the goals the stricter one counts.

    Returns
    -------
    Proposal
        Whose plan is empty where the query is refused; ``why`` says what would break.

    Raises
    ------
    InputError
        If the query does not fit to what runs, or runs already: a name is taken, a cost is missing.
    NotReady
        If too little has been seen yet, or what runs is about to go elsewhere: it is to be asked again.
    """
    _refuse_again(now.network, asked.network)
    whole = merged(now.network, asked.network)
    for name in asked.network.unpriced:
        raise InputError(f"{name!r} has no cost", hint="give it, or pass --statistics from calibrate")
    if not now.ready:
        raise NotReady("too little has been seen of what runs")
    if _closed(now).issuperset(now.hosts):
        raise NotReady("every host is down, does not answer, or is to become empty")
    priced, cluster = now.priced(), _open(now)
    now = attrs.evolve(now, known=now.known.trusting())
    rates = _rates(now, whole, asked)
    placed = Placement({name: host for name, host in now.seen.placement.items() if host in cluster.hosts})
    name, limits = asked.network.name, _Limits.of(now, asked)
    if any(base_name(unit) not in {base_name(other) for other in placed} for unit in now.seen.placement):
        raise NotReady("an operator is on a host that is down, does not answer, or is to become empty")
    try:
        running = Setting(network=priced, cluster=cluster, placement=placed, rates=rates)
        found = admission(running, asked.network, limits.bound, sinks=limits.sinks)
    except Infeasible as error:
        return _refused(name, f"{error.reason}; {_most_room(now)}")
    worst, late = found.after.total.worst, _made_late(found, limits)
    if late:
        return _refused(name, limits.missed(found, late), worst)
    need = load_model(merged(priced, asked.network), rates).mean_load.sum()
    return Proposal(
        policy="admit",
        plan=Plan(network=whole, placement=dict(found.placement)),
        why=f"{name} fits: the longest wait becomes {worst:.3g} s, within {limits}"
        if found.admitted
        else f"{name} fits: nothing waits longer for it, though {', '.join(found.breaks)} would for more than "
        f"{limits} if nothing were dropped",
        expected={"worst": worst, "otherwise": found.before.total.worst if found.before else 0.0, "load": float(need)},
        asked=True,
        promised={s: float(rates.of_source(s).max()) for s in whole.sources if s not in now.network.sources},
    )


def _refuse_again(running: Network, new: Network) -> None:
    """Refuse a query of which all runs that it has."""
    there = running.operators
    same = [name in there and meant(there[name]) == meant(mine) for name, mine in new.operators.items()]
    if same and all(same):
        raise InputError(f"{new.name!r} runs already: so do all of its operators", file=new.file)


@attrs.frozen
class _Limits:
    """The latency that no sink may exceed, and single ones may not (s), and who wants it."""

    bound: float
    sinks: Mapping[str, float]
    whose: str = ""

    @classmethod
    def of(cls, now: Situation, asked: Admit) -> _Limits:
        mine = now.goals.bound
        bound = mine if asked.bound is None else min(mine, asked.bound)
        whose = "" if asked.bound is None else ", as asked for" if bound < mine else ", the controller's bound"
        return cls(bound, {name: value for name, value in asked.sinks.items() if value < bound}, whose)

    def __str__(self) -> str:
        single = ", ".join(f"{name} within {value:g} s" for name, value in self.sinks.items())
        return f"{self.bound:g} s{self.whose}{f', and {single}' if single else ''}"

    def missed(self, found: Admission, late: list[str]) -> str:
        """Say which bounds would be missed."""
        tight = [name for name in late if name in self.sinks]
        said = [f"{n} would wait {found.after.sinks[n].worst:.3g} s, more than {self.sinks[n]:g} s" for n in tight]
        if rest := [name for name in late if name not in tight]:
            worst = found.after.total.worst
            said.append(f"{', '.join(rest)} would wait {worst:.3g} s, more than {self.bound:g} s{self.whose}")
        return "; ".join(said)


def _made_late(found: Admission, limits: _Limits) -> list[str]:
    """Return what misses the bound because of the query: its own sinks, and those that would wait longer than now."""
    if found.admitted:
        return []
    before = {} if found.before is None else found.before.sinks
    limit = {
        name: max(limits.sinks.get(name, found.bounds.latency), before[name].worst if name in before else 0.0)
        for name in found.after.sinks
    }
    late = [name for name, row in found.after.sinks.items() if row.worst > limit[name] * (1 + LONGER)]
    known = found.before is not None and found.after.total.worst <= found.before.total.worst * (1 + LONGER)
    return [name for name in found.breaks if name in late or (name not in limit and not known)]


def _refused(name: str, why: str, worst: float | None = None) -> Proposal:
    return Proposal(
        policy="admit",
        plan=Plan(),
        why=f"{name} is refused: {why}",
        expected={} if worst is None else {"worst": worst},
        asked=True,
    )


def _most_room(now: Situation) -> str:
    """Return which host that may get something has most room, for people."""
    load = now.host_load(now.where()).mean(axis=1)
    room, k = max((now.usable[k] - load[k], k) for k, name in enumerate(now.hosts) if name not in _closed(now))
    return f"most room is on {now.hosts[k]}, {max(room, 0.0):.3g} of {now.usable[k]:.3g}"


def _closed(now: Situation) -> frozenset[str]:
    """Return the hosts, among those that are up, that get nothing new."""
    return now.draining | now.seen.silent


def _open(now: Situation) -> Cluster:
    """Return the cluster of the hosts that may get something new, each with what it can work off.

    A mean load beyond that is a backlog that grows for good, however long it takes to miss the bound.
    """
    room = dict(zip(now.hosts, now.usable.tolist(), strict=True))
    return now.seen.cluster.having(
        attrs.evolve(now.seen.cluster.hosts[name], capacity=max(room[name], 1e-9), quota=FULL)
        for name in now.hosts
        if name not in _closed(now)
    )


def _rates(now: Situation, whole: Network, asked: Admit) -> Rates:
    """Return the last rates of what runs over and over until the horizon, and the highest that a new source has."""
    looks = np.arange(max(1, round(now.goals.horizon / now.seen.period))) % now.rates.shape[1]
    known = dict(zip(now.network.sources, now.rates[:, looks], strict=True))
    found = {}
    for name in whole.sources:
        if name in known:
            found[name] = known[name]
        else:
            told = asked.rates is not None and name in asked.rates.sources
            known_most = asked.most.get(name, 0.0)
            most = float(asked.rates.of_source(name).max()) if told and asked.rates is not None else known_most
            found[name] = np.full(looks.size, most)
    return Rates.of(now.seen.period, found)
