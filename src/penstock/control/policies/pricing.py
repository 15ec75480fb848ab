"""What a plan costs: what is dropped for as long as that is needed, what comes late, and what is left waiting."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

import attrs
import numpy as np

from penstock.control.flow import Floats, Ints
from penstock.control.policies.joining import moved
from penstock.control.policies.shed import LARGEST, Shed
from penstock.control.situation import Situation
from penstock.steering import Plan

HOLDS = 600.0
"""How long a placement is expected to be good for (s): moves are divided over so many seconds, and what waits where
too much comes, and nothing is dropped, is late for so long."""

Keep = Mapping[str, float]


def price(now: Situation, plan: Plan, shed: Shed, leaving: Collection[str] = ()) -> float:
    """Return what a plan costs over the horizon and because of what it leaves waiting, by ``goals.prices``.

    A plan that makes room is priced with everything kept, with what is dropped now and with what would still have to
    be dropped: what is not needed any more is not dropped any longer.

    Parameters
    ----------
    shed
        What is asked how little has to be dropped.
    leaving
        Hosts that leave once they are empty, besides those that the plan retires.
    """
    goals, prices = now.goals, now.goals.prices
    course = _Course(now=moved(now, plan.placement), shed=shed)
    if plan.keep is not None:
        ways = [course.until_drained(plan.keep)]
    else:
        ways = [[(goals.horizon, now.seen.keep)]]
        if plan.placement and now.seen.keep:
            ways += [[(goals.horizon, keep)] for keep in ({}, course.least)]
    return (
        min(course.price(way) for way in ways)
        + hosted(now, {*leaving, *plan.retire})
        # A move is paid once, and what it is good for holds longer than the horizon.
        + (prices.move * now.moving(plan.placement) + prices.late * _paused(now, plan.placement))
        * min(1.0, goals.horizon / HOLDS)
    )


def hosted(now: Situation, gone: Collection[str] = ()) -> float:
    """Return what hosts cost over the horizon, without some that leave."""
    goals, hosts = now.goals, now.seen.cluster.hosts.values()
    return goals.prices.hour * sum(host.price for host in hosts if host.name not in gone) * goals.horizon / 3600


def _paused(now: Situation, moves: Mapping[str, str]) -> float:
    """Return how many weighted tuples come later than the bound because their unit moves."""
    over = max(0.0, now.goals.pause - now.goals.bound)
    if not over:
        return 0.0
    # What passes one operator of a unit after another is late once.
    rows = np.array([now.row[name] for name in moves], np.int64)
    most = np.zeros(int(now.unit.max(initial=0)) + 1)
    np.maximum.at(most, now.unit[rows], now.passing[rows])
    return float(most.sum()) * over


@attrs.frozen(kw_only=True)
class _Course:
    """What is to come at one placement, if what comes goes on as it does now.

    Attributes
    ----------
    now
        The moment, with operators where they will be.
    shed
        What says how little has to be dropped.
    """

    now: Situation
    shed: Shed

    @cached_property
    def where(self) -> Ints:
        return self.now.where()

    @cached_property
    def rates(self) -> Floats:
        """What comes now, array (sources,), tuples/s: without what came before it changed."""
        return self.now.known.steady(self.now.network, self.now.seen.period)

    @cached_property
    def later(self) -> Floats:
        """What is to come after the horizon, array (sources,), tuples/s: the mean of as long as is remembered."""
        known = self.now.known
        found: Floats = known.series(self.now.network, known.long).mean(axis=1)
        return found

    @cached_property
    def least(self) -> Keep:
        """The least that has to be dropped of what comes now."""
        return self._fitting(self.rates)

    def until_drained(self, keep: Keep) -> list[tuple[float, Keep]]:
        """Return for how long (s) keep fractions hold, and which ones follow them until the horizon.

        Those that drop more than what comes asks for hold until what waits is worked off.
        """
        horizon = self.now.goals.horizon
        if not self._sheds or self._score(keep) >= self._score(self.least) - 1e-12:
            return [(horizon, keep)]
        over = np.maximum(0.0, self._wait(keep) - self.shed.high * self.now.goals.bound)
        falls = np.maximum(1e-9, -self._slope(keep))
        drained = min(horizon, float((over / falls).max(initial=0.0)))
        return [(drained, keep), (horizon - drained, self.least)]

    def price(self, way: list[tuple[float, Keep]]) -> float:
        """Return what is paid for tuples that are lost or late, over the horizon and for what is left then."""
        goals, prices = self.now.goals, self.now.goals.prices
        full, wait, late, lost = self._score(None), self._wait(way[0][1]), 0.0, 0.0
        for seconds, keep in way:
            slope = self._slope(keep)
            late += float(_beyond(wait, slope, seconds, goals.bound) @ self._through(self.rates, keep))
            lost += (full - self._score(keep)) * seconds
            wait = np.maximum(0.0, wait + slope * seconds)
        passing = self._passing(self.rates, {})[0][self.now.base][self.where < 0]
        gone = float(passing.max(initial=0.0)) * goals.horizon
        return prices.value * lost + prices.late * (min(late, full * goals.horizon) + gone) + self._after(wait)

    def _after(self, wait: Floats) -> float:
        """Return what a second horizon costs, at the rates of then: all is kept, or what waits is dropped first.

        Parameters
        ----------
        wait
            By host when it begins (s).
        """
        goals, prices, later = self.now.goals, self.now.goals.prices, self.later
        full, over = self.now.score(None, later), np.maximum(0.0, wait - goals.bound)
        slope = self._load(None, later) / self.now.usable - 1
        late = float(_beyond(wait, slope, goals.horizon, goals.bound) @ self._through(later, {}))
        waiting = prices.late * min(late, full * goals.horizon)
        if not waiting or not self._sheds:
            return waiting
        lost = (full - self.now.score(self._fitting(later), later)) * goals.horizon
        return min(waiting, prices.value * (lost + (self._dropped(over) if over.any() else 0.0)))

    def _dropped(self, over: Floats) -> float:
        """Return the score of what has to be dropped besides so that what waits is gone, where that costs least."""
        usable, load = self.now.usable, self._load(self.least, self.rates)
        filled = np.minimum(usable, load)
        # No more can be dropped at a time than comes.
        span = max(self.now.goals.horizon, float((2 * over * usable / np.maximum(filled, 1e-9)).max()))
        keep = self._fitting(self.rates, np.where(over > 0, filled - over * usable / span, usable))
        return max(0.0, self._score(self.least) - self._score(keep)) * span

    @property
    def _sheds(self) -> bool:
        return bool(self.now.hosts) and len(self.now.network.streams) <= LARGEST

    def _fitting(self, rates: Floats, room: Floats | None = None) -> Keep:
        """Return the keep fractions of the optimum for rates and room (benchmark cores)."""
        room = self.now.usable if room is None else room
        if not self._sheds or bool((self._load(None, rates) <= room).all()):
            return {}
        return self.shed.fitting(self.now, self.where, rates, np.maximum(room, 1e-9))

    def _score(self, keep: Keep | None) -> float:
        return self.now.score(keep, self.rates)

    def _load(self, keep: Keep | None, rates: Floats) -> Floats:
        return self.now.host_load(self.where, keep, rates=rates)[:, 0]

    def _slope(self, keep: Keep) -> Floats:
        """Return by how much the wait at each host grows in a second."""
        found: Floats = self._load(keep, self.rates) / self.now.usable - 1
        return found

    def _wait(self, keep: Keep) -> Floats:
        """Return how long tuples wait at each host (s)."""
        found: Floats = self.now.host_backlog(self.where, keep) / self.now.usable
        return found

    def _through(self, rates: Floats, keep: Keep) -> Floats:
        """Return how many weighted sink tuples/s pass each host, array (hosts,): those that leave it again.

        What goes on to another operator of a host leaves it there. Of copies the first counts so, and the others by
        what is most.
        """
        now, flow, where = self.now, self.now.flow, self.where
        passing, along = self._passing(rates, keep)
        found = np.zeros(len(now.hosts))
        np.maximum.at(found, where[where >= 0], passing[now.base][where >= 0])
        place = np.full(len(passing), -1, np.int64)
        place[now.base[::-1]] = where[::-1]
        inner = flow.writer >= len(now.network.sources)
        inner[inner] = place[flow.writer[inner] - len(now.network.sources)] == place[flow.reader[inner]]
        leaving = np.bincount(place[place >= 0], passing[place >= 0], len(found))
        inner &= place[flow.reader] >= 0
        leaving -= np.bincount(place[flow.reader[inner]], along[inner], len(found))
        return np.maximum(found, leaving)

    def _passing(self, rates: Floats, keep: Keep) -> tuple[Floats, Floats]:
        """Return the weighted sink tuples/s that each operator puts out or leads to, and each of its inputs."""
        flow, selectivity, sources = self.now.flow, self.now.costs[1], len(self.now.network.sources)
        _, arrivals, put = self.now.run(keep, rates)
        worth = flow.worth(selectivity)
        passing = put[:, 0] * worth
        return passing[sources:], arrivals[:, 0] * selectivity * flow.factor * worth[sources + flow.reader]


def _beyond(wait: Floats, slope: Floats, seconds: float, bound: float) -> Floats:
    """Return for how long of some seconds what waits and grows is beyond a bound."""
    slope = np.where(np.abs(slope) < 1e-9, 0.0, slope)
    turns = np.clip((bound - wait) / np.where(slope == 0, 1.0, slope), 0, seconds)
    late: Floats = np.where(slope > 0, seconds - turns, np.where(slope < 0, turns, seconds * (wait > bound)))
    return late
