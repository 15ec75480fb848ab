"""The loop: observe, learn, decide, verify, apply. Values are passed, nothing is changed but by the engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence

import attrs
import numpy as np

from penstock.cluster import base_name
from penstock.control.decision import decision
from penstock.control.engine import Engine
from penstock.control.flow import Flow
from penstock.control.goals import Goals
from penstock.control.line import Line
from penstock.control.policies.base import Policy, Proposal
from penstock.control.policies.drain import drain
from penstock.control.settling import Open
from penstock.control.situation import Situation
from penstock.control.state import State, plan_document
from penstock.control.verify import wrong
from penstock.errors import Infeasible, InputError, NotReady, PenstockError
from penstock.files import Document
from penstock.steering import Applied, Observation, Plan

Proposing = Callable[[Situation], Proposal]
"""Makes of a moment what somebody asked for."""

PATIENCE = 20.0
"""Seconds for which what somebody asks for waits until it can be decided: a dead host's operators start elsewhere."""


@attrs.frozen(eq=False, kw_only=True)
class Control:
    """How a network is controlled.

    Attributes
    ----------
    policies
        Who decides, the first first.
    goals
        What is wanted.
    every
        Seconds between two looks.
    act
        Whether plans are applied; else they are only written down.
    seed
        Of everything random.
    window
        Seconds after a decision at which what came of it is written down.
    journaled
        Whether plans are kept so that the engine can be rebuilt from them.
    """

    policies: tuple[Policy, ...]
    goals: Goals = attrs.field(factory=Goals)
    every: float = 1.0
    act: bool = False
    seed: int = 0
    window: float = 10.0
    journaled: bool = False

    def turn(self, engine: Engine, state: State, flow: Flow | None, asked: Sequence[Asked] = ()) -> Turned:
        """Look once, decide, and apply what may be applied."""
        seen = engine.observe()
        flow = flow if flow is not None and flow.network is seen.network else Flow.of(seen.network)
        now, state = self.situation(state, seen, flow)
        rng = np.random.default_rng([self.seed, state.known.looks])
        wanted, refused, later = answered(now, asked)
        lines: list[Line] = []
        answers: dict[str, Document] = {
            identity: {"done": False, "why": str(error), "wrong": isinstance(error, InputError)}
            for identity, error in refused.items()
        }
        mine = chosen(now, (drain, *self.policies), rng, [found for _, found in wanted if _changing(found)])
        for asker, found in (*wanted, *((None, each) for each in mine)):
            plan = trimmed(now, found.plan)
            if found.note is not None:
                state = attrs.evolve(state, noted={**state.noted, found.policy: found.note})
            faults = wrong(now, plan, quotas=not found.hard)
            applied = None
            if (self.act or found.asked) and not found.dry and not faults and not plan.empty:
                applied = engine.apply(plan)
                state = state.after(found, plan, applied, seen, journaled=self.journaled)
            begun = applied is not None and bool(applied.begun)
            if asker is not None and applied is not None and not begun and asker.waits_for(applied, now.now):
                later = (asker, *later)
                continue
            # Nothing has to move, or may move yet: the host is to become empty all the same.
            emptied = found.asked and not found.dry and not faults and plan.empty and bool(found.drain)
            if emptied:
                state = attrs.evolve(state, draining=state.draining | set(found.drain))
            # Who asks gets an answer, however often.
            state, told = advised(state, found, plan, not begun and asker is None, now)
            if told:
                state = attrs.evolve(state, decisions=state.decisions + 1)
                lines.append(decision(now, attrs.evolve(found, plan=plan), applied, faults))
            if asker is not None and asker.identity is not None:
                answers[asker.identity] = {"done": begun or emptied, **lines[-1]}
        opened = (*state.open, *map(Open, lines))
        return Turned(attrs.evolve(state, open=opened), seen, flow, answers, bool(lines), later)

    def situation(self, state: State, seen: Observation, flow: Flow) -> tuple[Situation, State]:
        """Return this moment, and the state that has learned from it."""
        known = state.known.updated(seen, seen.network)
        state = attrs.evolve(state, at=seen.at, known=known)
        now = Situation(
            seen=seen, known=known, flow=flow, goals=self.goals, moved=state.moved, acted=state.acted,
            draining=state.draining, noted=state.noted,
        )  # fmt: skip
        return now, state

    def settled(self, state: State, seen: Observation, *, last: bool = False) -> tuple[State, list[Line]]:
        """Return the lines of which it is known what came, and the state without them; ``last``: all of them."""
        opened = [each.after(seen) for each in state.open]
        done = [each for each in opened if last or each.settled(seen, self.window)]
        still = tuple(each for each in opened if each not in done)
        return attrs.evolve(state, open=still), [each.came(seen) for each in done]


@attrs.frozen(eq=False)
class Asked:
    """What somebody asks for.

    Attributes
    ----------
    identity
        The name under which the answer is given.
    proposal
        What makes a proposal of it.
    since
        When it was first looked at (s).
    number
        Of the event of a scenario that asks for it.
    """

    identity: str | None
    proposal: Proposing
    since: float | None = None
    number: int | None = None

    def patient(self, now: float) -> bool:
        """Whether it may be asked again later."""
        return self.since is None or now - self.since < PATIENCE

    def waits_for(self, applied: Applied, now: float) -> bool:
        """Whether it is to be asked again, as what it was refused for is over soon."""
        return self.patient(now) and any(each.soon for each in applied.refused)


@attrs.frozen(eq=False)
class Turned:
    """What came of one turn.

    Attributes
    ----------
    state, seen, flow
        From now on; what was seen, and its network laid out.
    answers, decided
        To what was asked for, and whether anything was decided.
    later
        What was asked for and cannot be decided yet.
    """

    state: State
    seen: Observation
    flow: Flow
    answers: Mapping[str, Document]
    decided: bool
    later: tuple[Asked, ...] = ()


def answered(
    now: Situation, asked: Sequence[Asked]
) -> tuple[list[tuple[Asked, Proposal]], dict[str, PenstockError], tuple[Asked, ...]]:
    """Return the proposals that were asked for, why others cannot be made, and what is to be asked again.

    What comes after one that attaches or moves something is asked again at the next look, which sees that.
    """
    wanted: list[tuple[Asked, Proposal]] = []
    refused: dict[str, PenstockError] = {}
    later: list[Asked] = []
    for number, each in enumerate(asked):
        each = attrs.evolve(each, since=now.now if each.since is None else each.since)
        try:
            found = each.proposal(now)
            if found.plan.placement and not found.drain and not trimmed(now, found.plan).placement:
                why = "as many operators move already as may at a time"
                raise Infeasible(why) if found.dry else NotReady(why)
        except (InputError, Infeasible, NotReady) as error:
            if isinstance(error, NotReady) and each.patient(now.now):
                later.append(each)
            elif each.identity is None:
                reason = Proposal(policy="admit", plan=Plan(), why=f"refused: {error}", asked=True)
                wanted.append((each, reason))
            else:
                refused[each.identity] = error
            continue
        wanted.append((each, found))
        if _changing(found):
            return wanted, refused, (*later, *asked[number + 1 :])
    return wanted, refused, tuple(later)


def _changing(found: Proposal) -> bool:
    """Whether what somebody asks for changes where operators run, or may."""
    return not found.dry and (not found.plan.empty or bool(found.drain))


def chosen(
    now: Situation, policies: Sequence[Policy], rng: np.random.Generator, asked: Sequence[Proposal] = ()
) -> list[Proposal]:
    """Return what is done: everything that is needed, and what would be nice only where nothing is needed or moving.

    Two proposals never change the same thing: the earlier policy's counts, and before it what was ``asked`` for. Only
    what starts operators of dead hosts again does not wait for somebody who moves others.
    """
    every = [found for policy in policies if (found := policy(now, rng)) is not None]
    hard = [found for found in every if found.hard]
    busy = bool(now.seen.moving) or any(found.plan.placement for found in (*asked, *hard))
    soft = [found for found in every if not found.hard and not (busy and found.plan.placement)]
    done: list[Proposal] = []
    for found in (*hard, *soft):
        if not any(_clash(found, other) for other in done) and not any(_waits(now, found, other) for other in asked):
            done.append(found)
    return done


def _waits(now: Situation, found: Proposal, asked: Proposal) -> bool:
    """Whether what a policy wants is to wait a look because of what somebody asks for."""
    standing = all(now.seen.placement.get(name) in now.seen.down for name in found.plan.placement)
    mine, theirs = ({base_name(name) for name in each.plan.placement} for each in (found, asked))
    return _leaving(found, asked) if standing and mine.isdisjoint(theirs) else _clash(found, asked)


def _clash(one: Proposal, other: Proposal) -> bool:
    """Whether two are about the same.

    That is keep fractions, where operators run, a host that joins or that one of them lets go, a source's limit, or a
    host's trigger.
    """
    shed = all(each.plan.keep is not None or each.plan.tables is not None for each in (one, other))
    named = bool(_named(one.plan) & _named(other.plan))
    return shed or named or bool(one.plan.placement and other.plan.placement) or _leaving(one, other)


def _named(plan: Plan) -> set[tuple[str, str]]:
    """Return the hosts that a plan lets join, and the sources and hosts whose limits and triggers it changes."""
    joining = [host.name for host in plan.add]
    kinds = (("add", joining), ("limit", plan.limits), ("trigger", plan.triggers))
    return {(kind, name) for kind, names in kinds for name in names}


def _leaving(one: Proposal, other: Proposal) -> bool:
    """Whether one of two lets a host go that the other one lets go or wants to be there."""
    return bool(_left(one) & (_left(other) | _used(other)) or _left(other) & _used(one))


def _left(found: Proposal) -> set[str]:
    """Return the hosts that a proposal lets go."""
    return {*found.plan.retire, *found.drain}


def _used(found: Proposal) -> set[str]:
    """Return the hosts that a proposal wants to be there."""
    return {*found.plan.placement.values(), *(host.name for host in found.plan.add)}


def trimmed(now: Situation, plan: Plan) -> Plan:
    """Return a plan with no more moves than may be under way; those off dead hosts are not counted."""
    fresh = {} if plan.network is None else {n for n in plan.network.operators if n not in now.network.operators}
    room = now.goals.moves - now.moving(now.seen.moving)
    placement: dict[str, str] = {}
    counted: list[str] = []
    for name, host in now.together(plan.placement).items():
        free = base_name(name) in fresh or now.seen.placement.get(name) in now.seen.down
        if free or now.moving([*counted, name]) <= room:
            placement[name] = host
            counted += [] if free else [name]
    return attrs.evolve(plan, placement=placement)


def advised(state: State, found: Proposal, plan: Plan, idle: bool, now: Situation) -> tuple[State, bool]:
    """Return the state that remembers an advice, and whether it is told: not where it was a short time ago.

    What is not applied, or refused, would be advised again at every look. What changes nothing only says something,
    which is told once as long as it is so.
    """
    if not idle:
        return state, True
    text = json.dumps({**plan_document(plan), "network": None}, sort_keys=True)
    shape = {"placement": sorted(plan.placement), "keep": plan.keep is not None, "tables": plan.tables is not None}
    what = found.why if plan.empty else text if plan.placement else json.dumps(shape)
    name = hashlib.sha256(what.encode()).hexdigest()[:12]
    # Of two that are as good, now one is found and now the other.
    given = state.advised.get(found.policy, {})
    late = {known: at for known, at in given.items() if now.now - at < 3 * now.goals.cool_down}
    if name in late and not plan.empty:
        return state, False
    return attrs.evolve(state, advised={**state.advised, found.policy: {**late, name: now.now}}), name not in late
