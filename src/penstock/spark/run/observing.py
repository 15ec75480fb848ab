"""What a run did between two looks, from the files that its queries leave: manifests, reports, offsets, latencies.

Nothing is asked of the hosts. Files are looked for by number and each is read once, so that a look costs the same
however long the run has gone on. Where queries run in real-time mode their topics are asked besides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Array
from penstock.load.spans import covered
from penstock.network import Network
from penstock.spark.compile import PromptQuery
from penstock.spark.run.arrivals import Arrivals
from penstock.spark.run.coming import Coming
from penstock.spark.run.ended import Ended
from penstock.spark.run.lengths import Lengths, work_in
from penstock.spark.run.outcome import Batch, added, read_batch, read_latency, taken_by
from penstock.spark.run.passing import Passing
from penstock.spark.run.queues import Queue, Queues, age, together
from penstock.spark.run.runner import Runner
from penstock.spark.run.split import parts_apart
from penstock.spark.run.system import System
from penstock.spark.run.units import Unit, copy_name
from penstock.spark.shipped.checkpoint import offsets
from penstock.spark.shipped.told import note_of
from penstock.steering import HostSeen, LatencySeen, UnitSeen


@attrs.frozen(eq=False)
class Seen:
    """What one look found.

    Attributes
    ----------
    counts
        By stream: arrived and dropped.
    left
        By operator whose output leaves its query, what it has put out; it arrives on its streams a batch later.
    entered
        By source the tuples that were due, or that came at the rate at which they came of late.
    queues
        By operator what waits for it; None: not known. Inside a query nothing waits.
    hosts, units, latency, unsure
        As an `penstock.steering.Observation` has them.
    """

    counts: Mapping[str, tuple[int, int]]
    left: Mapping[str, int]
    entered: Mapping[str, int]
    queues: Mapping[str, Queue | None]
    hosts: Mapping[str, HostSeen]
    units: tuple[UnitSeen, ...]
    latency: Mapping[str, LatencySeen]
    unsure: frozenset[str] = frozenset()


class Observer:
    """Reads what comes between two looks.

    Parameters
    ----------
    system
        What is observed.
    capacity
        Benchmark cores of a host: given costs are seconds of one.
    """

    def __init__(self, system: System, capacity: Callable[[str], float] = lambda _host: 1.0) -> None:
        self.system, self._capacity = system, capacity
        self.ended = Ended(system.deployment.place)
        self._at = time.time()
        self._lengths: dict[str, tuple[tuple[str, ...], Lengths]] = {}
        self._coming = Coming(system)
        self._queues, self._passing = Queues(system, self._coming), Passing(system, self._coming)
        self._came = {name: self._queues.due_by(name, self._at) for name in system.deployment.schedules}
        self._arrivals: dict[str, Arrivals] = {}
        self._read: dict[str, int] = {}
        for unit, numbers in self.ended.before.items():
            batches = [read_batch(system.deployment.place, unit, number) for number in numbers]
            for batch in batches:
                self._queues.logged(batch)
            # By these is known how many rows the files hold that have come meanwhile.
            self._queues.took(unit, batches)

    def look(
        self, moving: Sequence[str], down: Sequence[str], keep: Mapping[str, float], cores: Mapping[str, int]
    ) -> Seen:
        """Return what has come since the last look.

        Parameters
        ----------
        moving, down
            Units, and hosts.
        keep
            Keep fractions in force.
        cores
            Of the hosts.
        """
        system, now = self.system, time.time()
        if now < self._at:
            # Of a clock that was set back nothing is known of the time between.
            self._at, self._arrivals = now, {}
        self._coming.look(now)
        self._passing.look(now, cores)
        batches = {name: self._fresh(name) for name in sorted({*system.units, *self.ended.next})}
        for name, each in batches.items():
            self._lengths_of(name).add(each)
            self._queues.took(name, each)
        prompt = {name: query for name, query in system.compiled.items() if isinstance(query, PromptQuery)}
        counted = [batch.counts for name, each in batches.items() if name not in prompt for batch in each]
        counted += [self._passing.counts(query, batches.get(name, ()), keep) for name, query in prompt.items()]
        counts = added(counted)
        queues = {
            name: self._passing.queues(prompt[name]) if name in prompt else self._queues.of(query)
            for name, query in system.compiled.items()
        }
        waiting = {op: queue for each in prompt.values() for op, queue in self._passing.by_operator(each).items()}
        since = self._since()
        seen = Seen(
            counts,
            self._left({name: each for name, each in batches.items() if name not in prompt}),
            self._entered(now) | self._came_in_lumps(batches, counts, queues, now) | self._coming.entered,
            self._queues.by_operator(queues) | waiting,
            self._hosts(batches, since, now),
            self._units(batches, queues, since, moving, down, now),
            self._latency(batches),
            frozenset(self._coming.unsure | {name for name in self._arrivals if not self._arrivals[name].sure(now)}),
        )
        self._at = now
        self._queues.forget()
        return seen

    def close(self) -> None:
        """Let go what is asked."""
        self._coming.close()
        self._passing.close()

    def _entered(self, now: float) -> dict[str, int]:
        """Return what became due since the last look: a long batch, or a queue worked off, is no other rate."""
        begins, found = self.system.deployment.begins.values(), {}
        for name in self.system.deployment.schedules:
            if name not in self._came:
                self._came[name] = min((row[name] for row in begins if name in row), default=0)
            before, self._came[name] = self._came[name], max(self._came[name], self._queues.due_by(name, now))
            found[name] = self._came[name] - before
        return found

    def _left(self, batches: Mapping[str, Sequence[Batch]]) -> dict[str, int]:
        """Return what batches have put into logs, by operator; 0 for those that have put nothing there."""
        compiled = [query for name, query in self.system.compiled.items() if name in batches]
        found = {way.writer: 0 for query in compiled for way in query.spec.logs}
        for writer, (_, rows) in (each for mine in batches.values() for batch in mine for each in batch.logged.items()):
            found[writer] = found.get(writer, 0) + rows
        return found

    def _came_in_lumps(
        self,
        batches: Mapping[str, Sequence[Batch]],
        counts: Mapping[str, tuple[int, int]],
        queues: Mapping[str, Mapping[str, Queue | None]],
        now: float,
    ) -> dict[str, int]:
        """Return what entered the other sources since the last look, as they have come of late.

        A folder can be looked into; of anything else it is known by a batch what was there when it was planned.
        """
        network, found = self.system.deployment.network, {}
        told = {*self.system.deployment.schedules, *self._coming.entered}
        for name in network.sources.keys() - told:
            totals, at = [], 0.0
            for stream in network.outputs(name):
                self._read[stream.name] = self._read.get(stream.name, 0) + counts.get(stream.name, (0, 0))[0]
                unit = next((u for u, q in queues.items() if name in q and stream.reader in self._operators(u)), None)
                if unit is None or stream.share <= 0:
                    continue
                waits = queues[unit][name]
                if waits is None and self._queues.counted(unit, name):
                    continue  # as long as it is not known, nothing is
                totals.append(self._read[stream.name] / stream.share + (0.0 if waits is None else waits[0]))
                planned = [batch.start for batch in batches.get(unit, ()) if batch.known]
                at = max([at, *planned, now if self._queues.looked_at(unit, name) else 0.0])
            arrivals = self._arrivals.setdefault(name, Arrivals())
            if at:
                arrivals.known(max(totals), at)
            found[name] = arrivals.entered(self._at, now)
        return found

    def _operators(self, unit: str) -> tuple[str, ...]:
        return self.system.units[unit].fragment.operators

    def _lengths_of(self, unit: str) -> Lengths:
        """Return how long a unit's batches take; one with other operators than before is another."""
        operators = self.system.units[unit].fragment.operators if unit in self.system.units else ()
        known = self._lengths.get(unit)
        if known is None or (operators and known[0] != operators):
            network = self.system.deployment.network
            given = sum(network.given_costs(operators)) > 0

            def size(batch: Batch) -> float:
                return work_in(network, operators, batch.counts, batch.rows) / self._capacity(batch.host)

            lengths = Lengths(size, given=given)
            known = self._lengths[unit] = operators, lengths
        return known[1]

    def _fresh(self, unit: str) -> list[Batch]:
        """Return a unit's batches since the last look, in order, each once all of it is known."""
        known = self.system.units.get(unit)
        found = self.ended.fresh(unit, "" if known is None else known.saved)
        for batch in found:
            self._queues.logged(batch)
        return found

    def _since(self) -> dict[str, float]:
        """Return when the batches that run were planned (s since 1970), by unit."""
        found = {}
        for name, runner in [*self.system.runners.items()]:
            begun, done = runner.marks
            if begun > done and (planned := _planned(runner, begun)) is not None:
                found[name] = planned
        return found

    def _hosts(
        self, batches: Mapping[str, Sequence[Batch]], since: Mapping[str, float], now: float
    ) -> dict[str, HostSeen]:
        """Return how busy the hosts were: the share of the period in which a batch of theirs ran.

        In real-time mode a batch runs all the time: there it is the share of the host's cores that was used.
        """
        spans: dict[str, list[tuple[float, float]]] = {name: [] for name in [*self.system.hosts]}
        ended = dict.fromkeys(spans, 0)
        # Copies that follow do the same at about the same time.
        others: dict[str, set[str]] = {}
        for runner in [*self.system.copies.runners.values()]:
            others.setdefault(runner.name, set()).add(runner.unit.host)
        for name, batch in ((name, batch) for name, each in batches.items() for batch in each):
            for host in {batch.host, *others.get(name, ())} & spans.keys():
                ended[host] += 1
                if batch.known:
                    spans[host].append((batch.start, batch.start + batch.duration))
        for name, planned in since.items():
            for host in {self.system.units[name].host, *others.get(name, ())} & spans.keys():
                spans[host].append((planned, now))
        used = self._passing.busy
        return {
            name: HostSeen(
                busy=used[name] if name in used else _share(spans[name], self._at, now),
                batches=ended[name],
                overhead=self._overhead(name),
                speed=self._passing.speed(name),
            )
            for name in spans
        }

    def _units(
        self,
        batches: Mapping[str, Sequence[Batch]],
        queues: Mapping[str, Mapping[str, Queue | None]],
        since: Mapping[str, float],
        moving: Sequence[str],
        down: Sequence[str],
        now: float,
    ) -> tuple[UnitSeen, ...]:
        found = []
        for name, unit in sorted(self.system.units.items()):
            query = self.system.compiled.get(name)
            running = name in self.system.runners and name not in moving and unit.host not in down
            prompt = self.system.deployment.prompt(unit.fragment)
            divides = running and not prompt and not unit.copies
            parts = parts_apart(self.system, unit) if divides else ()
            mine = batches.get(name, ())
            work, doubt = self._passed(unit) if prompt else self._worked(name, mine)
            queue = together([*queues[name].values()]) if name in queues else None
            found.append(
                UnitSeen(
                    name=name,
                    operators=unit.operators(unit.saved),
                    host=unit.host,
                    generation=0 if query is None else query.spec.generation,
                    running=running,
                    waiting=None if queue is None else round(queue[0]),
                    behind=age(queue, now),
                    batches=len(mine),
                    work=work,
                    doubt=doubt,
                    since=max(0.0, now - since[name]) if running and not prompt and name in since else None,
                    parts=parts,
                    real_time=prompt,
                )
            )
            found += [self._copy(unit, copy, down) for copy in unit.others]
        return tuple(found)

    def _passed(self, unit: Unit) -> tuple[float | None, float]:
        """Return what `_worked` does of a unit in real-time mode; None: not known."""
        (work, doubt), capacity = self._passing.work(unit.name), self._capacity(unit.host)
        return None if work is None else work * capacity, doubt * capacity

    def _worked(self, name: str, batches: Sequence[Batch]) -> tuple[float, float]:
        """Return what batches have worked on their rows, in benchmark-core seconds of where they ran, and its error."""
        lengths, found = self._lengths_of(name), np.zeros(2)
        for host in sorted({batch.host for batch in batches}):
            # Batches of a host share its cores: their durations add up to more than was worked.
            found += np.array(lengths.work(b for b in batches if b.host == host)) * self._capacity(host)
        return float(found[0]), float(found[1])

    def _copy(self, unit: Unit, copy: str, down: Sequence[str]) -> UnitSeen:
        """Return what is known of a copy that follows: it works as the one that leads does."""
        host, runner = unit.copies[copy], self.system.copies.runners.get(copy)
        generation = 0 if runner is None else runner.query.spec.generation
        return UnitSeen(
            name=copy_name(copy),
            operators=unit.operators(copy),
            host=host,
            generation=generation,
            running=runner is not None and host not in down,
            real_time=self.system.deployment.prompt(unit.fragment),
        )

    def _overhead(self, host: str) -> float | None:
        """Return what a batch of one of a host's units takes besides its rows; in real-time mode there are none."""
        units, prompt = self.system.units, self.system.deployment.prompt
        known = [
            each.fixed
            for name, (_, each) in self._lengths.items()
            if name in units and (each.host == host or host in units[name].copies.values())
            if each.fixed is not None and not prompt(units[name].fragment)
        ]
        return float(np.mean(known)) if known else None

    def _latency(self, batches: Mapping[str, Sequence[Batch]]) -> dict[str, LatencySeen]:
        """Return the latencies of the tuples that these batches brought to sinks."""
        folder = self.system.deployment.place
        parts: dict[str, list[Array]] = {sink: [] for sink in self.system.deployment.network.sinks}
        for name, query in self.system.compiled.items():
            for way in query.spec.sinks:
                for batch in batches.get(name, ()):
                    file = note_of(folder, name, batch.number, way.name)
                    # Windows also close in batches without rows.
                    if file.exists():
                        visible, stimulus = read_latency(file)
                        parts[way.name].append(visible - stimulus)
        found = {}
        for sink, arrays in parts.items():
            values = np.concatenate([self._passing.latencies(sink), *arrays])
            found[sink] = LatencySeen() if not values.size else LatencySeen(
                count=int(values.size), mean=float(values.mean()), p99=float(np.quantile(values, 0.99)),
                worst=float(values.max()),
            )  # fmt: skip
        return found


def operators_seen(
    network: Network,
    counts: Mapping[str, tuple[int, int]],
    entered: Mapping[str, int],
    left: Mapping[str, int] | None = None,
) -> dict[str, NDArray[np.int64]]:
    """Return ``served``, ``tried`` and ``emitted`` of each operator, and ``entered`` of each source.

    What ``entered`` does not say of a source, and ``left`` of an operator, is taken from the counts: tuples enter, and
    are put out, when they are read.
    """
    put = left or {}

    def arrived(names: Sequence[tuple[str, float]]) -> int:
        return max((round(counts.get(name, (0, 0))[0] / share) for name, share in names if share > 0), default=0)

    def out(name: str) -> int:
        return arrived([(stream.name, stream.share) for stream in network.outputs(name)])

    served = np.array([taken_by(network, name, counts) for name in network.operators], np.int64)
    return {
        "served": served,
        "tried": served,
        "emitted": np.array([put.get(name, out(name)) for name in network.operators], np.int64),
        "entered": np.array([entered.get(name, out(name)) for name in network.sources], np.int64),
    }


def _planned(runner: Runner, batch: int) -> float | None:
    """Return when a batch was planned (s since 1970); None: not known."""
    try:
        return float(offsets(runner.query.spec.checkpoint, batch)[0]["batchTimestampMs"]) / 1000
    except (FileNotFoundError, ValueError, LookupError):
        return None


def _share(spans: Sequence[tuple[float, float]], begin: float, end: float) -> float | None:
    """Return the share of a time that some spans cover."""
    return sum(stop - start for start, stop in covered(spans, begin, end)) / (end - begin) if end > begin else None
