"""What people ask of a controller: one thing after the other, each decided from what the one before has left."""

from __future__ import annotations

import attrs
import pytest
from engines import APART, stepped, two_queries

from penstock.cluster import Cluster, Host
from penstock.control.controller import drained, moved
from penstock.control.flow import Flow
from penstock.control.goals import Goals
from penstock.control.loop import PATIENCE, Asked, Control, Proposing, trimmed
from penstock.control.policies.admit import admit
from penstock.control.policies.base import Proposal, evacuated
from penstock.control.policies.rebalance import Rebalance
from penstock.control.situation import Situation
from penstock.control.state import State
from penstock.control.verify import wrong
from penstock.files import Document
from penstock.network import Network, Operator, Sink, Source
from penstock.simulation import Options, SimulationEngine
from penstock.steering import Admit, Applied, Kill, Plan, Refused
from penstock.steering.plan import changes

RATES = stepped((60, 50.0))


def query(name: str, cost: float = 0.002) -> Proposing:
    """Return what asks for a query of one operator."""
    reads = Operator(name=name, kind="map", inputs=("s1",), cost=(cost,), selectivity=(1.0,))
    network = Network.of(name, [Source(name="s1", format="nexmark")], [reads], [Sink(name=f"{name}-out", input=name)])
    return lambda now: admit(now, Admit(network))


def move(operator: str, host: str, **more: object) -> Proposing:
    """Return what asks for a move."""
    return moved({"operator": operator, "host": host, **more})


class Looking:
    """A controller that is asked for things, look by look."""

    def __init__(self, engine, control: Control) -> None:
        self.engine, self.control = engine, control
        self.state, self.flow, self.later = State(), None, ()
        self.answers: dict[str, tuple[float, Document]] = {}
        self.seen = None

    def until(self, end: float, *asked: Proposing) -> None:
        """Look each second until a time; what is asked for is numbered in its order."""
        wanted = [Asked(str(number), each) for number, each in enumerate(asked, 1)]
        while self.engine.now < end:
            self.engine.wait(self.engine.now + 1.0)
            turned = self.control.turn(self.engine, self.state, self.flow, (*self.later, *wanted))
            self.state, self.flow, self.later, self.seen = turned.state, turned.flow, turned.later, turned.seen
            self.answers |= {name: (turned.seen.at, answer) for name, answer in turned.answers.items()}
            wanted = []


def looking(policies=(), moves: int = 4, move_time: float = 0.2, hosts: int = 3, **more) -> Looking:
    """Return a controller that has looked five times."""
    engine = SimulationEngine(two_queries(), Cluster.uniform(hosts), APART, RATES, Options(move_time=move_time))
    found = Looking(engine, Control(policies=policies, act=True, goals=Goals(moves=moves), **more))
    found.until(5.0)
    return found


def test_queries_that_are_asked_for_at_once_are_attached_one_after_the_other() -> None:
    """Of two queries between two looks both are attached, the second one into what room the first has left."""
    run = looking()
    run.until(10.0, query("a"), query("b"))
    assert [(at, answer["done"]) for at, answer in run.answers.values()] == [(6.0, True), (7.0, True)]
    assert {"a", "b"} <= run.seen.placement.keys()
    run.until(14.0, query("large", 0.0158), query("large-too", 0.0158))
    assert [(at, answer["done"]) for at, answer in run.answers.values()] == [(11.0, True), (12.0, False)]
    assert "most room is on" in run.answers["2"][1]["why"]


def test_no_more_moves_are_begun_than_may_be_under_way() -> None:
    """However many moves are asked for at once, they begin as others end, and all that can be made are made."""
    run, most = looking(moves=1, move_time=2.5), 0
    run.until(6.0, *(move(name, "h3") for name in ("cheap1", "dear1", "cheap2")))
    while run.engine.now < 20.0:
        run.until(run.engine.now + 1.0)
        most = max(most, len(run.seen.moving))
    assert most == 1
    assert all(answer["done"] for _, answer in run.answers.values())
    assert len({at for at, _ in run.answers.values()}) == 3
    assert [run.seen.placement[name] for name in ("cheap1", "dear1", "cheap2")] == ["h3"] * 3


def test_move_that_never_may_begin_is_refused_with_the_reason() -> None:
    """Who asks for a move while as many as may are under way for long is told so, and not what was asked."""
    run = looking(moves=1, move_time=40.0)
    run.until(6.0, move("cheap1", "h3"))
    run.until(35.0, move("dear1", "h3"))
    at, answer = run.answers["1"]
    assert at >= 7.0 + PATIENCE
    assert not answer["done"]
    assert "as many operators move" in answer["why"]


@pytest.mark.parametrize("given", [move("dear1", "h3"), query("a"), drained({"host": "h2"})])
def test_what_policies_would_move_waits_for_what_somebody_asks_for(given: Proposing) -> None:
    """In a look in which somebody moves or attaches something no policy moves anything else; in the next it may."""

    def nice(now: Situation, _rng: object) -> Proposal | None:
        there = now.seen.placement["cheap1"] == "h2"
        return None if there else Proposal(policy="rebalance", plan=Plan(placement={"cheap1": "h2"}), why="it could")

    run = looking()
    run.control = attrs.evolve(run.control, policies=(nice,))
    run.until(6.0, given)
    assert next(line["policy"] for line in (each.line for each in run.state.open)) in {"move", "admit", "drain"}
    assert len(run.state.open) == 1
    run.until(9.0)
    assert any(line["policy"] == "rebalance" for line in (each.line for each in run.state.open)) == (
        "h2" not in run.state.draining
    )


def test_a_move_has_come_about_where_it_was_seen_to() -> None:
    """A move counts once its operator works where it was to go, however long that takes and wherever it goes later."""
    slow = looking(move_time=15.0, window=5.0)
    first = slow.engine.observe().placement
    name = min(first)
    there = next(host for host in ("h1", "h2", "h3") if host != first[name])
    slow.until(6.0, move(name, there))
    (line, *_), opened = [each.line for each in slow.state.open], slow.state.open[0]
    assert opened.moves[name] == there
    assert line["expected"]["pause"] == slow.control.goals.pause
    while slow.engine.now < 40.0:
        opened = opened.after(slow.seen)
        if slow.seen.at < 21.0:
            assert not opened.settled(slow.seen, 5.0)
            assert opened.came(slow.seen)["came"]["moved"] == 0
        slow.until(slow.engine.now + 1.0)
    assert opened.settled(slow.seen, 5.0)
    away = attrs.evolve(slow.seen, placement=first)
    assert opened.after(away).came(away)["came"]["moved"] == len(opened.moves)


def test_dead_hosts_are_failed_over_whatever_else_is_asked_for() -> None:
    """What stands still starts elsewhere in the same look in which somebody moves another operator."""

    def over(now: Situation, _rng: object) -> Proposal | None:
        moves = evacuated(now, now.seen.down)
        return Proposal(policy="replicate", plan=Plan(placement=moves), why="dead") if moves else None

    run = looking((over,))
    run.engine.happen(Kill("h2"))
    run.until(6.0, move("dear1", "h3"))
    assert {(line["policy"], line["acted"]) for line in (each.line for each in run.state.open)} == {
        ("move", True),
        ("replicate", True),
    }


def test_what_is_only_refused_for_now_is_asked_again() -> None:
    """Where an engine says that what is asked for may soon be made, it is asked again until it is."""
    run = looking()

    class Growing:
        engine: SimulationEngine

        def __getattr__(self, name):
            return getattr(self.engine, name)

        def apply(self, plan: Plan) -> Applied:
            if self.now < 9.0:
                change = changes(plan, two_queries())[0]
                return Applied(self.now, (), (Refused(change, "another one grows", soon=True),))
            return self.engine.apply(plan)

    growing = Growing()
    growing.engine = run.engine
    run.engine = growing
    run.until(12.0, query("a"), move("dear2", "h3"))
    assert {name: (at, answer["done"]) for name, (at, answer) in run.answers.items()} == {
        "1": (9.0, True),
        "2": (10.0, True),
    }


def test_question_about_a_move_that_may_not_begin_now_is_answered_at_once() -> None:
    """Who only asks what a move would do is told in the same look that as many as may are under way."""
    run = looking(moves=1, move_time=5.0)
    run.until(6.0, move("cheap1", "h3"))
    run.until(7.0, move("dear1", "h3", dry=True))
    at, answer = run.answers["1"]
    assert at == 7.0
    assert "as many operators move" in answer["why"]


def test_what_is_asked_for_dry_keeps_nobody_waiting() -> None:
    """A question is answered in the same look as what is asked for after it."""
    run = looking((Rebalance(),))
    run.until(6.0, move("dear1", "h3", dry=True), move("dear2", "h3"))
    assert [(at, answer["done"]) for at, answer in run.answers.values()] == [(6.0, False), (6.0, True)]


def test_moves_off_dead_hosts_leave_room_for_others() -> None:
    """Of a plan stay the first moves off living hosts that there is room for, and all off dead ones between them."""
    names = [f"o{k}" for k in range(8)]
    network = Network.of(
        "many",
        [Source(name="s1", format="nexmark")],
        [Operator(name=name, kind="map", inputs=("s1",), cost=(1e-4,), selectivity=(1.0,)) for name in names],
        [Sink(name=f"t-{name}", input=name) for name in names],
    )
    placement = {name: f"h{1 + k % 2}" for k, name in enumerate(names)}
    engine = SimulationEngine(network, Cluster.uniform(3), placement, stepped((9, 9.0), sources=("s1",)), Options())
    engine.happen(Kill("h2"))
    engine.wait(1.0)
    now, _ = Control(policies=(), goals=Goals(moves=2)).situation(State(), engine.observe(), Flow.of(network))
    left = trimmed(now, Plan(placement=dict.fromkeys(names, "h3"))).placement
    assert list(left) == ["o0", "o1", "o2", "o3", "o5", "o7"]


def test_each_host_without_memory_for_what_comes_is_named() -> None:
    """The state of what stays and of what comes counts together, host by host; of what leaves it does not."""
    operators = [
        Operator(name=name, kind="map", inputs=("s1",), cost=(1e-4,), selectivity=(1.0,), state=state)
        for name, state in (("a", 60.0), ("b", 50.0), ("c", 70.0), ("d", 10.0))
    ]
    sinks = [Sink(name=f"t-{each.name}", input=each.name) for each in operators]
    network = Network.of("kept", [Source(name="s1", format="nexmark")], operators, sinks)
    cluster = Cluster.of([Host(name=f"h{k}", memory=100.0) for k in (1, 2, 3)])
    placement = {"a": "h1", "b": "h2", "c": "h3", "d": "h3"}
    engine = SimulationEngine(network, cluster, placement, stepped((9, 9.0), sources=("s1",)), Options())
    engine.wait(1.0)
    now, _ = Control(policies=()).situation(State(), engine.observe(), Flow.of(network))

    def full(**moves: str) -> list[str]:
        return [each.split()[0] for each in wrong(now, Plan(placement=moves)) if "has memory for" in each]

    assert full(b="h1") == ["h1"]
    assert full(b="h3", a="h2") == ["h3"]
    assert full(b="h3", c="h2") == []
    assert full(c="h1", b="h3", d="h2") == ["h1"]
    assert full(a="h3", c="h2") == ["h2"]
    assert full(a="h3", b="h3") == ["h3"]
    assert full(a="h2", b="h3") == ["h3"]
