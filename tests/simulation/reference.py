"""The simulator in plain Python: one heap, lists and dictionaries. Slow, and easy to check by reading."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction
from types import SimpleNamespace as Tuple

import numpy as np
from numba import njit

from penstock.cluster import base_name
from penstock.simulation import Failure, Move, Recovery
from penstock.simulation.kernel import draws
from penstock.simulation.numbers import key
from penstock.workload import Rates

MASK, EPSILON = 2**64 - 1, 1e-9
WINDOW, COMPLETE, RELEASE, LINK, LET, ARRIVAL, TRACE, BATCH = 1, 2, 3, 4, 5, 6, 7, 8
SERVICES = ("constant", "exponential", "gamma", "two-point")


@njit
def duration(kind, shape, share, mean, salt, identity):
    return draws.duration(kind, shape, share, mean, salt, identity)


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def uniform(salt, identity):
    return (mix(identity ^ salt) >> 11) * 2.0**-53


def whole(count, share):
    return math.floor(count * share + EPSILON)


class Reference:
    """Runs on construction; then ``events``, ``rows`` (sink, stimulus, egress) and ``counts`` by stream tell all."""

    def __init__(self, network, cluster, placement, arrivals, options, seed=0):
        self.net, self.cluster, self.options, self.seed = network, cluster, options, seed
        order = lambda copy: int(copy.partition("#")[2] or 1)  # noqa: E731
        self.copies = {o: sorted((c for c in placement if base_name(c) == o), key=order) for o in network.operators}
        self.units = [copy for o in network.operators for copy in self.copies[o]]
        self.place, self.paused, self.down, self.heap = dict(placement), Counter(), set(), []
        self.cores = {h: [None] * host.cores for h, host in cluster.hosts.items()}
        self.queue = {u: [] for u in self.units}
        self.members = {h: {u for u in self.units if placement[u] == h} for h in cluster.hosts}
        for move in options.moves:
            self.members[move.host].add(move.operator)
        self.cursor, self.sequence, self.order = Counter(), 0, 0
        self.links = defaultdict(lambda: Tuple(flying=0, waiting=[], sent=0))
        self.counts = defaultdict(Counter)
        self.number, self.done, self.last = Counter(), Counter(), defaultdict(lambda: -math.inf)
        self.kept, self.panes, self.pending = defaultdict(list), defaultdict(dict), {}
        self.seen, self.rows, self.events, self.live, self.leaving = set(), [], [], 0, None
        self.gates = {
            (s, reader, stream.port): Tuple(held=[], last=-math.inf, due=False, read=0, stream=stream)
            for s in network.sources
            for stream in network.outputs(s)
            for reader in self.copies.get(stream.reader, [stream.reader])
        }
        end = arrivals.duration if isinstance(arrivals, Rates) else float(arrivals.times[-1])
        self.input_end = end if options.duration is None else options.duration
        self.run(arrivals, math.inf if options.drain else self.input_end)

    def run(self, arrivals, end):
        controls = [
            (e.at, rank, self.units.index(e.operator) if rank == 2 else -1, e.host, e)
            for rank, events in enumerate((self.options.failures, self.options.recoveries, self.options.moves))
            for e in events
        ]
        heapq.heapify(controls)
        if isinstance(arrivals, Rates):
            generators = [self.times(arrivals, s) for s in self.net.sources]
            for s in range(len(generators)):
                self.schedule(generators, s)
        else:
            self.push(float(arrivals.times[0]), TRACE, 0)
        while True:
            top = self.heap[0][0] if self.heap else math.inf
            held = any(self.queue.values()) or any(g.held for g in self.gates.values()) or not self.options.drain
            if controls and controls[0][0] <= min(top, end) and (self.heap or held):
                at, _, _, host, event = heapq.heappop(controls)
                self.control(event, host, at, controls)
            elif not self.heap or top > end:
                return
            else:
                self.step(arrivals, locals().get("generators"), *heapq.heappop(self.heap))

    def push(self, time, kind, what):
        self.sequence += 1
        heapq.heappush(self.heap, (time, kind, self.sequence, what))

    def times(self, rates, source):
        target, curve, row = 0.0, np.cumsum([0, *(rates.of_source(source) * rates.period)], dtype=np.longdouble), 0
        poisson, number, salt = (
            self.net.sources[source].arrivals == "poisson",
            0,
            int(key("arrivals", source, self.seed)),
        )
        while True:
            target = target - math.log(1 - uniform(salt, mix(number))) if poisson else float(number)
            while row < rates.periods and target >= float(curve[row + 1]) - EPSILON - 1e-12 * target:
                row += 1
            if row == rates.periods:
                return
            yield row * rates.period + max(0.0, target - float(curve[row])) / rates.of_source(source)[row]
            number += 1

    def schedule(self, generators, s):
        time = next(generators[s], math.inf)
        if time < self.input_end:
            self.push(time, ARRIVAL, s)

    def step(self, arrivals, generators, now, kind, _, what):
        identity = 0
        if kind == COMPLETE:
            host, core, t = what
            if self.cores[host][core] is not t:
                return
            identity = t.id
            self.events.append((now, kind, identity))
            self.leaving = host, core
            self.serve(t, host, now)
            self.leave(now)
            return
        if kind in (ARRIVAL, TRACE):
            row = self.number["trace"]
            name = list(self.net.sources)[what] if kind == ARRIVAL else arrivals.sources[row]
            identity = mix((int(key("source", name)) + self.number["source", name]) & MASK)
            self.number["source", name] += 1
            self.number["trace"] += 1
            if kind == ARRIVAL:
                self.schedule(generators, what)
            elif row + 1 < len(arrivals.times) and arrivals.times[row + 1] <= self.input_end:
                self.push(float(arrivals.times[row + 1]), TRACE, 0)
            self.enter(name, identity, arrivals.work[row] if kind == TRACE else 1.0, now)
        elif kind == LET:
            self.gates[what].due = False
            self.let(what, now)
        elif kind == LINK:
            pair, group = what
            identity = group[0].id
            self.links[pair].flying -= 1
            for t in group:
                self.deliver(t, now)
            if self.links[pair].waiting:
                self.fly(pair, self.links[pair].waiting.pop(0), now)
        elif self.pending.get(what[0]) != what[1]:
            return
        else:
            self.close(*what, now)
        self.events.append((now, kind, identity))

    def enter(self, source, identity, work, now):
        if source not in self.options.limits:
            self.put(source, self.net.sources[source].host, identity, now, work, now)
            return
        for key_, gate in self.gates.items():
            if key_[0] == source:
                self.counts[gate.stream.name]["arrived"] += 1
                t = Tuple(id=identity, stimulus=now, work=work, reader=key_[1], port=key_[2], stream=gate.stream)
                gate.held.append(t)
                self.let(key_, now)

    def away(self, reader):
        return self.place.get(reader) in self.down or self.paused[reader] > 0

    def let(self, name, now):
        gate, step = self.gates[name], 1 / self.options.limits[name[0]]
        if self.away(name[1]) or gate.due or not gate.held:
            return
        if gate.last + step <= now:
            gate.last = now
            self.write(gate.held.pop(0), self.net.sources[name[0]].host, now, {})
        if gate.held:
            gate.due = True
            self.push(gate.last + step, LET, name)

    def ask(self, now, wanted):
        names = [name for name, gate in self.gates.items() if gate.held and wanted(name[1])]
        self.heap = [e for e in self.heap if e[1] != LET or e[3] not in names]
        heapq.heapify(self.heap)
        for name in names:
            self.gates[name].due = True
            self.push(now, LET, name)

    def emit(self, unit, host, identity, stimulus, work, now):
        self.put(unit, host, identity, stimulus, work, now)

    def window_behind(self, reader):
        """Return the window of the first aggregates behind a reader, None where there is none."""
        ahead, lengths = [reader], set()
        while ahead:
            operator = self.net.operators.get(ahead.pop())
            if operator is not None and operator.kind == "aggregate":
                lengths.add(operator.window)
            elif operator is not None:
                ahead += [o.name for o in self.net.operators.values() if operator.name in o.inputs]
        return max((length for length in lengths if length), default=None)

    def put(self, writer, start, identity, stimulus, work, now):
        crossing = {}
        for t in self.copied(writer, identity, stimulus, work):
            self.arrive(t, start, now, crossing)

    def arrive(self, t, start, now, crossing):
        self.counts[t.stream.name]["arrived"] += 1
        self.write(t, start, now, crossing)

    def copied(self, writer, identity, stimulus, work):
        """Iterate over a tuple for each reader."""
        low, streams = 0.0, self.net.outputs(base_name(writer))
        routed = getattr(self.net.operators.get(base_name(writer)), "route", None) is not None
        for stream in streams:
            high = 1.0 if stream is streams[-1] else low + stream.share
            u = uniform(int(key("route", base_name(writer), self.seed)), identity) if routed else low
            for reader in self.copies.get(stream.reader, [stream.reader]) if low <= u < high or not routed else ():
                yield Tuple(id=identity, stimulus=stimulus, work=work, reader=reader, port=stream.port, stream=stream)
            low = high

    def write(self, t, start, now, crossing):
        stream, count, home = t.stream, self.counts[t.stream.name], self.place.get(t.reader)
        keep, window = (
            self.options.keep.get(f"{stream.writer}->{t.reader}", self.options.keep.get(stream.name, 1.0)),
            self.window_behind(stream.reader),
        )
        salt = mix(math.floor(t.stimulus / window)) if window else t.id
        if keep < 1 and uniform(int(key("stream", stream.name)), salt) >= keep:
            count["dropped"] += 1
        elif start in self.down:
            count["lost"] += 1
        elif home is None or start in (None, home):
            self.deliver(t, now)
        elif home in self.down:
            count["lost"] += 1
        elif self.cluster.link(start, home).delay == 0:
            self.links[start, home].sent += home not in crossing
            crossing[home] = []
            self.deliver(t, now)
        elif home in crossing:
            crossing[home].append(t)
        else:
            crossing[home] = [t]
            link, state = self.cluster.link(start, home), self.links[start, home]
            if state.flying < max(1, math.floor(min(link.delay * link.bandwidth, 1e18) + EPSILON)):
                self.fly((start, home), crossing[home], now)
            else:
                state.waiting.append(crossing[home])

    def fly(self, pair, group, now):
        self.links[pair].flying += 1
        self.links[pair].sent += 1
        self.push(now + self.cluster.link(*pair).delay, LINK, (pair, group))

    def deliver(self, t, now):
        count, copies = self.counts[t.stream.name], len(self.copies.get(t.stream.writer, [0]))
        host, queue = self.place.get(t.reader), math.inf if self.options.queue is None else self.options.queue
        if host in self.down:
            count["lost"] += 1
            return
        idle = lambda: host is not None and None in self.cores[host] and not self.paused[t.reader]  # noqa: E731
        full = lambda: not idle() and host and sum(w.port == t.port for w in self.queue[t.reader]) >= queue  # noqa: E731
        if full() and self.leaving and self.leaving[0] == host and not self.paused[t.reader]:
            self.leave(now)
        idle, full = idle(), full()
        if copies > 1 and (t.id, t.reader, t.port) in self.seen:
            count["arrived"] -= 1
            return
        if not full:
            self.seen.add((t.id, t.reader, t.port))
        if t.reader in self.net.sinks:
            count["delivered"] += 1
            self.rows.append((t.reader, t.stimulus, now))
            return
        t.enqueued = now
        if idle:
            self.cursor[host] = self.units.index(t.reader) + 1
            self.begin(t, host, self.cores[host].index(None), now)
        elif full:
            count["dropped"] += 1
        else:
            self.order += 1
            t.order = self.order
            self.queue[t.reader].append(t)

    def leave(self, now):
        """Free the core whose service ends, unless it has been."""
        if self.leaving is not None:
            (host, core), self.leaving = self.leaving, None
            self.cores[host][core] = None
            self.next(host, core, now)

    def next(self, host, core, now):
        waiting = [t for u in self.units if self.place[u] == host and not self.paused[u] for t in self.queue[u]]
        if not waiting:
            return
        turn = lambda t: (self.units.index(t.reader) < self.cursor[host], self.units.index(t.reader), t.order)  # noqa: E731
        rule = {
            "fcfs": lambda t: t.order,
            "stimulus": lambda t: (t.stimulus, t.order),
            "round-robin": turn,
            "longest-queue": lambda t: (-len(self.queue[t.reader]), self.units.index(t.reader), t.order),
        }
        t = min(waiting, key=rule[self.options.policy])
        self.queue[t.reader].remove(t)
        self.cursor[host] = self.units.index(t.reader) + 1
        self.begin(t, host, core, now)

    def begin(self, t, host, core, now):
        machine = self.cluster.hosts[host]
        self.cores[host][core] = t
        self.push(now + self.service(t, machine.capacity / machine.cores), COMPLETE, (host, core, t))

    def service(self, t, speed):
        operator = self.net.operators[base_name(t.reader)]
        mean = operator.cost[t.port] * t.work / speed
        name, *numbers = operator.service.split(":")
        a, b = [*map(float, numbers), 0.0, 0.0][:2]
        if name != "constant":
            mean = duration(SERVICES.index(name), a, b, mean, np.uint64(self.salt(t.reader)), np.uint64(t.id))
        return mean

    def salt(self, unit):
        operator = base_name(unit)
        return int(key("draw", operator if len(self.copies[operator]) > 1 else unit, self.seed))

    def outputs(self, unit, port, selectivity, identity):
        operator = base_name(unit)
        self.done[unit, port] += 1
        if self.net.operators[operator].emit == "chance" or len(self.copies[operator]) > 1:
            rest = selectivity - math.floor(selectivity)
            return math.floor(selectivity) + (uniform(self.salt(unit) ^ 0x9E3779B97F4A7C15, identity) < rest)
        return whole(self.done[unit, port], selectivity) - whole(self.done[unit, port] - 1, selectivity)

    def serve(self, t, host, now):
        unit, operator = t.reader, self.net.operators[base_name(t.reader)]
        salt, selectivity = int(key("operator", operator.name)), (operator.selectivity or (1.0, 1.0))[t.port]
        self.counts[t.stream.name]["consumed"] += 1
        if operator.kind == "aggregate" and operator.window is not None:
            slide = operator.slide or operator.window
            before = math.floor((now - operator.window) / slide) - 1
            k = next(k for k in itertools.count(before) if self.end(operator, k) > now)
            while k * slide <= now:
                count, *newest = self.panes[unit].get(k, (0, -math.inf, 0.0, 1.0))
                if t.stimulus >= newest[0]:
                    newest = [t.stimulus, t.stimulus + (self.end(operator, k) - now), t.work]
                self.panes[unit][k] = (count + 1, *newest)
                if unit not in self.pending:
                    self.pending[unit] = k
                    self.push(self.end(operator, k), WINDOW, (unit, k))
                k += 1
        elif operator.kind != "join":
            for j in range(self.outputs(unit, t.port, selectivity, t.id)):
                self.emit(unit, host, mix(((t.id ^ salt) + j) & MASK), t.stimulus, t.work, now)
        else:
            own, other, within = self.kept[unit, t.port], self.kept[unit, 1 - t.port], operator.within
            if operator.counts is None:
                within += EPSILON
                self.last[unit, t.port] = max(self.last[unit, t.port], t.stimulus)
                for kept, port in ((own, 1 - t.port), (other, t.port)):
                    while kept and kept[0].stimulus + within < self.last[unit, port]:
                        kept.pop(0)
            elif len(own) == operator.counts[t.port]:
                own.pop(0)
            own.append(t)
            for k in list(other):
                if operator.counts is None and abs(k.stimulus - t.stimulus) > within:
                    continue
                first, second = (t.id, k.id) if t.port == 0 else (k.id, t.id)
                newest, pair = t if k.stimulus <= t.stimulus else k, mix(mix(first) ^ second)
                for j in range(self.outputs(unit, t.port, selectivity, pair)):
                    self.emit(unit, host, mix(((pair ^ salt) + j) & MASK), newest.stimulus, newest.work, now)

    def end(self, operator, k):
        """Return when a window ends: where it is a whole number of slides, at the float at which another begins."""
        slide = operator.slide or operator.window
        whole = Fraction(str(operator.window)) / Fraction(str(slide))
        return (k + int(whole)) * slide if whole.denominator == 1 else k * slide + operator.window

    def close(self, unit, k, now):
        operator = self.net.operators[base_name(unit)]
        slide, selectivity = operator.slide or operator.window, (operator.selectivity or (1.0,))[0]
        share, salt = selectivity * slide / operator.window, int(key("operator", operator.name))
        count, _, stimulus, work = self.panes[unit].pop(k)
        before = self.done[unit, 0]
        self.done[unit, 0] += count
        outputs = whole(before + count, share) - whole(before, share)
        if operator.emit == "chance" or len(self.copies[operator.name]) > 1:
            draw = uniform(self.salt(unit) ^ 0x9E3779B97F4A7C15, mix(salt ^ k))
            outputs = math.floor(count * share) + (draw < count * share - math.floor(count * share))
        del self.pending[unit]
        if self.panes[unit]:
            self.pending[unit] = min(self.panes[unit])
            self.push(self.end(operator, self.pending[unit]), WINDOW, (unit, self.pending[unit]))
        for j in range(outputs):
            self.put(unit, self.place[unit], mix(((mix(k) ^ salt) + j) & MASK), stimulus, work, now)

    def empty(self, unit):
        """Take away all that a unit holds, and return its queue."""
        queue, self.queue[unit], self.panes[unit] = self.queue[unit], [], {}
        self.pending.pop(unit, None)
        self.kept[unit, 0], self.kept[unit, 1] = [], []
        return queue

    def control(self, event, host, now, controls):
        if isinstance(event, Failure):
            self.down.add(host)
            lost = [t for t in self.cores[host] if t is not None]
            self.cores[host] = [None] * len(self.cores[host])
            for u in (u for u in self.units if self.place[u] == host):
                lost += self.empty(u)
            self.seen -= {(t.id, t.reader, t.port) for t in lost}
            for (start, _), link in self.links.items():
                if start == host:
                    lost += [t for group in link.waiting for t in group]
                    link.waiting = []
            for t in lost:
                self.counts[t.stream.name]["lost"] += 1
        elif isinstance(event, Recovery):
            self.down.discard(host)
            self.ask(now, lambda reader: self.place.get(reader) == host)
        elif isinstance(event, Move):
            unit, pause = event.operator, self.options.move_time
            self.paused[unit] += 1
            self.place[unit] = host
            if host in self.down:
                for t in self.empty(unit):
                    self.counts[t.stream.name]["lost"] += 1
                    self.seen.discard((t.id, t.reader, t.port))
            pause += self.options.move_time_per_tuple * len(self.queue[unit])
            heapq.heappush(controls, (now + pause, 3, self.units.index(unit), host, unit))
        else:
            self.paused[event] -= 1
            if not self.paused[event]:
                self.ask(now, lambda reader: reader == event)
            for core, served in enumerate(self.cores[self.place[event]]):
                if served is None and self.place[event] not in self.down:
                    self.next(self.place[event], core, now)


class Batches(Reference):
    """The same with hosts that work in micro-batches."""

    def __init__(self, network, cluster, placement, arrivals, options, seed=0):
        self.batch = {h: Tuple(began=-1.0, until=-1.0, planned=False, held=[], total=0.0) for h in cluster.hosts}
        super().__init__(network, cluster, placement, arrivals, options, seed)

    def deliver(self, t, now):
        cores = self.cores
        # No core is ever idle, so that everything waits.
        self.cores = {host: [] for host in cores}
        super().deliver(t, now)
        self.cores = cores
        host = self.place.get(t.reader)
        if host is not None and self.waiting(host):
            self.plan(host, now)

    def waiting(self, host):
        return sorted(
            (t for u in self.units if self.place[u] == host and not self.paused[u] for t in self.queue[u]),
            key=lambda t: t.order,
        )

    def control(self, event, host, now, controls):
        left = self.place[event.operator] if isinstance(event, Move) else None
        super().control(event, host, now, controls)
        if isinstance(event, Failure):
            state = self.batch[host]
            self.heap = [e for e in self.heap if not (e[1] in (BATCH, RELEASE) and e[3] == host)]
            heapq.heapify(self.heap)
            state.held, state.planned, state.until = [], False, min(state.until, now)
        elif isinstance(event, Recovery):
            for name, gate in self.gates.items():
                if self.place.get(name[1]) == host:
                    gate.read = 0
        else:
            self.more(self.place[event] if isinstance(event, str) else left, now)

    def next(self, host, core, now):
        """Do nothing: no core is served, and a batch is planned instead."""

    def more(self, host, now):
        """Plan a batch where something is to be read."""
        gates = (g.held and not self.away(name[1]) for name, g in self.gates.items() if self.place.get(name[1]) == host)
        if host not in self.down and (self.waiting(host) or any(gates)):
            self.plan(host, now)

    def plan(self, host, now):
        state, trigger = self.batch[host], self.options.microbatch.trigger
        if state.planned:
            return
        start = max(now, state.until)
        if trigger > 0:
            start = max(state.until, (math.floor(state.began / trigger + EPSILON) + 1) * trigger)
            if start < now:
                start = max(now, math.ceil(now / trigger - EPSILON) * trigger)
        state.planned = True
        self.push(start, BATCH, host)

    def step(self, arrivals, generators, now, kind, sequence, what):
        if kind not in (BATCH, RELEASE):
            super().step(arrivals, generators, now, kind, sequence, what)
            return
        (self.start if kind == BATCH else self.release)(what, self.batch[what], now)
        self.events.append((now, kind, 0))

    def start(self, host, state, now):
        overhead, machine = self.options.microbatch.overhead, self.cluster.hosts[host]
        state.began, state.held, total = now, [], overhead[host] if isinstance(overhead, dict) else overhead
        while waiting := self.waiting(host):
            t = waiting[0]
            self.queue[t.reader].remove(t)
            total += self.service(t, machine.capacity / machine.cores * machine.cores)
            self.serve(t, host, now)
        for name, gate in self.gates.items():
            if self.place.get(name[1]) == host:
                gate.read = 0 if not self.away(name[1]) else gate.read
                self.let(name, now)
        state.until, state.total, state.released = now + total, len(state.held), 0
        state.step = total / len(state.held) if self.options.microbatch.progressive and state.held else 0.0
        self.push(now + state.step if state.step > 0 and state.total > 1 else state.until, RELEASE, host)

    def release(self, host, state, now):
        while state.held:
            crossing = {}
            for t in state.held.pop(0):
                self.arrive(t, host, now, crossing)
            state.released += 1
            if state.step > 0 and state.held:
                last = state.released + 1 == state.total
                self.push(state.until if last else state.began + state.step * (state.released + 1), RELEASE, host)
                return
        state.planned = False
        self.more(host, now)

    def let(self, name, now):
        gate, host = self.gates[name], self.place.get(name[1])
        if host is None:
            super().let(name, now)
            return
        if self.away(name[1]):
            return
        most = max(1, round(self.options.limits.get(name[0], 0) * (self.options.microbatch.trigger or 1.0)))
        while gate.held and gate.read < most:
            gate.read += 1
            self.write(gate.held.pop(0), self.net.sources[name[0]].host, now, {})
        if gate.held:
            self.plan(host, now)

    def emit(self, unit, host, identity, stimulus, work, now):
        away = []
        for t in self.copied(unit, identity, stimulus, work):
            if self.place.get(t.reader) == host:
                self.arrive(t, host, now, {})
            else:
                away.append(t)
        if away:
            self.batch[host].held.append(away)
