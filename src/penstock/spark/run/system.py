"""The units of a run on their hosts: each is started, moved and stopped by itself, while the others go on."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import attrs

from penstock.errors import EngineError, locating
from penstock.spark.compile import Deployment, Pace, PromptQuery, Query, compile_fragment, compile_prompt, recalled_of
from penstock.spark.compile.sql import computes
from penstock.spark.run.between import KEPT, clean_topics
from penstock.spark.run.copies import Copies, catch_up, heir, latest
from penstock.spark.run.deaths import dead, died, silent
from penstock.spark.run.folder import Claim, note, note_end
from penstock.spark.run.follow import prompts
from penstock.spark.run.lost import refuse_lost
from penstock.spark.run.meter import Meters
from penstock.spark.run.moments import Moments
from penstock.spark.run.newer import refuse_newer
from penstock.spark.run.prompt import PromptRunner, recount_prompt
from penstock.spark.run.reports import recount
from penstock.spark.run.runner import Runner
from penstock.spark.run.topics import make_topics
from penstock.spark.run.units import Unit, copy_name, stamped
from penstock.spark.run.upkeep import clean_logs, fold
from penstock.spark.shipped.gate import owner_of, take_over
from penstock.spark.silent import Asker, Silent, within

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress

    from penstock.spark.hosts.base import SparkHost

Report = Callable[[str, float], None]
"""Told what is being done and how much of it is done, 0..1."""

LOOK, UPKEEP = 0.25, 10.0
"""Seconds between two looks at the hosts, and at what may be removed."""

GONE = 1.0
"""Seconds within which a host that refuses to answer is seen to have died, if it has."""

MUTE = 30.0
"""Seconds after which a unit is not begun on a host that does not answer."""

ENDS = 60.0
"""Seconds after which a run ends without what a host has to end; nothing that it still does is delivered."""

Change = Callable[[Deployment], Deployment]
"""What becomes of a deployment."""


class System:
    """The units of a deployment.

    Parameters
    ----------
    deployment
        What runs; its units are those of the claim.
    claim
        What the run's folder says.
    hosts, sessions
        By name; others may be added later.
    prompt
        Whether writers wait for penstock to look at a batch's rates.
    speed
        How fast a host is (steps/s) of which the deployment does not say it.

    Attributes
    ----------
    down
        Hosts that have died.
    copies
        Those that follow; ``runners`` and ``compiled`` are of the units, as the copy that leads runs them.
    asker
        Asks hosts of whose answers one does not know when they come.
    made
        When this was made (s since 1970).
    ended
        Set once nothing is to begin any more.
    moments
        When which keep fraction holds, in queries in real-time mode.
    gone
        By topic, how many messages were gone when the run went on, of those that it had still to read.
    unremoved
        By operator, why a broker refuses to remove its rows that all readers have passed.
    """

    def __init__(
        self,
        deployment: Deployment,
        claim: Claim,
        hosts: Mapping[str, SparkHost],
        sessions: Mapping[str, SparkSession],
        *,
        prompt: bool = False,
        speed: Callable[[str], float],
    ) -> None:
        self.claim, self.hosts, self.sessions, self.prompt = claim, hosts, sessions, prompt
        self.made = time.time()
        self._speed = speed
        self.down: set[str] = set()
        self.deployment = _as_claimed(deployment, claim)
        self.units: dict[str, Unit] = {unit.name: latest(deployment.place, unit) for unit in claim.units}
        self.compiled: dict[str, Query] = {}
        self.runners: dict[str, Runner] = {}
        self.asker = Asker()
        self.copies = Copies(self)
        self.meters = Meters()
        self.moments = Moments(self.deployment.place, self._live, self._there)
        self.lock = threading.RLock()
        self.growing = False
        self.gone: Mapping[str, int] = {}
        self.unremoved: dict[str, str] = {}
        self.ended = threading.Event()
        self.asked: float | None = None
        self._kept = self._seen = self._swept = time.monotonic()

    @property
    def queries(self) -> list[Query]:
        """The queries of all units, as they were last compiled."""
        return [query for _, query in sorted([*self.compiled.items()], key=lambda item: item[0])]

    @property
    def readers(self) -> list[Query]:
        """The queries of all units and of their copies: what each of them has not read yet must stay."""
        return [*self.queries, *self.copies.queries.values()]

    @property
    def reachable(self) -> list[str]:
        """The units on hosts that are there."""
        return [name for name, unit in [*self.units.items()] if unit.host in self.sessions]

    def prepare(self, told: Mapping[str, Sequence[StreamingQueryProgress]], *, adopt: bool = False) -> None:
        """Compile all units, each host its own, and let them deliver; ``adopt`` those that an earlier penstock left.

        Of those that were ended Spark has ``told`` what they did last.
        Units of a host that is gone are compiled on another, so that it is known what they read; they start later.
        """
        there = sorted(self.sessions)
        for unit in [*self.units.values()]:
            able = [copy for copy, host in unit.copies.items() if host in there]
            if able and unit.host not in there:
                self.units[unit.name] = self.copies.bequeath(unit, heir(self.deployment.place, unit, able))
        mine: dict[str, list[Unit]] = {}
        for name in sorted(self.units):
            host = self.units[name].host
            mine.setdefault(host if host in there else there[0], []).append(self.units[name])

        noted = Pace.noted(self.deployment.place) if adopt else None

        def work(host: str) -> None:
            for unit in mine[host]:
                if not (adopt and unit.host == host and self._adopt(unit, noted)):
                    self.deliver(self.compile(unit.on(host)), unit, told.get(unit.name, ()))
                    refuse_newer(self.compiled[unit.name], copied=bool(unit.copies))

        with ThreadPoolExecutor(max(1, len(mine))) as pool:
            list(pool.map(work, mine))

    def _adopt(self, unit: Unit, noted: Pace | None) -> bool:
        """Look for a unit's query on its host; it goes on if it may deliver, and at the same pace."""
        owner = owner_of(self.deployment.place, unit.name)
        active = [query for query in self.sessions[unit.host].streams.active if query.name == unit.name]
        if not active or not owner["generation"] or owner["closing"] or self._other_pace(unit, noted):
            # What is being committed ends first.
            take_over(self.deployment.place, unit.name, deliver=False)
            for query in active:
                query.stop()
            return False
        self.compiled[unit.name] = stamped(self.compile(unit), unit, owner["generation"])
        self.meters.begin(self.compiled[unit.name], self.deployment)
        runner = self.runners[unit.name] = self._runner(unit.name)
        runner.handle = active[0]
        return True

    def _other_pace(self, unit: Unit, noted: Pace | None) -> bool:
        """Whether an earlier controller has noted another pace for the unit's micro-batches."""
        if noted is None or self.deployment.prompt(unit.fragment):
            return False
        inputs = self.deployment.network.inputs
        given = {stream.writer for name in unit.fragment.operators for stream in inputs(name)}
        return noted.differs(self.deployment.pace, unit.host, given)

    def deliver(self, query: Query, unit: Unit, told: Sequence[StreamingQueryProgress] = ()) -> None:
        """Let a compiled query deliver in place of whichever did, and bring in order what that one left."""
        if unit.copies:
            catch_up(self.deployment.place, unit)
        generation = take_over(self.deployment.place, unit.name, copy=unit.copy)
        made = stamped(query, unit, generation)
        with self.lock:  # nobody looks at all queries meanwhile
            self.compiled[unit.name] = made
        if isinstance(made, PromptQuery):
            recount_prompt(made, told)
        else:
            recount(made)
        refuse_lost(made, self.deployment.network)

    def compile(self, unit: Unit, deployment: Deployment | None = None) -> Query:
        """Return the query of a unit, of another deployment if one is given; it delivers nothing yet."""
        deployment = self.deployment if deployment is None else deployment
        deployment = attrs.evolve(deployment, copy=unit.copy)
        operators = map(deployment.network.operators.__getitem__, unit.fragment.operators)
        if unit.host not in deployment.speeds and any(map(computes, operators)):
            deployment = attrs.evolve(deployment, speeds={**deployment.speeds, unit.host: self._speed(unit.host)})
        # Spark asks for the folders that it reads when it hears of them.
        recalled_of(deployment.place, unit.name).make()
        session = self.sessions[unit.host]
        if deployment.prompt(unit.fragment):
            prompt = compile_prompt(session, deployment, unit.fragment, self.claim.run)
            make_topics(deployment, prompt, unit.host, session)
            return prompt
        with locating(deployment.network.file):
            query = compile_fragment(session, deployment, unit.fragment, self.claim.run)
        make_topics(deployment, query, unit.host, session)
        if self.prompt and query.spec.knobs is not None:
            knobs = dataclasses.replace(query.spec.knobs, prompt=prompts(deployment, unit.fragment))
            query = attrs.evolve(query, spec=dataclasses.replace(query.spec, knobs=knobs))
        return query

    def start(self, trigger: Mapping[str, float] | float, names: Sequence[str] | None = None) -> None:
        """Start units that are prepared (default: all), and wait until each has looked for data.

        Of those that run already, the copies that follow are started.
        """
        wanted = sorted(self.units if names is None else names)
        if any(unit.copies for unit in self.units.values()):
            self.copies.guard.start()
        pool = ThreadPoolExecutor(max(1, len(wanted)))

        def interval(name: str) -> float:
            return trigger if isinstance(trigger, int | float) else trigger[self.units[name].host]

        def start(name: str) -> None:
            (self.copies.follow if name in self.runners else self.begin)(name, interval(name))

        try:
            list(pool.map(start, wanted))
        except BaseException:
            self.ended.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _live(self) -> dict[str, set[str]]:
        """Return the streams of queries in real-time mode whose keep fractions follow a plan, by host."""
        found: dict[str, set[str]] = {}
        for name, query in [*self.compiled.items()]:
            if isinstance(query, PromptQuery) and query.live and name in self.units:
                found.setdefault(self.units[name].host, set()).update(query.live)
        return found

    def _there(self) -> dict[str, SparkSession]:
        return {name: session for name, session in [*self.sessions.items()] if name not in self.down}

    def begin(self, name: str, interval: float, again: int = 2) -> None:
        """Start one unit, and wait until it has ended a batch or found no data: its plans are then compiled."""
        query = self.compiled[name]
        self.meters.begin(query, self.deployment)
        if isinstance(query, PromptQuery):
            self.moments.begin(self.sessions[self.units[name].host], query.live)
        runner = self._runner(name)
        before = runner.marks[1]
        runner.launch(interval)
        with self.lock:
            self.runners[name] = runner
        heard = time.monotonic()
        while True:
            passing = False
            try:
                if self.asker.ask(runner.unit.host, partial(runner.ready, before)):
                    break
                passing = again > 0 and self.asker.ask(runner.unit.host, lambda: runner.passing)
                heard = time.monotonic()
            except Silent:
                if time.monotonic() > heard + MUTE:
                    raise silent(runner.unit.host) from None
            if self.ended.wait(0.2):
                return
            if passing:
                self.begin(name, interval, again - 1)
                return
            self.check(runner)
        self.copies.follow(name, interval)

    def lose(self, host: str) -> None:
        """Note that a host has died: copies elsewhere lead what it led, and nothing that it may do is delivered."""
        # A change in the pool may put a unit elsewhere meanwhile: what delivers there is to go on.
        with self.lock:
            if host in self.down:
                return
            self.down.add(host)
            self.copies.lose(host)
            for name, unit in [*self.units.items()]:
                if unit.host == host and not self.copies.succeed(name):
                    take_over(self.deployment.place, name, deliver=False)
                    self.runners.pop(name, None)

    def _runner(self, name: str) -> Runner:
        unit, query = self.units[name], self.compiled[name]
        if isinstance(query, PromptQuery):
            deployment = self.deployment
            return PromptRunner(unit, query, deployment.client, self.hosts[unit.host], deployment.checkpoint)
        return Runner(unit, query)

    def check(self, runner: Runner) -> None:
        """Raise if a unit's query has failed or its host has died; nothing is known of one that does not answer."""
        host = self.hosts[runner.unit.host]
        try:
            error = self.asker.ask(runner.unit.host, runner.failed)
        except Exception as wrong:
            if self._survives(runner.unit.host):
                return
            if not host.alive():
                raise died(runner.unit.host, host) from None
            if isinstance(wrong, Silent):
                return
            raise
        if error is not None:
            runner.check()

    def goes_on(self, runner: Runner) -> bool:
        """Whether a query is known to run and may deliver, or follow."""
        with contextlib.suppress(Silent):
            return self.asker.ask(runner.unit.host, runner.goes_on)
        return False

    def place(self, units: Iterable[Unit], gone: Iterable[str] = (), change: Change | None = None) -> None:
        """Write down units that are new, changed or gone, all at once; ``change``: what the deployment becomes."""
        with self.lock:
            before = self.deployment
            after = before if change is None else change(before)
            for name in gone:
                self.units.pop(name, None)
                self.compiled.pop(name, None)
                self.runners.pop(name, None)
            self.units |= {unit.name: unit for unit in units}
            lost = {*before.network.operators, *before.network.sinks} - {*after.network.operators, *after.network.sinks}
            self.claim = attrs.evolve(
                self.claim,
                given_up=self.claim.given_up | lost,
                units=tuple(self.units[name] for name in sorted(self.units)),
                since=after.since,
                grown=self.claim.grown if after.network is before.network else after.network,
            )
            self.deployment = _as_claimed(after, self.claim)
            note(self.deployment, self.claim)

    def go_at(self, pace: Pace) -> None:
        """Start units at another pace from now on; those that run are to be started again."""
        with self.lock:
            self.deployment = attrs.evolve(self.deployment, pace=pace)
            pace.note(self.deployment.place)

    def move(self, name: str, host: str, interval: float) -> None:
        """Stop a unit at the end of its batch, and start it on another host on the same checkpoint.

        One that does not run, since its host has died, is started from where it was. Others go on meanwhile.

        Raises
        ------
        EngineError
            If the host has died or another copy has come to lead meanwhile; that one goes on.
        """
        before = self.units[name]
        unit = before.on(host)
        # While the old one goes on.
        query = self.compile(unit)
        with self.lock:  # another thread may be about to let copies lead
            if host in self.down or self.units.get(name) is not before:
                raise EngineError(f"{name!r} was not started on {host!r}: that has died, or another copy leads")
            runner, others = self.runners.get(name), self.copies.dismiss(name)
        for each in (*others, *(() if runner is None else (runner,))):
            each.end(self.hosts[each.unit.host])
        self.place([unit])
        self.deliver(query, unit)
        self.begin(name, interval)

    def look(self, forgive: bool = False) -> tuple[int, ...]:
        """Look after everything once; return the last batch begun and ended of each unit, and of each copy.

        Mostly files are looked at, so that the hosts keep their cores. ``forgive`` hosts that do not answer.
        """
        for runner in [*self.runners.values()]:
            try:
                runner.look(partial(self.asker.ask, runner.unit.host))
            except Silent:
                continue
            except Exception:
                if not forgive and not self._survives(runner.unit.host):
                    raise
        self.upkeep()
        # One that leads may wait for a copy, and seem to have nothing to do.
        runners = {**self.runners, **{copy_name(copy): each for copy, each in [*self.copies.runners.items()]}}
        return tuple(number for name in sorted(runners) for number in runners[name].marks)

    def look_at_hosts(self) -> None:
        """Raise if a host on this machine has died with a unit that has no copy elsewhere; of others queries tell."""
        if time.monotonic() - self._seen < LOOK:
            return
        self._seen = time.monotonic()
        self.look_for_dead()
        with self.lock:  # another thread may be about to let copies lead
            gone = next((unit.host for unit in self.units.values() if unit.host in self.down), None)
        if gone is not None:
            raise died(gone, self.hosts[gone])

    def look_for_dead(self) -> None:
        """Lose the hosts on this machine that have died."""
        looked = {host for unit in [*self.units.values()] for host in unit.hosts.values()} - self.down
        for name in dead({name: host for name, host in [*self.hosts.items()] if name in looked}):
            self.lose(name)

    def _survives(self, host: str) -> bool:
        """Whether a host has died and all that it ran goes on elsewhere.

        It may refuse to answer some time before it is seen to be gone.
        """
        deadline = time.monotonic() + GONE
        while any(unit.copies for unit in [*self.units.values()]) and time.monotonic() < deadline:
            if not self.hosts[host].alive():
                self.lose(host)
                return all(unit.host != host for unit in [*self.units.values()])
            time.sleep(0.05)
        return False

    def upkeep(self) -> None:
        """Remove what is not needed any more, now and then."""
        # A reader that is about to begin is not seen by its query yet.
        if not self.growing and time.monotonic() - self._kept > UPKEEP:
            self._kept = time.monotonic()
            self.unremoved = clean_logs(self.deployment, self.readers)
            fold(self.deployment, self.readers)
            if time.monotonic() - self._swept > KEPT:
                self._swept = time.monotonic()
                # A broker may be away; what is left then goes next time.
                with contextlib.suppress(EngineError):
                    clean_topics(self.deployment, self.queries)

    def stop(self) -> None:
        """Let no batch begin, wait for those that run, and stop; nothing delivers from then on."""
        self.ended.set()
        note_end(self.deployment.place, self.made)

        def end(what: Callable[[], object]) -> None:
            with contextlib.suppress(Silent):
                within(ENDS, what)

        try:
            self.copies.guard.end()
            with ThreadPoolExecutor(max(1, len(self.units))) as pool:
                list(pool.map(end, [partial(self.copies.leave, name) for name in self.units]))
            self._finish()
        finally:
            runners = [*self.runners.values()]
            with ThreadPoolExecutor(max(1, len(runners))) as pool:
                list(pool.map(end, [partial(runner.end, self.hosts[runner.unit.host]) for runner in runners]))
            self.fence()

    def _finish(self) -> None:
        """Stop the queries in real-time mode, those that feed others first, and measure the last of their rows."""
        order, wrong = [*self.deployment.network.operators], list[EngineError]()
        prompt = {name: each for name, each in [*self.runners.items()] if isinstance(each, PromptRunner)}
        for name in sorted(prompt, key=lambda name: order.index(prompt[name].unit.fragment.operators[0])):
            host = self.hosts[prompt[name].unit.host]
            prompt[name].end(host)
            try:
                prompt[name].finish(host)
            except EngineError as error:
                wrong.append(error)
            del self.runners[name]
        self.meters.end()
        if wrong:
            raise wrong[0]

    def fence(self) -> None:
        """Let no unit deliver."""
        for name in [*self.units]:
            take_over(self.deployment.place, name, deliver=False)


def _as_claimed(deployment: Deployment, claim: Claim) -> Deployment:
    """Return a deployment with what the run's folder knows better."""
    return attrs.evolve(
        deployment,
        units=tuple(unit.fragment for unit in claim.units),
        placement={name: host for unit in claim.units for name, host in unit.placement.items()},
        begins={unit.name: unit.begins for unit in claim.units},
        since=claim.since,
    )
