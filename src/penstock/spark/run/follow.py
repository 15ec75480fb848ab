"""Keep fractions that follow rates: measure the sources' rates, ask what to keep, announce it.

Batches tell what they take of a source. In real-time mode they last too long for that: the topics are asked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import attrs
import numpy as np

from penstock.errors import EngineError
from penstock.latency.fragments import Fragment
from penstock.network.windows import windows_behind
from penstock.spark.compile import Deployment
from penstock.spark.left import said
from penstock.spark.run.arriving import Arriving
from penstock.spark.run.between import read_upto, topics_of
from penstock.spark.run.looking import Looking
from penstock.spark.run.moments import Moments
from penstock.spark.shipped.checkpoint import begun_and_ended, offsets
from penstock.spark.shipped.local import tables_of, tables_there
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.told import manifest_of, report_of
from penstock.spark.shipped.turn import ANNOUNCED

if TYPE_CHECKING:
    from penstock.shedding.live import Shedder
    from penstock.spark.run.system import System


LOOKS = 4
"""How often in a control period topics are asked."""


@attrs.define
class _Feed:
    """A source as one query takes it: the last batch seen, all tuples by then, and where the rate counts from."""

    query: str
    source: str
    stream: str
    share: float
    scheduled: bool
    batch: int
    total: float = 0.0
    since: tuple[float, float] | None = None


@attrs.frozen
class Answers:
    """Who says what to keep.

    Attributes
    ----------
    keep
        Returns keep fractions by stream, from the sources' rates (tuples/s) and when they were measured (s since the
        epoch).
    period
        Shortest time (s) over which rates are measured.
    error
        Fractions of whole windows that are nearer to 1 are not worth a window.
    """

    keep: Callable[[Mapping[str, float], float], Mapping[str, float]]
    period: float
    error: float = 0.0


class Follower(Looking):
    """Asks whenever rates are known anew, and announces the keep fractions to the writers.

    A batch's offsets say how much it takes, before it begins: of a scheduled source they count tuples, so that the
    fractions hold for that very batch. Of other sources the rows are counted when the batch has ended.

    Parameters
    ----------
    deployment
        What runs.
    checkpoints
        Place of each unit's checkpoint.
    answers
        Who says what to keep.
    moments
        Told what queries in real-time mode shall keep; None where there are none.
    """

    def __init__(
        self,
        deployment: Deployment,
        checkpoints: Mapping[str, Place],
        answers: Answers,
        moments: Moments | None = None,
    ) -> None:
        super().__init__()
        self.folder, self.answers, self.checkpoints, self.moments = deployment.place, answers, checkpoints, moments
        prompt = {part.name for part in deployment.fragments if deployment.prompt(part)}
        # Of a run that goes on, its last batch is the first to count from.
        found = [_Feed(*each, max(0, begun_and_ended(checkpoints[each[0]])[0]) - 1) for each in _feeds(deployment)]
        self.feeds = [feed for feed in found if feed.query not in prompt]
        self.arriving = {
            feed.source: (feed, Arriving(topics_of(deployment, feed.source), answers.period))
            for feed in found
            if feed.query in prompt
        }
        self.rates: dict[str, float] = {}
        self.looked: dict[str, int] = {}
        self.refused: set[str] = set()
        self._live = deployment.live
        self._epoch = 0.0
        self._keep: dict[str, float] = {}
        streams = deployment.network.streams
        self._whole = [s.name for s in streams if windows_behind(deployment.network, s)]

    def begin(self, epoch: float) -> None:
        """Begin to look; scheduled sources begin at the epoch (s since 1970)."""
        self._epoch = epoch
        self.start()

    def run(self) -> None:
        """Look again and again."""
        while not self._ended.wait(0.02):
            try:
                self.look()
            except (OSError, ValueError, LookupError, EngineError):
                # A broker may be away. A file may vanish, or be half there, while it is read; it is looked at again.
                continue
            except BaseException as error:
                self.error = error
                return

    def end(self) -> None:
        """Stop looking, and let the topics go."""
        try:
            super().end()
        finally:
            for _, each in self.arriving.values():
                each.close()

    def look(self) -> None:
        """Take in what has come since the last look, and announce what to keep."""
        fresh = [self._advance(feed) for feed in self.feeds]
        now = time.time()
        measured = {name: rate for name in self.arriving if (rate := self._arrives(name, now)) is not None}
        if not any(fresh) and not measured:
            return
        self.rates |= measured
        if len(self.rates) == len(self.feeds) + len(self.arriving):
            at = max([feed.since[0] for feed in self.feeds if feed.since] or [now]) - self._epoch
            self._keep = dict(self.answers.keep(self.rates, at))
            for name in self._whole:
                # Less than the plan may be off by is not worth a window.
                if self._keep.get(name, 0.0) >= 1 - self.answers.error:
                    del self._keep[name]
            self.refused |= {name for name in self._keep if name not in self._live}
        announced = {"keep": self._keep, "looked": self.looked}
        (self.folder / ANNOUNCED).replace(json.dumps(announced).encode())
        if self.moments is not None:
            self.moments.keep(self._keep)

    def _arrives(self, source: str, now: float) -> float | None:
        """Return the rate of a source whose topics are asked; None where it is not time for that, or not known yet."""
        feed, arriving = self.arriving[source]
        if arriving.at is not None and now - arriving.at < self.answers.period / LOOKS:
            return None
        arriving.look()
        self._learn(feed, arriving)
        return arriving.rate(self.answers.period)

    def _learn(self, feed: _Feed, arriving: Arriving) -> None:
        """Learn from the last batch of a query in real-time mode how many rows there are for each offset."""
        checkpoint = self.checkpoints[feed.query]
        ended = begun_and_ended(checkpoint)[1]
        if ended <= feed.batch:
            return
        feed.batch = ended - 1
        if (come := self._come(feed)) is None:
            return
        begin, end = (read_upto(checkpoint, arriving.topics, number) for number in (ended - 1, ended))
        if begin is not None and end is not None:
            arriving.read(come / feed.share, end - begin)
        feed.batch = ended

    def _advance(self, feed: _Feed) -> bool:
        """Take in the next batch of a feed; return whether there was one."""
        checkpoint = self.checkpoints[feed.query]
        begun = begun_and_ended(checkpoint)[0]
        if begun <= feed.batch:
            return False
        try:
            lines = offsets(checkpoint, feed.batch + 1)
        except FileNotFoundError:
            # Spark has removed it: count from the oldest that is left.
            feed.batch, feed.since = begun - 1, None
            return False
        at = max(self._epoch, lines[0]["batchTimestampMs"] / 1000)
        if feed.scheduled:
            feed.total = next((float(o["event"]) for o in lines if o.get("source") == feed.source), feed.total)
        else:
            come = self._come(feed)
            if come is None:
                return False
            feed.total += come / feed.share
        self.looked[feed.query] = feed.batch = feed.batch + 1
        if feed.since is None:
            feed.since = at, feed.total
        # Spark follows a batch that moved event time by one without rows: too soon after it for a rate.
        elif at - feed.since[0] >= 0.5 * self.answers.period:
            self.rates[feed.source] = (feed.total - feed.since[1]) / (at - feed.since[0])
            feed.since = at, feed.total
        return True

    def _come(self, feed: _Feed) -> int | None:
        """Return the tuples of the feed's next batch, once they have been counted."""
        counts: dict[str, list[int]] = {}
        for file in (manifest_of, report_of):
            try:
                counts |= said(file(self.folder, feed.query, feed.batch + 1))["counts"]
            except FileNotFoundError:
                return None
        return int(counts[feed.stream][0]) if feed.stream in counts else 0


def prompts(deployment: Deployment, fragment: Fragment) -> bool:
    """Whether a query shall wait for penstock to look at a batch's rates."""
    return any(query == fragment.name and scheduled for query, _, _, _, scheduled in _feeds(deployment))


def _feeds(deployment: Deployment) -> list[tuple[str, str, str, float, bool]]:
    """Return query, source, stream, its share, and whether it is scheduled, of one reader of each source.

    Every reader of a source sees all of it: one is enough.
    """
    found = []
    for name, source in deployment.network.sources.items():
        for stream in deployment.network.outputs(name):
            query = next((part.name for part in deployment.fragments if stream.reader in part.operators), None)
            if query is not None:
                found.append((query, name, stream.name, stream.share, source.scheduled))
                break
    return found


def follow(system: System, shedder: Shedder) -> Follower:
    """Return what lets keep fractions follow a plan table."""

    def keep(rates: Mapping[str, float], at: float) -> Mapping[str, float]:
        return shedder.answer(np.array([rates[name] for name in shedder.sources]), at)

    checkpoints = {query.name: query.spec.checkpoint for query in system.queries}
    # Hosts with tables of their own decide by these, also when nobody announces anything any more.
    place, own = system.deployment.place, shedder.hosts()
    tables_of(place, {**dict.fromkeys(tables_there(place)), **{host: table.document() for host, table in own.items()}})
    answers = Answers(keep, shedder.plan.period, shedder.plan.table.error)
    return Follower(system.deployment, checkpoints, answers, system.moments)
