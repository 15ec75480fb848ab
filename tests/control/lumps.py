"""Two hosts that work in batches as Spark does, the second one on what the first one puts out, with noise.

The simulator decides on every tuple what is dropped; here, as on Spark, a batch takes all that waits and drops what the
fractions of that moment say, and what it puts out is there when it ends. Little is exact: batches differ in length, and
the overhead that is told is a little off.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import attrs
import numpy as np

from penstock.cluster import Cluster
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding import Exact, build_program
from penstock.steering import HostSeen, Observation, UnitSeen

TRIGGER = 0.5
CALM, PEAK = 80.0, 400.0
BEGIN, AFTER = 40.0, 10.0
NEAR, FAR = 0.004, 0.009
WORTH = {"near": 1.0, "far": 3.0}


def network():
    """Return a step on one host, and one on another that sees every other row and is worth three times as much."""
    operators = [
        Operator(name="all", kind="filter", where="true", inputs=("events",), cost=(1e-5,), selectivity=(1.0,)),
        Operator(name="checked", kind="map", inputs=("all",), cost=(NEAR,), selectivity=(1.0,)),
        Operator(name="half", kind="filter", where="true", inputs=("all",), cost=(2e-3,), selectivity=(0.5,)),
        Operator(name="examined", kind="map", inputs=("half",), cost=(FAR,), selectivity=(1.0,)),
    ]
    sinks = [
        Sink(name="near", input="checked", weight=WORTH["near"]),
        Sink(name="far", input="examined", weight=WORTH["far"]),
    ]
    return Network.of("lumps", [Source(name="events", format="nexmark")], operators, sinks)


class Lumps:
    """The engine.

    Parameters
    ----------
    overheads
        Of the two hosts' batches (s).
    noise
        Relative standard deviation of a batch's length.
    lasting
        How long the overload lasts (s).
    """

    def __init__(self, seed=0, overheads=(0.17, 0.27), noise=0.08, lasting=40.0):
        self.end, self.length = BEGIN + lasting, BEGIN + lasting + AFTER
        self.rng, self.now, self.keep, self.noise = np.random.default_rng(seed), 0.0, {}, noise
        self.network, self.cluster = network(), Cluster.uniform(2)
        self.placement = dict.fromkeys(self.network.operators, "h1") | {"examined": "h2"}
        steps = [np.arange(0, BEGIN, 1 / CALM), np.arange(BEGIN, self.end, 1 / PEAK)]
        steps.append(np.arange(self.end, self.length, 1 / CALM))
        self.queues = [np.concatenate(steps), np.array([])]
        self.hosts = [SimpleNamespace(overhead=each, free=0.0, taken=0, done=0, runs=[]) for each in overheads]
        self.came = {"near": [], "far": []}
        self.counted, self.at, self.entered = [], 0.0, 0

    def wait(self, until):
        """Work until then."""
        while True:
            first, host = min(enumerate(self.hosts), key=lambda row: row[1].free)
            if host.free > until:
                break
            if host.runs and host.taken > host.done:
                self._end(first, host)
            else:
                self._begin(first, host)
        self.now = until
        return until < self.length

    def _kept(self, stream, rows, counts):
        share = self.keep.get(stream, 1.0)
        kept = rows if share >= 1 else int(np.floor(rows * share + self.rng.random()))
        counts[stream] = (rows, rows - kept)
        return kept

    def _begin(self, number, host):
        at = host.free
        upto = int(np.searchsorted(self.queues[0], at, "right")) if number == 0 else self.queues[1].size
        rows = self.queues[number][host.taken : upto]
        if not rows.size:
            host.free = (np.floor(at / TRIGGER + 1e-9) + 1) * TRIGGER
            return
        counts = {}
        if number == 0:
            some = self._kept("events->all", rows.size, counts)
            near, half = self._kept("all->checked", some, counts), self._kept("all->half", some, counts)
            out, work = {"near": near, "far": half // 2}, some * 1e-5 + near * NEAR + half * 2e-3
            served = {"all": (some, some), "checked": (near, near), "half": (half, half // 2)}
        else:
            some = self._kept("half->examined", rows.size, counts)
            out, work, served = {"far": some}, some * FAR, {"examined": (some, some)}
        took = (host.overhead * np.exp(0.2 * self.rng.normal()) + work) * np.exp(self.noise * self.rng.normal())
        host.runs.append(
            SimpleNamespace(begin=at, end=at + took, rows=rows, out=out, work=work, served=served, counts=counts)
        )
        host.taken, host.free = upto, at + took

    def _end(self, number, host):
        run = host.runs[-1]
        host.done = host.taken
        for sink, count in run.out.items():
            stimulus = run.rows[np.linspace(0, run.rows.size - 1, count).astype(int)]
            if number == 0 and sink == "far":
                self.queues[1] = np.append(self.queues[1], stimulus)
            else:
                self.came[sink].append(np.stack([np.full(count, run.end), stimulus]))
        self.counted.append((number, run))
        host.free = max(run.end, np.ceil(run.begin / TRIGGER + 1e-9) * TRIGGER)

    def observe(self):
        """Return what the batches that have ended say, as Spark's do."""
        period, names = self.now - self.at, tuple(self.network.operators)
        served, put, counts = (dict.fromkeys(names, 0) for _ in range(3))
        for _, run in self.counted:
            for name, (taken, made) in run.served.items():
                served[name], put[name] = served[name] + taken, put[name] + made
            for name, pair in run.counts.items():
                counts[name] = np.add(counts.get(name, (0, 0)), pair)
        due = int(np.searchsorted(self.queues[0], self.now, "right"))
        waiting = [due - self.hosts[0].done, self.queues[1].size - self.hosts[1].done]
        units, seen = [], {}
        for number, (host, operators) in enumerate(zip(self.hosts, (names[:3], names[3:]), strict=True)):
            mine = [run for place, run in self.counted if place == number]
            runs = host.taken > host.done
            spans = [(max(run.begin, self.at), min(run.end, self.now)) for run in host.runs[-5:]]
            units.append(
                UnitSeen(
                    name=operators[0], operators=operators, host=f"h{number + 1}", waiting=waiting[number],
                    batches=len(mine), work=sum(max(0.0, run.end - run.begin - host.overhead) for run in mine),
                    doubt=0.03 * len(mine) ** 0.5, since=self.now - host.runs[-1].begin if runs else None,
                )
            )  # fmt: skip
            seen[f"h{number + 1}"] = HostSeen(
                busy=min(1.0, sum(max(0.0, end - begin) for begin, end in spans) / period), batches=len(mine),
                overhead=host.overhead * (1 + 0.05 * self.rng.normal()),
            )  # fmt: skip
        streams = tuple(stream.name for stream in self.network.streams)
        arrived, dropped = np.array([counts.get(name, (0, 0)) for name in streams], np.int64).T
        found = Observation(
            at=self.now, period=period, network=self.network, cluster=self.cluster, sources=("events",),
            entered=np.array([due - self.entered]), operators=names, served=np.array([*served.values()]),
            work=np.full(len(names), np.nan), tried=np.array([*served.values()]), emitted=np.array([*put.values()]),
            placement=self.placement, waiting=np.array([waiting[0], 0, 0, waiting[1]], float),
            undecided=frozenset(names), streams=streams, arrived=arrived, dropped=dropped, hosts=seen,
            units=tuple(units), keep=dict(self.keep), triggers={"h1": TRIGGER, "h2": TRIGGER},
        )  # fmt: skip
        self.counted, self.at, self.entered = [], self.now, due
        return found

    def apply(self, plan):
        """Take keep fractions."""
        self.keep = {name: share for name, share in (plan.keep or {}).items() if share < 1}
        return SimpleNamespace(at=self.now, begun=(SimpleNamespace(kind="keep"),), refused=())

    def judged(self):
        """Return the overload's score as a share of the optimum, its worst latency, and how busy the second host was.

        The optimum is that for what batches of that length leave for work; it counts what left, from when the overload
        was known.
        """
        quotas, lengths = {}, []
        for name, host in zip(self.cluster.hosts, self.hosts, strict=True):
            runs = [run for run in host.runs if BEGIN + TRIGGER <= run.begin < self.end - TRIGGER]
            took = sum(run.end - run.begin for run in runs)
            quotas[name] = sum(run.work for run in runs) / took
            lengths.append(took / len(runs))
        limited = self.cluster.having(attrs.evolve(h, quota=quotas[n]) for n, h in self.cluster.hosts.items())
        program = build_program(self.network, limited, self.placement)
        known, peak = BEGIN + 2 * max(lengths), np.array([PEAK])
        optimum = program.score(Exact(program).plan(peak)) * (self.end - known)
        score, worst = 0.0, 0.0
        for sink, parts in self.came.items():
            visible, stimulus = np.concatenate(parts, axis=1)
            score += WORTH[sink] * ((visible >= known) & (visible < self.end)).sum()
            worst = max(worst, (visible - stimulus)[(stimulus >= BEGIN) & (stimulus < self.end)].max())
        spans = [(run.begin, run.end) for run in self.hosts[1].runs if known <= run.begin < self.end]
        idle = sum(after[0] - before[1] for before, after in itertools.pairwise(spans))
        return score / optimum, worst, 1 - idle / (spans[-1][1] - spans[0][0])
