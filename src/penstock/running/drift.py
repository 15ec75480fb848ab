"""What a running system says of the seconds to come, and when its forecasts can no longer be believed.

A batch's work is known when it has ended, so that its duration tells its host's *speed*: how much longer it took than
the statistics say. The speed of the last minute, the latest batches most, is what is expected next. Where batches miss
the interval of a host's speed more often than they may, the host is not what it was: that is *drift*, and what was
learned before it is forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.latency.batches import BatchHosts
from penstock.latency.draws import uncertain
from penstock.load.fitting import STRETCH
from penstock.load.statistics import LASTING, HostStatistics

Array = NDArray[np.float64]

MEMORY, KEPT = 20.0, 60.0
"""Seconds after which what a batch taught counts a third, and after which it does not count at all."""

WINDOW, FEWEST = 15.0, 6
"""Seconds of batches that are judged together, and the latest batches that are, however long ago they ended."""

MISSED, UNLIKELY = 0.1, 1e-3
"""Share of batches that may miss their interval, and how improbable batches are that are called drift."""

FARTHEST = 0.01
"""How improbable a single batch counts at most: what lies further out may be a pause that says nothing of the next."""

PAUSE = 2.0
"""Seconds for which batches are out at least before that is called drift: a host that stands still fills short ones."""

USUAL = 10.0
"""Batches that what was known of their spread counts for, beside new ones."""

SETTLED = 30.0
"""Seconds after a drift in which what a host has become is still being learned."""

YOUNG = 20.0
"""Seconds in which the code of a host that has just started is young: its batches take up to three times as long, which
is no drift."""

LEAST = 0.02
"""Batches of one second differ by so much at least (s), whatever a calibration says."""

WHAT_TO_DO = "; calibrate again, or look at what else runs there"
"""What drift asks of people."""

VAGUE = 1.5
"""Error (as a logarithm) of an overhead of which calibration tells nothing, and of a host that was never calibrated."""

HORIZONS = (10.0, 60.0)
"""Seconds that forecasts look ahead."""

DRAWS = 60
"""Draws of a forecast."""


@attrs.frozen
class Seen:
    """A batch that has ended.

    Attributes
    ----------
    host, start, end
        Where and when it ran (s).
    duration, expected
        Seconds that it took, or would have taken alone, and that it would have taken as measured before.
    fixed
        Seconds of the expected ones that it takes however few tuples are in it.
    core
        How fast its core did a fixed loop meanwhile, as a share of what it did while calibrated; None: not measured.
    query
        Which query's it was.
    tail
        How probable it was, by what was believed when it ended, that it takes so much more or less than expected.
    age
        Seconds since the run began, or last went on after a stop, when it started.
    """

    host: str
    start: float
    end: float
    duration: float
    expected: float
    fixed: float = 0.0
    core: float | None = None
    query: str = ""
    tail: float = 1.0
    age: float = attrs.field()

    @age.default
    def _since_the_beginning(self) -> float:
        return self.start

    @property
    def share(self) -> float:
        """What of it its overhead should take."""
        return self.fixed / max(self.expected, 1e-6)

    @property
    def ratio(self) -> float:
        """The logarithm of how much longer it took than expected."""
        return math.log(max(self.duration, 1e-6) / max(self.expected, 1e-6))


@attrs.frozen
class Speed:
    """How much longer a host's batches take than measured before, all of each and its overhead besides.

    Attributes
    ----------
    level, doubt
        Logarithm of the one, and its standard error.
    fixed, fixed_doubt
        The same of the other.
    tied
        How the two errors go together (-1 to 1).
    residual, jitter
        How batches differ by chance, as of `penstock.load.statistics.HostStatistics`.
    wander
        How all batches of ten seconds differ from those of ten others: standard deviation.
    """

    level: float = 0.0
    doubt: float = 0.0
    fixed: float = 0.0
    fixed_doubt: float = 0.0
    tied: float = 0.0
    residual: float = LEAST
    jitter: float = 0.0
    wander: float = 0.0

    @property
    def sure(self) -> Array:
        """How much is known of both levels: the inverse of their errors' covariance; nothing of one without doubt."""
        fixed = max(self.fixed_doubt, 1e-6)
        if self.doubt <= 0:
            return np.diag([0.0, fixed**-2])
        tied = float(np.clip(self.tied, -0.999, 0.999)) * self.doubt * fixed
        return np.asarray(np.linalg.inv([[self.doubt**2, tied], [tied, fixed**2]]), np.float64)

    def expects(self, batch: Seen) -> float:
        """Return the logarithm of how much longer a batch takes."""
        return self.level + self.fixed * batch.share

    def spread(self, batch: Seen) -> float:
        """Return how batches like this one differ by chance: standard deviation, as a share of what they take."""
        expected = max(batch.expected, 1e-6)
        return math.sqrt(self.jitter**2 + self.residual**2 * expected) / expected

    def tail(self, batch: Seen) -> float:
        """Return how probable it is that a batch lies as far out as this one, or further; `MISSED` may miss."""
        other = batch.share * self.fixed_doubt
        doubt = math.sqrt(max(self.doubt**2 + other**2 + 2 * self.tied * self.doubt * other, 0.0))
        off = abs(batch.ratio - self.expects(batch)) / math.hypot(doubt, self.wander, self.spread(batch))
        return math.erfc(off / math.sqrt(2))

    def drawn(self, rng: np.random.Generator, count: int) -> Array:
        """Draw how much longer batches take, array (2, count): all of each, and its overhead besides."""
        one, two = rng.standard_normal((2, count))
        all_of_it = self.level + math.hypot(self.doubt, self.wander) * one
        # What the core does to batches from one stretch to the next is not tied to anything.
        mine = self.tied * self.doubt / max(math.hypot(self.doubt, self.wander), 1e-9)
        fixed = self.fixed + self.fixed_doubt * (mine * one + math.sqrt(1 - mine**2) * two)
        drawn: Array = np.exp(np.stack([all_of_it, fixed]))
        return drawn

    @classmethod
    def of(cls, known: HostStatistics) -> Speed:
        """Return what calibration knows: what its regression left open, and what runs were off by.

        No error at all is not certainty: such a host was never calibrated.
        """
        if not uncertain(known):
            return cls(doubt=VAGUE, fixed_doubt=VAGUE)
        fixed, error = min(known.overhead_error / max(known.overhead, 1e-6), VAGUE), min(known.error, VAGUE)
        both = known.correlation * error * fixed
        # The overhead's error is that of all of a batch, and what is off besides.
        level = error**2 + max(known.unrest, known.between_runs or 0.0) ** 2
        other = error**2 - 2 * both + fixed**2 + (known.overhead_between_runs or 0.0) ** 2
        return cls(
            doubt=math.sqrt(level),
            fixed_doubt=math.sqrt(other),
            tied=(both - error**2) / math.sqrt(level * other) if level * other > 0 else 0.0,
            residual=max(known.residual, LEAST),
            jitter=known.jitter,
            wander=LASTING * known.wander,
        )


def learned(batches: Sequence[Seen], now: float, before: Speed) -> Speed:
    """Return a host's speed from its batches, the latest most, beside what was known before.

    Each counts by the inverse of its variance: long batches tell more. However many they are, those of ten seconds tell
    what the level was then, which is not what it will be. What was known before counts by its doubt; of a level without
    any doubt nothing was known.
    """
    recent = [batch for batch in batches if batch.end > now - KEPT]
    if not recent:
        return before
    age = np.array([math.exp((batch.end - now) / MEMORY) for batch in recent])
    sure = np.array([1 / before.spread(batch) ** 2 for batch in recent])
    ratio = np.array([batch.ratio for batch in recent])
    parts = np.array([[1.0, batch.share] for batch in recent])
    weight = age * sure
    # Two measurements of one speed: each counts by the inverse of its variance.
    info = (parts.T * weight) @ parts * (weight.sum() / float(age**2 @ sure))
    told = parts.T @ (weight * ratio) * (weight.sum() / float(age**2 @ sure))
    prior = before.sure
    both = np.array([before.level, before.fixed])
    number, scale = float(age.sum() ** 2 / (age**2).sum()), 1.0
    length = min(recent[-1].end - recent[0].start, 2 * MEMORY)
    differs = before.wander**2 / max(1.0, length / STRETCH)
    for _ in range(2):
        sure_of, says = _blurred(info / scale**2, told / scale**2, differs)
        spread = np.linalg.inv(sure_of + prior)
        found = spread @ (says + prior @ both)
        # By what batches differ more than they did.
        more = float(weight @ (ratio - parts @ found) ** 2 / age.sum())
        scale = math.sqrt((number * more + USUAL) / (max(number - 1, 0) + USUAL))
    doubt, other = np.sqrt(np.diag(spread))
    return attrs.evolve(
        before,
        level=float(found[0]),
        doubt=float(doubt),
        fixed=float(found[1]),
        fixed_doubt=float(other),
        tied=float(np.clip(spread[0, 1] / (doubt * other), -1.0, 1.0)),
        residual=scale * before.residual,
        jitter=scale * before.jitter,
    )


def _blurred(info: Array, told: Array, variance: float) -> tuple[Array, Array]:
    """Return what is told of two numbers, and how surely, where the first itself differs by chance meanwhile."""
    less = variance / (1 + variance * info[0, 0])
    return info - less * np.outer(info[0], info[0]), told - less * told[0] * info[0]


def _latest(batches: Sequence[Seen], after: float) -> tuple[Seen, ...]:
    """Return the batches that ended after a time (s), or the last `FEWEST` where those reach further back."""
    first = next((k for k, batch in enumerate(batches) if batch.end > after), len(batches))
    return tuple(batches[min(first, max(len(batches) - FEWEST, 0)) :])


def chance(tails: Sequence[float]) -> float:
    """Return how probable it is that batches lie as far out as these ones, taken together.

    That of each is uniform where all is as it was; Fisher's test of their product (Statistical Methods for Research
    Workers, section 21.1). None counts for less than `FARTHEST`.
    """
    off, term, total = -sum(math.log(max(tail, FARTHEST)) for tail in tails), 1.0, 0.0
    for k in range(len(tails)):
        total += term
        term *= off / (k + 1)
    return math.exp(-off) * total


@attrs.frozen
class Drift:
    """A host that is not what it was.

    Attributes
    ----------
    host, time, since
        Which one, when that was seen, and since when it is so (s).
    slower
        How much longer its batches take than calibrated.
    core
        How fast its core is, as a share of what it was while calibrated; None: not measured. It tells a machine that
        became slower from work that became more.
    began
        When its run began (s), other than 0 where one went on after a stop.
    """

    host: str
    time: float
    since: float
    slower: float
    core: float | None = None
    began: float = 0.0

    @property
    def says(self) -> str:
        """One line for people."""
        return (
            f"drift: batches of {self.host} take {self.slower:.2f} times as long as calibrated from "
            f"{self.since - self.began:.0f} s on, which is outside their interval "
            f"(seen at {self.time - self.began:.0f} s)"
            + ("" if self.core is None else f", its core is {self.core:.2f} times as fast")
            + WHAT_TO_DO
        )


def in_short(drifts: Iterable[Drift]) -> list[str]:
    """Return a line for each host that drifted, however often it did."""
    by_host: dict[str, list[Drift]] = {}
    for drift in drifts:
        by_host.setdefault(drift.host, []).append(drift)
    return [mine[0].says if len(mine) == 1 else _several(mine) for mine in by_host.values()]


def _several(drifts: Sequence[Drift]) -> str:
    took = [drift.slower for drift in drifts]
    return (
        f"drift: batches of {drifts[0].host} left their interval {len(took)} times, first from "
        f"{drifts[0].since - drifts[0].began:.0f} s on: they took {min(took):.2f} to {max(took):.2f} times as long as "
        "calibrated" + WHAT_TO_DO
    )


@attrs.frozen(eq=False, kw_only=True)
class Watch:
    """What is believed of hosts, from their batches so far.

    Attributes
    ----------
    known
        Their speeds as calibrated, or as learned since they drifted.
    calibrated
        Their speeds as calibrated; of those of which that told any error, since no other can drift.
    recent
        The batches of each host in the last minute, or the latest few.
    drifts
        Of all hosts, in the order of time.
    drifted
        When each of these hosts last did (s).
    young
        Age (s) below which batches are not called drift: see `YOUNG`.
    """

    known: Mapping[str, Speed]
    calibrated: Mapping[str, Speed]
    recent: Mapping[str, tuple[Seen, ...]] = attrs.field(factory=dict)
    drifts: tuple[Drift, ...] = ()
    drifted: Mapping[str, float] = attrs.field(factory=dict)
    young: float = 0.0

    @classmethod
    def of(cls, hosts: BatchHosts, young: float = 0.0) -> Watch:
        """Return what calibration knows of hosts."""
        rows = {} if hosts.statistics is None else hosts.statistics.hosts
        known = {name: Speed.of(rows.get(name, HostStatistics())) for name in hosts.overhead}
        calibrated = {name: speed for name, speed in known.items() if name in rows and uncertain(rows[name])}
        return cls(known=known, calibrated=calibrated, young=young)

    def after(self, batch: Seen) -> Watch:
        """Return what is believed after a batch, in the order in which batches end."""
        name, now = batch.host, batch.end
        batch = attrs.evolve(batch, tail=self.known[name].tail(batch))
        mine = _latest((*self.recent.get(name, ()), batch), now - KEPT)
        drift = self._drift(name, mine, now)
        if drift is None and now >= self.drifted.get(name, -math.inf) + SETTLED:
            return attrs.evolve(self, recent={**self.recent, name: mine})
        if drift is not None:
            # What they were off by is explained now.
            mine = tuple(attrs.evolve(each, tail=1.0) for each in mine if each.end >= drift.since)
        # What lies far out may be the next drift: nothing is learned from it before one is back inside.
        last = next(k for k in range(len(mine), 0, -1) if k == 1 or mine[k - 1].tail >= MISSED)
        speed = learned(mine[:last], now, self._forgot(name))
        # In half a minute no more is learned of it than while it was calibrated.
        speed = attrs.evolve(speed, doubt=max(speed.doubt, self.calibrated[name].doubt))
        if drift is not None:
            drift = attrs.evolve(drift, slower=math.exp(float(np.mean([speed.expects(batch) for batch in mine]))))
        told = attrs.evolve(self, known={**self.known, name: speed}, recent={**self.recent, name: mine})
        if drift is None:
            return told
        return attrs.evolve(told, drifts=(*self.drifts, drift), drifted={**self.drifted, name: now})

    def _drift(self, name: str, batches: Sequence[Seen], now: float) -> Drift | None:
        """Say whether the latest batches miss their interval more often, or by more, than chance has it."""
        if name not in self.calibrated:
            return None
        window = [batch for batch in _latest(batches, now - WINDOW) if batch.age >= self.young]
        tails = [batch.tail for batch in window]
        # The change is where what came from there on is the least probable.
        since = [k for k, batch in enumerate(window) if batch.tail < MISSED and now - batch.start >= PAUSE]
        odds = [chance(tails[k:]) for k in since]
        if not odds or min(odds) >= UNLIKELY:
            return None
        begin = window[since[odds.index(min(odds))]].end
        cores = [batch.core for batch in window if batch.core is not None and batch.end >= begin]
        return Drift(name, now, begin, 1.0, float(np.median(cores)) if cores else None)

    def _forgot(self, name: str) -> Speed:
        """Return what is left of a host's speed when it has drifted: how batches differ, and what an overhead is."""
        return attrs.evolve(self.calibrated[name], doubt=0.0, tied=0.0)

    def speed(self, name: str, now: float) -> Speed:
        """Return what is expected of a host from now on.

        Since it drifted its own batches tell that alone: what was learned then was learned from them.
        """
        recent = self.recent.get(name, ())
        drifted = name in self.drifted and any(each.end > now - KEPT for each in recent)
        return learned(recent, now, self._forgot(name) if drifted else self.known[name])

    def ahead(self, name: str, now: float, rng: np.random.Generator) -> Array:
        """Draw by what a host's batches, and their overhead besides, will take longer, array (2, draws + 1).

        The first of each is what is expected.
        """
        speed = self.speed(name, now)
        return np.concatenate([np.exp([[speed.level], [speed.fixed]]), speed.drawn(rng, DRAWS)], axis=1)


def history(batches: Iterable[Seen], trigger: float) -> dict[str, Array]:
    """Return by host what its batches took (s) in one interval of the trigger after another, by where they started.

    An array (3, intervals): what they took, what they should have taken, and the overhead in that. Up to the last that
    has ended: what is under way may take longer or not. Where no batch started, the host was as fast as in the interval
    before.
    """
    found: dict[str, dict[int, list[Seen]]] = {}
    for batch in batches:
        found.setdefault(batch.host, {}).setdefault(math.floor(batch.start / trigger + 1e-9), []).append(batch)
    rows = {}
    for name, places in found.items():
        row, last = np.ones((3, max(places) + 1)), np.array([1.0, 1.0, 0.0])
        for place in range(row.shape[1]):
            if place in places:
                last = np.sum([(b.duration, max(b.expected, 1e-6), b.fixed) for b in places[place]], axis=0)
            row[:, place] = last
        rows[name] = row
    return rows
