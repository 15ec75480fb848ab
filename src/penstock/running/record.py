"""How far runs were from what was told before them: kept from one to the next, it says how far the next one may be.

It is kept of hosts, whose batches took more or less time than calibration had told, and of predictions: how far from
the prediction, and how near to the end of its interval, the measured latency was.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import msgspec
import numpy as np

from penstock.cluster import Cluster
from penstock.errors import InputError
from penstock.files import Document, atomic, user_cache
from penstock.latency.draws import AT_FIRST, TAILS
from penstock.latency.estimate import KEYS, Spread
from penstock.load import Statistics
from penstock.load.statistics import HostStatistics
from penstock.running.drift import Seen

ENV = "PENSTOCK_RECORD"
"""Variable that names the file; empty for none."""

KEPT, COUNTED = 800, 80
"""Lines of the file, and the latest ones of a machine that count."""

TRUSTED = 2.0
"""Hosts busy for a whole run that the unrest of the calibration itself is worth."""

FAR = 0.7
"""A host that took twice as long, or half, is as far off as any can be."""

PREDICTED, SUPPOSED = 40, 2.0
"""The latest predictions of a machine that count, and how many the usual width is worth beside them."""

OUTSIDE = 2.0
"""A prediction that is off by so many times the way to the end of its interval is as far off as any can be."""

PRIOR = SUPPOSED * TAILS / (TAILS + 3)
"""The same as a weight of variances: that of Student's t is told by its values less well than that of a normal one."""

TAILS_EDGE = 2.132
"""Where nine of ten values of Student's t with `TAILS` degrees of freedom lie: between minus this and this."""

ROUNDS, LEAST = 100, 0.01
"""Rounds until variances have settled, and the standard deviation that calibration says at least."""

UNLIKE = 0.1, 0.3
"""Standard deviations of a speed and of an overhead from which variances start besides: there may be several maxima."""


class Line(msgspec.Struct, frozen=True):
    """A host's short batches in a run, which are mostly overhead, or its long ones.

    Attributes
    ----------
    place
        Its machine.
    level
        Logarithm of how many times as long as calibrated they took.
    fixed
        Share of the overhead in what they should have taken.
    busy
        Share of the run that they took.
    """

    place: str
    level: float
    fixed: float
    busy: float


class Came(msgspec.Struct, frozen=True):
    """What came of a prediction.

    Attributes
    ----------
    places
        The machines of its hosts.
    off
        Of the worst latency, p99, p50 and mean, how far what was measured was from what was predicted: 1 is the end of
        the interval on that side, as it was drawn.
    """

    places: str
    off: dict[str, float]


@attrs.frozen
class Record:
    """A file with lines for each host of each run, and one for its prediction.

    A file that cannot be read or written is none: what it holds only makes predictions more honest.

    Attributes
    ----------
    file
        None: nothing is kept.
    """

    file: Path | None

    @classmethod
    def of_user(cls, environ: Mapping[str, str] = os.environ) -> Record:
        """Return the record of this user on this machine."""
        named = environ.get(ENV)
        return cls(user_cache() / "runs.jsonl" if named is None else Path(named) if named else None)

    def note(
        self, statistics: Statistics, cluster: Cluster, batches: Sequence[Seen], off: Mapping[str, float] | None = None
    ) -> None:
        """Add a run by its batches, of hosts that had been calibrated in place, and by what its prediction was off."""
        known = [b for b in batches if statistics.hosts.get(b.host, HostStatistics()).speed is not None]
        rows: list[Line | Came] = [*_lines_of(known, cluster)]
        if self.file is None or not rows:
            return
        if off:
            rows.append(Came(_places(cluster), dict(off)))
        with contextlib.suppress(InputError, OSError), _alone(self.file), atomic(self.file, "wb") as file:
            file.write(msgspec.json.Encoder().encode_lines([*self._lines(), *rows][-KEPT:]))

    def applied(self, statistics: Statistics, cluster: Cluster) -> Statistics:
        """Return statistics that know how far earlier runs were off, of each host where it is and of predictions.

        Of what is not in the record they keep what they know.
        """
        lines = self._lines()

        def known(name: str, host: HostStatistics) -> HostStatistics:
            mine = [line for line in lines if isinstance(line, Line) and line.place == _place(cluster, name)][-COUNTED:]
            if not mine:
                return host
            alone = attrs.evolve(host, between_runs=None, overhead_between_runs=None)
            both = spread(mine, alone.may_differ)
            return attrs.evolve(host, between_runs=both[0], overhead_between_runs=both[1])

        hosts = {n: known(n, row) if n in cluster.hosts else row for n, row in statistics.hosts.items()}
        came = [line.off for line in lines if isinstance(line, Came) and line.places == _places(cluster)]
        return attrs.evolve(statistics, hosts=hosts, intervals={**statistics.intervals, **stretches(came[-PREDICTED:])})

    def _lines(self) -> list[Line | Came]:
        lines: list[bytes] = []
        with contextlib.suppress(OSError):
            lines = [] if self.file is None else self.file.read_bytes().splitlines()
        decode, found = msgspec.json.Decoder(Document).decode, list[Line | Came]()
        for line in lines:
            # One that is broken takes no other with it.
            with contextlib.suppress(msgspec.MsgspecError, RecursionError):
                row = decode(line)
                found.append(msgspec.convert(row, Came) if "off" in row else msgspec.convert(row, Line))
        return found


@contextlib.contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Keep other runs from a file's folder while it is read and written anew."""
    file.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


NOTHING = Record(None)
"""The record of those who keep none."""


def spread(lines: Sequence[Line], before: float) -> tuple[float, float]:
    """Return how far runs were off: standard deviations of the logarithm of a host's speed, and of its overhead.

    A level is the speed's plus the overhead's times its share, both normal: the likeliest variances, by expectation and
    maximization from several starts. What hardly ran says little of what work takes: each line counts by how busy it
    was.

    Parameters
    ----------
    lines
        Of the record.
    before
        What calibration alone says of both, which counts for `TRUSTED` of them.
    """
    level = np.clip([line.level for line in lines], -FAR, FAR)
    parts = np.stack([np.ones(len(lines)), np.clip([line.fixed for line in lines], 0.0, 1.0)])
    busy = np.clip([line.busy for line in lines], 0.0, 1.0)
    before = max(before, LEAST)
    found = np.array([(before, before), (before, UNLIKE[1]), (UNLIKE[0], before)]) ** 2
    for _ in range(ROUNDS):
        mine = found[:, :, None] * parts
        total = (mine * parts).sum(axis=1, keepdims=True)
        expected = (mine / total * level) ** 2 + found[:, :, None] - mine**2 / total
        found = (expected @ busy + TRUSTED * before**2) / (busy.sum() + TRUSTED)
    each = found @ parts**2
    unlikely = (np.log(each) + level**2 / each) @ busy + TRUSTED * (np.log(found) + before**2 / found).sum(axis=1)
    speed, overhead = np.sqrt(found[np.argmin(unlikely)]).tolist()
    return speed, overhead


def off_by(
    spread: Spread, predicted: Mapping[str, float | None], measured: Mapping[str, float | None]
) -> dict[str, float]:
    """Return how far a prediction was off, as a `Came` has it.

    Parameters
    ----------
    spread
        Its interval.
    predicted, measured
        Latencies (s): ``max``, ``p99``, ``p50`` and ``mean``; None where nothing came.
    """
    found = {}
    for key, ends in spread.total.items():
        middle, came = (row["max" if key == "worst" else key] for row in (predicted, measured))
        if middle is None or came is None:
            continue
        stretch, far = spread.stretch.get(key, 1.0), came - middle
        if ends[0] < ends[1]:
            # On a side on which the interval ends at the prediction itself, all that comes is as far off as can be.
            way = max(abs(ends[far > 0] - middle), stretch * abs(far) / OUTSIDE, 1e-300)
            found[key] = stretch * far / way
    return found


def stretches(came: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return how many times as wide as drawn intervals have to be so that nine of ten hold what comes.

    Errors are taken to have Student's tails: a run whose machine was disturbed says little of the others. The likeliest
    width, by expectation and maximization, beside the usual one.
    """
    found = {}
    for key in KEYS:
        off = np.clip([row[key] for row in came if key in row], -OUTSIDE, OUTSIDE) * TAILS_EDGE
        if off.size:
            usual = variance = AT_FIRST[key] ** 2
            for _ in range(ROUNDS):
                weight = (TAILS + 1) / (TAILS + off**2 / variance)
                variance = (float(weight @ off**2) + PRIOR * usual) / (off.size + PRIOR)
            found[key] = math.sqrt(variance)
    return found


def _lines_of(batches: Sequence[Seen], cluster: Cluster) -> list[Line]:
    """Return a run's lines: for each host one of its short and one of its long batches, where it had any."""
    groups: dict[tuple[str, bool], list[Seen]] = {}
    for batch in batches:
        groups.setdefault((batch.host, batch.fixed > batch.expected / 2), []).append(batch)
    length = max((batch.end for batch in batches), default=0.0)
    found = []
    for (host, _), mine in sorted(groups.items()):
        took, expected = sum(batch.duration for batch in mine), sum(batch.expected for batch in mine)
        if min(took, expected, length) > 0:
            fixed = float(sum(batch.fixed for batch in mine) / expected)
            found.append(Line(_place(cluster, host), math.log(took / expected), fixed, float(took / length)))
    return found


def _places(cluster: Cluster) -> str:
    """Return the machines of a cluster."""
    return " ".join(sorted({_place(cluster, name) for name in cluster.hosts}))


def _place(cluster: Cluster, name: str) -> str:
    """Return the machine of a host: where it listens, or this one."""
    return cluster.hosts[name].spark or "here"
