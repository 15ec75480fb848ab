"""A controller at work: the loop, what a scenario lets happen, what people ask for, and what is remembered."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np

from penstock.control.decision import seen_of
from penstock.control.engine import Engine
from penstock.control.flow import Flow
from penstock.control.folder import JOURNAL, Folder, Request
from penstock.control.line import Line
from penstock.control.loop import Asked, Control, Proposing, Turned
from penstock.control.periods import Periods
from penstock.control.policies.admit import admit
from penstock.control.policies.base import Proposal, counted, evacuated
from penstock.control.policies.throttle import Throttle
from penstock.control.scenario import Happening
from penstock.control.situation import Situation
from penstock.control.state import State, read_plan
from penstock.control.totals import Totals
from penstock.errors import Infeasible, InputError
from penstock.files import Document, suggest
from penstock.network import read_network_document
from penstock.steering import Admit, Event, NewRates, Plan
from penstock.workload import Rates

SAVED = 0.5
"""Seconds between two writings of the state where nothing was decided."""

PROMPT = 5.0
"""Seconds between two looks at whether somebody asks to stop, where looks at the system are further apart."""

DAMAGED = (LookupError, TypeError, ValueError, AttributeError)
"""What reading a document raises that others have written, or that is damaged."""

Report = Callable[[str, float], None]


@attrs.define(eq=False, kw_only=True)
class Controller:
    """One run of a controller.

    Attributes
    ----------
    engine, control, folder
        What it drives, how, and where it remembers.
    scenario
        What happens on the way.
    until
        When it ends (s); None: with the engine's input.
    identity
        What makes a state belong to this run: network, rates, options.
    tell
        Told how far it is.
    fresh
        Whether to begin anew where a controller was killed.
    aside
        Where the history of a run before was put, if there was one and this one begins anew.
    """

    engine: Engine
    control: Control
    folder: Folder
    scenario: tuple[Happening, ...] = ()
    until: float | None = None
    identity: Document = attrs.field(factory=dict)
    tell: Report | None = None
    fresh: bool = False
    aside: Path | None = None
    state: State = attrs.field(factory=State)
    totals: Totals = attrs.field(factory=Totals)
    flow: Flow | None = None
    _begun: float = 0.0
    _told: int = 0
    _coming: list[Happening] = attrs.field(factory=list)
    _asked: list[Asked] = attrs.field(factory=list)
    _saved: float = 0.0
    _writing: float = 0.0
    _stop: bool = False
    _last: Turned | None = None
    _periods: Periods = attrs.field(init=False)

    @_periods.default
    def _kept(self) -> Periods:
        return Periods(self.folder.path)

    def run(self) -> Document:
        """Control until the end, and return what came of it. The folder is held by the caller.

        Raises
        ------
        InputError
            If the folder holds the state of another run that is not over.
        """
        self._resume()
        self.folder.ready()
        while not self._stop and self._step():
            pass
        return self._finish()

    def _resume(self) -> None:
        """Go on from where a killed controller stopped, or begin anew."""
        known = None if self.fresh else left_by(self.folder, self.identity, self.scenario)
        if known is None:
            # What runs may be older than this controller: its scenario begins with it.
            self._begun = self.engine.now if self.folder.used else 0.0
            if self.folder.used:
                self._lift()
            self.aside = self.folder.begin(keep=not self.fresh)
            self._periods.begin()
        else:
            self._begun = known.get("begun", 0.0)
        self._coming = [attrs.evolve(each, at=self._begun + each.at) for each in self.scenario]
        if known is None:
            return
        self.state, self._told = State.read(known["state"]), int(known["told"])
        self.folder.cut(self._told)
        self.folder.cut(self.state.written, JOURNAL)
        self._periods.cut(self.state.at)
        if self.control.journaled:
            self._replay()
        else:
            # What runs has gone on without a controller, and what came meanwhile is seen no more.
            self.totals = Totals.read(known.get("status", {}).get("totals")).counted_by(self.engine.report())
            self._coming = [each for each in self._coming if each.at > self.state.at]
        self._asked = [self._waiting(int(number), since) for number, since in known.get("waiting", ())]

    def _lift(self) -> None:
        """Lift what an earlier controller has left in force: perhaps none of these policies ever would."""
        seen = self.engine.observe()
        self.totals = self.totals.after(seen)
        plan = Plan(keep={})
        if not any(isinstance(each, Throttle) for each in self.control.policies):
            first = seen.cluster.spark.trigger
            longer = [host for host, step in seen.triggers.items() if step != first]
            plan = attrs.evolve(plan, limits=dict.fromkeys(seen.limits), triggers=dict.fromkeys(longer, first))
        self.engine.apply(plan)

    def _replay(self) -> None:
        """Let an engine that has forgotten everything do again what it had done."""
        journal = [row for row in journal_of(self.folder, self.state) if "plan" in row]
        while self.engine.now < self.state.at - 1e-9 and not self._stop:
            self._wait(self._next(self.engine.now))
            self.totals = self.totals.after(self.engine.observe())
            while journal and journal[0]["time"] <= self.engine.now + 1e-9:
                self.engine.apply(read_plan(journal.pop(0)["plan"]))

    def _next(self, now: float) -> float:
        """Return the time of the next look (s); there is one at the end, whatever is left till then."""
        at = (int(now / self.control.every + 1e-9) + 1) * self.control.every
        return at if self.until is None else min(at, self.until)

    def _wait(self, until: float) -> bool:
        """Let time pass until a look, and let happen what a scenario says."""
        while self._coming and self._coming[0].at <= until + 1e-9:
            due = self._coming.pop(0)
            if not self._pass(max(due.at, self.engine.now)):
                return False
            self._happen(due.event, len(self.scenario) - len(self._coming) - 1)
        return self._pass(until)

    def _pass(self, until: float) -> bool:
        """Let time pass until somebody asks to stop."""
        while self.engine.now + PROMPT < until and not self._stop:
            if not self.engine.wait(self.engine.now + PROMPT):
                return False
            self._listen()
        return not self._stop and self.engine.wait(until)

    def _listen(self) -> None:
        """Take what is asked for: to stop at once, all else at the next look."""
        for request in self.folder.requests():
            self._take(request)

    def _happen(self, event: Event, number: int) -> None:
        """Let an event of the scenario happen, and note where it cannot; a query waits for the next look."""
        try:
            if not isinstance(event, Admit):
                self.engine.happen(event)
                return
            if event.rates is not None:
                self.engine.happen(NewRates(event.rates))
        except InputError as error:
            found = Proposal(policy="scenario", plan=Plan(), why=f"refused: {error}", asked=True)
            self._asked.append(Asked(None, lambda _now: found))
            return
        self._asked.append(self._waiting(number))

    def _waiting(self, number: int, since: float | None = None) -> Asked:
        """Return the query that an event of the scenario asks for, first looked at ``since``."""
        event = self.scenario[number].event
        assert isinstance(event, Admit)  # noqa: S101 - others do not wait
        return Asked(None, lambda now: admit(now, event), since, number)

    def _step(self) -> bool:
        """Wait for the next look, and take it; return whether it goes on."""
        if self.until is not None and self.engine.now >= self.until - 1e-9:
            return False
        if not self._wait(self._next(self.engine.now)):
            return False
        self._listen()
        asked, self._asked = self._asked, []
        turned = self.control.turn(self.engine, self.state, self.flow, asked)
        self.flow, self._last = turned.flow, turned
        self.totals = self.totals.after(turned.seen)
        if self.control.journaled:
            self._periods.add(turned.seen)
        self._asked = [*turned.later]
        self.state, done = self.control.settled(turned.state, turned.seen)
        self._record(done)
        if turned.decided or done or time.monotonic() - self._saved > max(SAVED, 20 * self._writing):
            self._save(turned)
        for identity, answer in turned.answers.items():
            self.folder.reply(identity, answer)
        if self.tell is not None:
            span = self.until or 0.0
            self.tell("controlling", min(1.0, self.engine.now / span) if span else 0.0)
        return True

    def _record(self, lines: list[Line]) -> None:
        self.folder.tell(lines)
        self._told += len(lines)

    def _save(self, turned: Turned | None = None, *, over: bool = False) -> None:
        began = time.monotonic()
        self.folder.tell(self.state.fresh, JOURNAL)
        self.state = attrs.evolve(self.state, written=self.state.written + len(self.state.fresh), fresh=())
        document: Document = {
            "identity": dict(self.identity),
            "over": over,
            "begun": self._begun,
            "told": self._told,
            "state": self.state.document(),
            "waiting": [[each.number, each.since] for each in self._asked if each.number is not None],
        }
        if turned is not None:
            status = status_of(turned, self.state)
            document["status"] = {**status, "every": self.control.every, "totals": self.totals.document()}
        elif (known := self.folder.read()) is not None and "status" in known:
            document["status"] = known["status"]
        self.folder.write(document)
        self._saved = time.monotonic()
        self._writing = self._saved - began

    def _finish(self) -> Document:
        """Write down what is still open, stop the engine, and return the report."""
        self._decline()
        if self._last is not None:
            seen = self._last.seen
            if self.engine.now > self.state.at + 1e-9:
                seen = self.engine.observe()
                self.totals = self.totals.after(seen)
            self.state, done = self.control.settled(self.state, seen, last=True)
            self._record(done)
        # What is still under way when the engine stops is counted as well.
        self.engine.close()
        report = self.engine.report()
        self.totals = self.totals.counted_by(report)
        self._save(self._last, over=True)
        self._decline()
        return {
            **report,
            "decisions": self.state.decisions,
            "moves": [move for row in journal_of(self.folder, self.state) for move in row["moves"]],
            "acted": any(line.get("acted") for line in self.folder.history()),
        }

    def _decline(self) -> None:
        """Answer what was asked for and is not decided: it will not be any more."""
        self._listen()
        asked, self._asked = self._asked, []
        for identity in (each.identity for each in asked if each.identity is not None):
            self.folder.reply(identity, {"done": False, "why": "the controller ends, and nothing was changed"})

    def _take(self, request: Request) -> None:
        """Put what is asked for on the list of the next look."""
        makers: dict[str, Callable[[Document], Proposing]] = {
            "move": moved,
            "drain": drained,
            "admit": admitted,
        }
        if request.kind == "stop":
            self._stop = True
            self.folder.reply(request.identity, {"done": True, "why": "stopped"})
        elif request.kind in makers:
            try:
                self._asked.append(Asked(request.identity, makers[request.kind](request.given)))
            except (InputError, *DAMAGED) as error:
                why = f"what is asked for cannot be read: {_lacking(error)}"
                self.folder.reply(request.identity, {"done": False, "why": why, "wrong": True})
        else:
            self.folder.reply(request.identity, {"done": False, "why": f"{request.kind!r} is nothing to ask for"})


def left_by(folder: Folder, identity: Mapping[str, object], scenario: Sequence[Happening] = ()) -> Document | None:
    """Return what a controller that was killed remembered of a run, None if there is nothing to go on with.

    Raises
    ------
    InputError
        If that was another run, or is damaged.
    """
    known = folder.read()
    if known is None or known.get("over"):
        return None
    mine = json.loads(json.dumps(dict(identity)))  # as a file would have it
    if known.get("identity") != mine:
        theirs = known.get("identity")
        if not isinstance(theirs, dict):
            raise _damaged(folder, "expected the table 'identity'")
        differs = sorted(key for key in {*mine, *theirs} if theirs.get(key) != mine.get(key))
        raise InputError(
            f"a controller with other {', '.join(differs) or 'options'} was stopped here and is not over",
            file=str(folder.directory),
            hint="name another --directory, or begin anew with --fresh",
        )
    try:
        # Whatever is damaged is found before anything runs.
        state = State.read(known["state"])
        float(state.at), int(known["told"])
        journal = journal_of(folder, state)
        for row in journal:
            [*row["moves"]], read_plan(row["plan"]) if "plan" in row else None
        if len(journal) < state.written:
            raise ValueError(f"it knows of {state.written} plans, and {JOURNAL} has {len(journal)}")
        for number, _ in known.get("waiting", ()):
            if not 0 <= int(number) < len(scenario) or not isinstance(scenario[int(number)].event, Admit):
                raise ValueError(f"event {int(number) + 1} of the scenario is no query that could wait")
        float(known.get("begun", 0.0)), Totals.read(known.get("status", {}).get("totals"))
    except (InputError, *DAMAGED) as error:
        raise _damaged(folder, _lacking(error)) from None
    return known


def journal_of(folder: Folder, state: State) -> list[Document]:
    """Return the lines of all plans that were applied, as `State` has them."""
    return [*folder.history(JOURNAL)[: state.written], *state.fresh]


def _damaged(folder: Folder, why: str) -> InputError:
    return InputError(f"is damaged: {why}", file=str(folder.path / "state.json"), hint="begin anew with --fresh")


def _lacking(error: Exception) -> str:
    """Return for people why a document cannot be read."""
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)


def drained(given: Document) -> Proposing:
    """Return what makes a proposal of a host that is to become empty: ``host``, ``dry``."""
    host = str(given.get("host"))

    def make(now: Situation) -> Proposal:
        if host not in now.seen.cluster.hosts:
            raise InputError(f"{host!r} is no host", hint=suggest(host, now.seen.cluster.hosts, "hosts"))
        if not [name for name in now.hosts if name != host and name not in now.draining]:
            raise Infeasible(f"no other host is left than {host!r}")
        pinned = [name for name, pin in now.network.pins.items() if pin == host]
        if pinned:
            raise Infeasible(f"{pinned[0]!r} is pinned to {host!r}")
        moves = evacuated(attrs.evolve(now, draining=now.draining | {host}), [host])
        left = [name for name, here in sorted(now.seen.placement.items()) if here == host and name not in moves]
        stuck = [name for name in left if now.seen.moving.isdisjoint(now.together({name: ""}))]
        if stuck:
            raise Infeasible(f"no other host can take {stuck[0]!r}: they lack memory, or have a copy of it")
        expected = {"worst": now.worst(now.where(moves))} if now.ready else {}
        if moves:
            expected["pause"] = now.goals.pause
        return Proposal(
            policy="drain",
            plan=Plan(placement=moves),
            why=f"{host} is to become empty: {counted(len(moves), 'operator')} to leave",
            expected=expected,
            drain=(host,),
            asked=True,
            dry=bool(given.get("dry")),
        )

    return make


def moved(given: Document) -> Proposing:
    """Return what makes a proposal of a move that was asked for: ``operator``, ``host``, ``dry``."""
    name, host = str(given.get("operator")), str(given.get("host"))

    def make(now: Situation) -> Proposal:
        if name not in now.seen.operators:
            raise InputError(f"{name!r} is no operator", hint=suggest(name, now.seen.operators, "operators"))
        if host not in now.seen.cluster.hosts:
            raise InputError(f"{host!r} is no host", hint=suggest(host, now.seen.cluster.hosts, "hosts"))
        here = now.seen.placement[name]
        if here == host:
            raise Infeasible(f"{name!r} is on {host!r} already")
        if host in now.draining:
            raise Infeasible(f"{host!r} is to become empty: what comes there would leave again")
        moves = now.together({name: host})
        others = sorted(set(moves) - {name})
        told = now.ready and here not in now.seen.down
        then = {"worst": now.worst(now.where(moves)), "otherwise": now.worst()} if told else {}
        return Proposal(
            policy="move",
            plan=Plan(placement=moves),
            why=f"asked to move {name} from {here} to {host}"
            + (f", with {', '.join(others)}, which share{'s' * (len(others) == 1)} its query" if others else ""),
            expected={**then, "pause": now.goals.pause},
            asked=True,
            dry=bool(given.get("dry")),
        )

    return make


def admitted(given: Document) -> Proposing:
    """Return what makes a proposal of a query that was asked for.

    Parameters
    ----------
    given
        ``network``, and where they are known ``rates`` by source, the bound ``latency`` (s) and those of ``sinks``.
    """
    network = read_network_document(given["network"])
    told = {name: float(rate) for name, rate in dict(given.get("rates") or {}).items()}
    rates = Rates.constant(told) if told else None
    bound = None if given.get("latency") is None else float(given["latency"])
    sinks = {name: float(value) for name, value in dict(given.get("sinks") or {}).items()}
    return lambda now: admit(now, Admit(network, rates, bound, sinks))


def status_of(turned: Turned, state: State) -> Document:
    """Return how things stand, for ``penstock status``."""
    seen = turned.seen
    known = state.known.statistics(seen.network).operators
    waiting = np.zeros(len(seen.operators)) if seen.waiting is None else seen.waiting
    return {
        "time": seen.at,
        **seen_of(seen),
        "silent": sorted(seen.silent),
        "network": seen.network.name,
        "placement": dict(seen.placement),
        "keep": dict(seen.keep),
        "limits": dict(seen.limits),
        "triggers": dict(seen.triggers),
        "trigger": seen.cluster.spark.trigger,
        "draining": sorted(state.draining),
        "decisions": state.decisions,
        "hosts": {name: attrs.asdict(row) for name, row in seen.hosts.items()},
        "sinks": {name: attrs.asdict(row) for name, row in seen.latency.items()},
        "operators": {
            name: {
                "host": seen.placement[name],
                "waiting": float(count),
                "cost": known[name].cost[0] if name in known and known[name].cost else None,  # type: ignore[index]
            }
            for name, count in zip(seen.operators, waiting.tolist(), strict=True)
        },
    }
