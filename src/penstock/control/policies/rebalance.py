"""The policy `rebalance`: operators move from hosts that have too much to do, as far as it pays."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import attrs
import numpy as np

from penstock.control.flow import Floats, Ints
from penstock.control.policies.base import Proposal, arrays_of, calm, counted, percent, resting
from penstock.control.situation import Situation
from penstock.errors import InputError
from penstock.files import suggest
from penstock.native.jit import LIMIT, compiling
from penstock.placement import algorithm
from penstock.steering import Plan

NAMES = {
    "one-way": "correlation-one-way",
    "two-way": "correlation-two-way",
    "exchange": "correlation-exchange",
    "potential": "potential-greedy",
}
"""Short names of what decides where operators go."""


@attrs.frozen(kw_only=True)
class Rebalance:
    """Move what an algorithm would move, the moves that pay most first, and only those that pay.

    A placement is priced by how long tuples will wait at each host over the horizon (cumulative excess, with the
    backlog of now), plus the load above ``goals.high``; a move costs the pause that it makes. Once no host has too much
    to do nothing is worth a move, so that it rests after a drift.

    Attributes
    ----------
    by
        One of `NAMES`, or an algorithm that improves a placement (Xing et al., section 3.3; Wang et al., section 4.2).
    theta
        Share of the operators, the lightest, that stay (Wang et al., section 4.2).
    """

    by: str = "one-way"
    theta: float = 0.0

    def __attrs_post_init__(self) -> None:
        if self.by not in NAMES:
            raise InputError(
                f"{self.by!r} does not rebalance", at="--policy", hint=suggest(self.by, NAMES, "rebalance")
            )
        if not 0 <= self.theta <= 1:
            raise InputError(f"expected a share from 0 to 1, got {self.theta:g}", at="--theta")

    def __call__(self, now: Situation, rng: np.random.Generator) -> Proposal | None:
        """Return moves off hosts that have too much to do."""
        if not now.ready or not calm(now, "rebalance"):
            return None
        where = now.where()
        before = prices(now, now.host_load(where), now.host_backlog(where))
        if before.max(initial=0.0) <= 0 or len(now.hosts) < 2:
            return None
        target = self.target(now, rng)
        moves = paying(now, where, target, before)
        if not moves:
            return None
        after = now.where(moves)
        shares, then = now.shares(where), now.shares(after)
        hot, worst = int(np.argmax(shares)), now.worst(where)
        return Proposal(
            policy="rebalance",
            plan=Plan(placement=moves),
            why=f"{now.hosts[hot]} is at {percent(shares[hot])} of what it can work off, the mean is "
            f"{percent(float(shares.mean()))}: {counted(len(moves), 'move')} ({self.by}), after which the highest is "
            f"{percent(float(then.max()))}",
            expected={"worst": now.worst(after), "otherwise": worst, "highest": float(then.max())},
            hard=bool(worst > now.goals.bound or shares[hot] > 1),
        )

    def target(self, now: Situation, rng: np.random.Generator) -> dict[str, str]:
        """Return where the algorithm would have each operator that it moves."""
        draining = {name for name, host in now.seen.placement.items() if host in now.draining}
        arrays = arrays_of(now, resting(now) | draining)
        if now.draining:
            open_ones = np.array([host not in now.draining for host in arrays.hosts])
            chosen = np.flatnonzero(open_ones[arrays.previous])
            arrays = arrays.subset(chosen, np.flatnonzero(open_ones))
        if self.theta:
            held = arrays.fixed.copy()
            light = len(arrays.names) - math.floor(self.theta * len(arrays.names) + 1e-9)
            held[light:] = arrays.previous[light:]
            arrays = attrs.evolve(arrays, fixed=held)
        if len(arrays.hosts) < 2 or not len(arrays.names):
            return {}
        count = len(arrays.names)
        context: AbstractContextManager[Any] = (
            compiling() if 4 * count * count * arrays.load.shape[1] > LIMIT else nullcontext()
        )
        with context:
            found = algorithm(NAMES[self.by])(arrays, rng)
        return {arrays.names[k]: arrays.hosts[found[k]] for k in np.flatnonzero(found != arrays.previous).tolist()}


def prices(now: Situation, load: Floats, backlog: Floats, hosts: Ints | None = None) -> Floats:
    """Return what each host's load is worth in seconds of waiting, array (hosts,).

    Parameters
    ----------
    load, backlog
        Arrays (hosts, k) in benchmark cores and (hosts,) in benchmark-core seconds.
    hosts
        Their numbers; None: all.
    """
    usable = now.usable if hosts is None else now.usable[hosts]
    step, k = now.seen.period, load.shape[1]
    excess = highest = backlog
    for t in range(max(1, round(now.goals.horizon / step))):
        excess = np.maximum(0.0, excess + (load[:, t % k] - usable) * step)
        highest = np.maximum(highest, excess)
    # A wait that one period of work makes up for is none.
    wait = np.maximum(0.0, highest / usable - step)
    over = np.maximum(0.0, load.mean(axis=1) / usable - now.goals.high)
    found: Floats = wait + now.goals.horizon * over
    return found


def paying(now: Situation, where: Ints, target: dict[str, str], before: Floats) -> dict[str, str]:
    """Return the moves towards a target that pay, the best first, at most as many as may move at a time."""
    number = {name: k for k, name in enumerate(now.hosts)}
    names, home = [now.seen.operators[k] for k in now.first], where[now.first]
    row = {name: k for k, name in enumerate(names)}
    series, waits = now.host_load(where), now.host_backlog(where)
    price, load, backlog = before.copy(), now.summed(now.load[now.base]), now.summed(now.backlog)
    trials = [(row[name], int(home[row[name]]), number[host]) for name, host in sorted(target.items())]
    trials = [(k, a, b) for k, a, b in trials if a >= 0 and price[a] > 0]
    found: dict[str, str] = {}

    def gain(k: int, a: int, b: int) -> float:
        trial = np.array([series[a] - load[k], series[b] + load[k]])
        behind = np.maximum(0.0, np.array([waits[a] - backlog[k], waits[b] + backlog[k]]))
        return float(price[a] + price[b] - prices(now, trial, behind, np.array([a, b])).sum())

    gains = {trial: gain(*trial) for trial in trials}
    while gains and len(found) < now.goals.moves:
        best = max(gains, key=lambda trial: (gains[trial], trial))
        if gains.pop(best) <= now.goals.pause:
            break
        k, a, b = best
        series[a], series[b] = series[a] - load[k], series[b] + load[k]
        waits[a], waits[b] = max(0.0, waits[a] - backlog[k]), waits[b] + backlog[k]
        pair = np.array([a, b])
        price[pair] = prices(now, series[pair], waits[pair], pair)
        found[names[k]] = now.hosts[b]
        for other in [trial for trial in gains if {trial[1], trial[2]} & {a, b}]:
            gains[other] = gain(*other)
    return now.together(found)
