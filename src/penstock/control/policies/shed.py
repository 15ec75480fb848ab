"""The policy `shed`: what exceeds the capacity is dropped where it costs least, from one look to the next."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from penstock.control.flow import Floats, Ints
from penstock.control.policies.base import Proposal, evacuated
from penstock.control.policies.copies import dropping, relieved, replicated
from penstock.control.situation import Situation
from penstock.control.tables import Tables
from penstock.steering import Plan

LARGEST = 3_000
"""Streams beyond which the linear program takes more than a second, and is too slow for a decision every period."""

USUAL = 1.5
"""Batches of work that wait at a host on average, with the one that runs, which brings nothing before it ends."""

LONG = 0.9
"""Share of the longest batch below which batches are too short: their overhead counts for more than it need."""

FELT = 2.0
"""Factor on what a host can work off up to which costs may be believed too high."""

EXACT = 1e-3
"""Share of its room by which a host may be filled too much or too little."""


@attrs.frozen(kw_only=True)
class Shed:
    """Keep fractions of the greatest score that every host can work off (Tatbul et al., section 3).

    The capacity of a host is what it can work off (quota, speed and batch overhead as measured), less what it needs to
    work off its backlog within the latency bound. The optimum is looked up in the exact table of the network as it
    costs of late, which is made anew when that changes.

    Attributes
    ----------
    drain
        Share of the latency bound within which a backlog is to be worked off, though never less than two periods.
    least
        Changes of keep fractions below this are not worth a decision, but for lifting the last drops.
    low, high
        Shares of the latency bound between which what waits at a host changes nothing while something is dropped: what
        chance brings more or less for a while is waited out, not paid for in tuples that are worth more. Where tuples
        pass several batches one after another, it is no more than each of them may last; where they come by another
        host's batches, the least is such a batch more, and another ``low`` that all such hosts on a way share.
    probe
        Factor on what a host does now while nothing waits there though something is dropped, and on its capacity up to
        which nothing is dropped before as much waits there as may; neither where it has a quota.
    slack
        Share of its room by which a host may be filled too much or too little while its queue is between the two, or
        beyond a quota, and a link too much.
    reserve
        Share of the capacity that is left free, since rates are those of the period before.
    leaving
        Whether `replicate` lets copies drop where that makes room: then nothing else is dropped there.
    tables
        Those that were made; they say nothing that the situation does not.
    """

    drain: float = 0.5
    least: float = 0.01
    low: float = 0.05
    high: float = 0.28
    probe: float = 1.1
    slack: float = 0.05
    reserve: float = 0.0
    leaving: bool = False
    tables: Tables = attrs.field(factory=Tables, eq=False, repr=False)

    def __call__(self, now: Situation, rng: np.random.Generator) -> Proposal | None:
        """Return keep fractions for the rates of the last period."""
        if not now.ready or not now.hosts:
            return None
        if len(now.network.streams) > LARGEST:
            return _too_many(now)
        rates, where = now.known.steady(now.network, now.seen.period), now.where()
        if (where < 0).any() and evacuated(now, now.seen.down):
            return None  # `replicate` first: what is on dead hosts is started elsewhere
        if dropping(now) or (self.leaving and replicated(now)):
            lift = bool(now.seen.keep) and not dropping(now)
            # What was dropped when copies could not make room is left to them where no peak of late asks for it again.
            if relieved(now, now.rates.max(axis=1) if lift else None) is not None:
                return _keeping(now, {}, rates, "copies make room: keep all") if lift else None
        load = now.host_load(where, rates=rates)[:, 0]
        spare, bound = now.usable * (1 - self.reserve), now.goals.bound
        # What is still before its drops waits as long as the fractions say that would fit were nothing waiting.
        fits = self.fitting(now, where, rates, spare) if bool((load > spare).any()) else {}
        lacks, excess = self._beyond(now, now.host_backlog(where, fits) / spare, now.host_queue(fits) / spare)
        # A host that is held to a quota has no queue however full it is: an empty one is no sign that more fits.
        limited = np.array([now.seen.cluster.hosts[name].quota < 1 for name in now.hosts])
        excess = np.where(limited, np.maximum(excess, 0), excess)
        # A decision shows in the rates of the next period but one: what is to be gone before would be paid for twice.
        within = max(self.drain * bound, 2 * now.seen.period)
        room = spare * np.clip(1 - excess / within, 0.05, None)
        crowded = not now.seen.cluster.free_links and self.tables.of(now).crowded(rates)
        if not now.seen.keep:
            # Costs may be believed too high, and what is dropped before anything waits would be let in again at once.
            slight = (load <= np.where(limited, 1 + self.slack, self.probe) * spare) & (excess <= 0)
            if bool(((load <= room) | slight).all()) and not crowded:
                return None
            # The batches that run let all through: that fills what is empty, and more would come on top of it.
            room = np.minimum(room, spare)
        else:
            kept = now.host_load(where, now.seen.keep, rates=rates)[:, 0]
            # Nothing waits at a host that is as full as it can be: its costs are believed too high, and stay so, since
            # what is dropped teaches nothing. A little more than now shows it.
            # Far beyond its room, what is kept has not come there yet.
            felt = (lacks > 0) & (kept <= FELT * spare) & ~limited
            room = np.where(felt, np.maximum(room, self.probe * np.minimum(kept, load)), room)
            narrow = crowded and self.tables.of(now).crowded(rates, now.seen.keep, self.slack)
            if not narrow and self._fits(kept, load, room, excess):
                return None
        keep = self.fitting(now, where, rates, room)
        different = {*keep, *now.seen.keep}
        # The last drops are lifted however small they are, but not before what waits is worked off: a load about as
        # high as the capacity would bring them back.
        last = bool(different) and not keep and bool((lacks > 0).all())
        same = all(abs(keep.get(name, 1.0) - now.seen.keep.get(name, 1.0)) < self.least for name in different)
        if same and not last:
            return None
        return _keeping(now, keep, rates, _why(now, keep, load / spare, crowded))

    def _beyond(self, now: Situation, behind: Floats, queue: Floats) -> tuple[Floats, Floats]:
        """Return what lacks at each host of what has to wait there, and what waits beyond what may, less that.

        Parameters
        ----------
        behind, queue
            What waits at each host and before it, and what waits there. All are arrays (hosts,), s.
        """
        feeding = now.fed_by(now.longest)
        fed, bound = feeding > 0, now.goals.bound
        most = np.where(now.longest > 0, min(self.high * bound, now.allowed), self.high * bound)
        # What comes during a batch waits when it ends, and nothing a moment later: with the rest of the batch that runs
        # it is steady, and as long as batches are.
        apart = ~np.isnan(now.rest)
        behind, queue = (each + np.where(apart, now.rest, 0.0) for each in (behind, queue))
        # A little that waits keeps a host from standing idle when chance drops more than was meant. What comes by the
        # batches of another host has to last until the next of them ends.
        least = np.where(fed, 1 + 1 / max(now.hops - 1, 1), 1) * self.low * bound
        low = np.maximum(least, np.where(apart, LONG * now.longest, 0.0)) + feeding
        # Where fractions are decided batch by batch, what waits is also what has come since the last one began.
        high = most + np.where(apart | bool(now.seen.undecided), now.longest / 2, 0.0)
        high = np.where(fed, np.maximum(most, low + feeding / 2), high)
        # What is decided now comes there behind all that is on its way. As much as is so at any time, a batch and what
        # came meanwhile, comes as fast as it is worked off.
        then = behind - USUAL * feeding
        lacks = np.maximum(low - np.maximum(queue, then), 0)
        return lacks, np.maximum(then - high, 0) - lacks

    def _fits(self, kept: Floats, load: Floats, room: Floats, excess: Floats) -> bool:
        """Whether what is kept fills the hosts with too much to do, and no others, but for what queues even out."""
        full = load > room
        fills = kept[full] >= room[full] * (1 - self.slack)
        return bool(full.any() and not excess[full].any() and fills.all() and (kept <= room * (1 + self.slack)).all())

    def fitting(self, now: Situation, where: Ints, rates: Floats, room: Floats) -> dict[str, float]:
        """Return the keep fractions of the optimum for given rates and room (benchmark cores) of each host.

        A table holds for costs that are a little off; the room that it is asked for makes up for that, so that what is
        kept fills the hosts at the costs of now.
        """
        table, asked = self.tables.of(now), room
        for _ in range(3):
            keep, used = table.keep(rates, asked)
            load = now.host_load(where, keep, rates=rates)[:, 0]
            tight = (used >= asked * (1 - 1e-6)) | (load > room)
            if not tight.any() or np.abs(load / room - 1)[tight].max() < EXACT:
                break
            asked = np.where(tight, asked * room / np.maximum(load, 1e-12), asked)
        return keep


def _keeping(now: Situation, keep: Mapping[str, float], rates: Floats, why: str) -> Proposal:
    """Return the proposal of keep fractions."""
    where = now.where()
    return Proposal(
        policy="shed",
        plan=Plan(keep=keep),
        why=why,
        expected={
            "worst": now.worst(where, keep), "otherwise": now.worst(where), "score": now.score(keep, rates),
            "full": now.score(None, rates),
        },
    )  # fmt: skip


def _why(now: Situation, keep: Mapping[str, float], shares: Floats, crowded: bool) -> str:
    """Return the reason for keep fractions; ``shares``: array (hosts,), load by what each can work off."""
    over = [f"{name} {share:.2f}" for name, share in zip(now.hosts, shares, strict=True) if share > 1]
    if not keep:
        return f"{'nothing waits' if over else 'everything fits again'}: keep all"
    if not (over or crowded):
        return "work off the backlog"
    return f"load over capacity: {', '.join([*over, *['links'] * crowded])}; keep what is worth most"


def _too_many(now: Situation) -> Proposal | None:
    """Say that nothing is dropped, where something should be."""
    if (now.shares() <= 1).all():
        return None
    found = len(now.network.streams)
    why = f"nothing is dropped, though load is over capacity: {found} streams take too long to plan (at most {LARGEST})"
    return Proposal(policy="shed", plan=Plan(), why=why, hard=False)
