"""The loop: what policies decide on a running network, what is written down, and how it goes on after a kill."""

from __future__ import annotations

import json

import attrs
import numpy as np
import pytest
from engines import APART, TOGETHER, simulated, stepped, two_queries
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster, Host
from penstock.control.controller import Controller, drained, moved
from penstock.control.flow import Flow
from penstock.control.folder import Folder
from penstock.control.goals import Goals
from penstock.control.knowledge import Knowledge
from penstock.control.loop import Asked, Control
from penstock.control.policies import POLICIES, policies
from penstock.control.policies.alone import Alone
from penstock.control.policies.base import Proposal
from penstock.control.scenario import Happening
from penstock.control.situation import Situation
from penstock.control.state import State, plan_document, read_plan
from penstock.control.verify import wrong
from penstock.errors import InputError
from penstock.load import load_model
from penstock.network import Network, Operator, Sink, Source
from penstock.network.shapes import chains
from penstock.steering import Admit, Kill, Plan, Recover, Slow
from penstock.workload import Rates


def controlled(tmp_path, rates, placement, policy, *, act=True, network=None, scenario=(), goals=None, hosts=2, **more):
    """Run a controller on the simulator to the end; return its report and its history."""
    network = network or two_queries()
    folder = Folder(tmp_path / "run")
    controller = Controller(
        engine=simulated(network, placement, rates, hosts),
        control=Control(
            policies=policies(policy), goals=goals or Goals(), act=act, journaled=True, **more
        ),
        folder=folder, scenario=tuple(scenario), until=rates.duration,
    )  # fmt: skip
    with folder.held():
        return controller.run(), folder.history()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_flow_is_the_load_model(seed):
    """Loads and rates laid out in numpy are those of the load model, for chains, joins of both kinds and routes."""
    rng = np.random.default_rng(seed)
    sources = [Source(name=f"s{k}") for k in range(2)]
    made, operators = ["s0", "s1"], []
    for k in range(int(rng.integers(1, 9))):
        kind = str(rng.choice(["map", "union", "timed", "counted"]))
        inputs = tuple(rng.choice(made, 1 if kind == "map" or len(made) < 2 else 2, replace=False).tolist())
        kind = "map" if len(inputs) == 1 else kind
        more = {"timed": {"within": 0.2}, "counted": {"counts": (3, 5)}}.get(kind, {})
        operators.append(
            Operator(
                name=f"o{k}", kind="join" if more else kind, inputs=inputs,
                cost=tuple(rng.uniform(1e-4, 1e-2, len(inputs)).tolist()),
                selectivity=tuple(rng.uniform(0.1, 1.0, len(inputs)).tolist()) if kind != "timed" else (0.01, 0.01),
                **more,
            )
        )  # fmt: skip
        made.append(f"o{k}")
    network = Network.of("n", sources, operators, [Sink(name="t", input=made[-1])])
    rates = Rates.of(1.0, {s.name: rng.uniform(0, 50, 4) for s in sources})
    flow = Flow.of(network)
    load, arrivals, _ = flow.run(rates.values, *flow.given)
    model = load_model(network, rates)
    assert load == pytest.approx(model.load)
    for row, stream in enumerate(flow.stream):
        assert arrivals[row] == pytest.approx(model.arrivals[stream])


def test_knowledge_finds_the_true_costs():
    """Costs and selectivities that the network states wrongly are known from what is seen, and rates from the looks."""
    true = chains([[0.004, 0.002]], [[0.5, 1.0]])
    said = chains([[0.1, 0.1]], [[1.0, 1.0]])
    engine = simulated(true, dict.fromkeys(true.operators, "h1"), Rates.constant({"s1": 40.0}, 20.0))
    known = Knowledge()
    for k in range(10):
        engine.wait(k + 1.0)
        known = known.updated(engine.observe(), said)
    cost, selectivity = known.costs(Flow.of(said))
    assert cost == pytest.approx([0.004, 0.002], rel=0.02)
    assert selectivity == pytest.approx([0.5, 1.0], rel=0.05)
    assert known.series(said) == pytest.approx(np.full((1, 10), 40.0), abs=1)
    assert Knowledge.read(json.loads(json.dumps(known.document()))).costs(Flow.of(said))[0] == pytest.approx(cost)


def test_work_of_a_unit_is_divided():
    """What is known only of a unit as a whole, in benchmark-core seconds on any host, is shared as costs say."""
    from penstock.steering import UnitSeen

    network, cluster = chains([[0.004, 0.002]], [[1.0, 1.0]]), Cluster.of([Host(name="h1", capacity=3.0)])
    engine = simulated(network, dict.fromkeys(network.operators, "h1"), Rates.constant({"s1": 40.0}, 20.0), cluster)
    engine.wait(5.0)
    seen = engine.observe()
    names = tuple(network.operators)
    unit = UnitSeen(name="u", operators=names, host="h1", work=2 * float(seen.work.sum()))
    known = Knowledge().updated(attrs.evolve(seen, work=np.full(2, np.nan), units=(unit,)), network)
    assert known.costs(Flow.of(network))[0] == pytest.approx([0.008, 0.004], rel=0.02)


def test_dry_run_changes_nothing_and_says_what_it_would(tmp_path):
    """Without acting, placement and counts are those of the run alone, and the advice is given once, not every look."""
    rates = stepped((10, 60.0), (30, 160.0))
    report, lines = controlled(tmp_path, rates, TOGETHER, "rebalance", act=False)
    assert report["placement"] == TOGETHER
    assert report["moves"] == []
    assert 1 <= len(lines) <= 3
    assert all(not line["acted"] and line["decided"]["moves"] for line in lines)


def test_advice_that_alternates_is_given_once_each():
    """Of two plans that are as good and found in turn, each is told once within half a minute."""
    engine, state = simulated(two_queries(), TOGETHER, stepped((40, 60.0))), State()
    turns = iter(["dear1", "dear2"] * 40)

    def policy(now, rng):
        return Proposal(policy="either", plan=Plan(placement={next(turns): "h2"}), why="it could move")

    for look in range(1, 40):
        engine.wait(float(look))
        state = Control(policies=(policy,)).turn(engine, state, None).state
        state = State.read(json.loads(json.dumps(state.document())))
    assert [line["time"] for line in (each.line for each in state.open)] == [1.0, 2.0, 31.0, 32.0]


def test_rebalance_halves_the_worst_latency_and_rests_after_the_drift(tmp_path):
    """Under a drift the worst latency is at most half of the unmanaged run's, and then nothing moves for 60 s."""
    rates = Rates.of(1.0, {s: [min(150.0, 50.0 + 2.5 * t) for t in range(140)] for s in ("s1", "s2")})
    alone, _ = controlled(tmp_path / "alone", rates, TOGETHER, "rebalance", act=False)
    managed, lines = controlled(tmp_path / "managed", rates, TOGETHER, "rebalance")
    assert managed["latency"]["max"] <= alone["latency"]["max"] / 2
    assert managed["balanced"]
    assert managed["moves"]
    assert max(move["time"] for move in managed["moves"]) <= 140 - 60
    assert all(line["came"]["moved"] == len(line["decided"]["moves"]) for line in lines)


def test_dead_host_is_failed_over(tmp_path):
    """What ran on a host that died runs on others a look later, and every query ends alive."""
    scenario = [Happening(10.0, Kill("h2")), Happening(25.0, Recover("h2"))]
    report, lines = controlled(tmp_path, stepped((40, 60.0)), APART, "replicate", scenario=scenario)
    assert lines[0]["policy"] == "replicate"
    assert lines[0]["time"] == 11.0
    assert set(report["placement"].values()) == {"h1"}
    assert report["balanced"]
    assert report["streams"]["dear2->t2"]["delivered"] > 60 * 35


def test_host_that_comes_back_is_used(tmp_path):
    """What had to leave a dead host and is too much for the others goes where there is room, once there is again."""
    scenario = [Happening(10.0, Kill("h2")), Happening(25.0, Recover("h2"))]
    report, lines = controlled(tmp_path, stepped((50, 150.0)), APART, "replicate,rebalance", scenario=scenario)
    back = [line for line in lines if line["policy"] == "rebalance"]
    assert 25 < back[0]["time"] <= 30
    assert set(report["placement"].values()) == {"h1", "h2"}
    assert report["balanced"]


def test_copies_lose_nothing_when_a_host_dies(tmp_path):
    """With replicas a host's death loses no result, and its copies start elsewhere, never two on one host."""
    network = two_queries()
    placement = {**TOGETHER, **{f"{name}#2": "h2" for name in network.operators}}
    report, lines = controlled(
        tmp_path, stepped((30, 40.0)), placement, "replicate", scenario=[Happening(10.0, Kill("h2"))], hosts=3
    )
    assert {n: report["placement"][n] for n in placement if "#" in n} == {n: "h3" for n in placement if "#" in n}
    assert report["streams"]["dear1->t1"]["delivered"] == 1200
    assert lines[0]["expected"]["single"] == 0


@pytest.mark.parametrize("hosts", [Cluster.uniform(2), Cluster.uniform(2).crowded(("h1", "h2"), 1)])
def test_asked_query_is_attached_or_refused(tmp_path, hosts):
    """A query of a scenario is attached where the bound holds, and refused with the reason where it does not.

    Hosts that share a machine's cores change nothing of that.
    """

    def query(name, cost):
        return Network.of(
            name, [Source(name="s1")],
            [Operator(name=name, kind="map", inputs=("s1",), cost=(cost,), selectivity=(1.0,))],
            [Sink(name=f"{name}-out", input=name)],
        )  # fmt: skip

    scenario = [Happening(10.0, Admit(query("small", 0.002))), Happening(20.0, Admit(query("large", 0.5)))]
    report, lines = controlled(tmp_path, stepped((40, 60.0)), APART, "", scenario=scenario, act=False, hosts=hosts)
    assert [line["acted"] for line in lines] == [True, False]
    assert "refused" in lines[1]["why"]
    assert report["streams"]["small->small-out"]["delivered"] == pytest.approx(60 * 30, abs=2)
    assert "large" not in report["placement"]


@pytest.mark.parametrize("act", [True, False])
@pytest.mark.parametrize("request_of", [moved, drained])
def test_what_is_asked_dry_is_answered_and_not_done(act, request_of):
    """Who asks what a move or a drain would do is told, each time, and nothing moves."""
    engine = simulated(two_queries(), TOGETHER, stepped((60, 50.0)))
    control, state, flow = Control(policies=policies(""), act=act), State(), None
    given = {"operator": "dear1", "host": "h2" if request_of is moved else "h1"}
    for look in range(1, 5):
        engine.wait(float(look))
        dry = Asked("me", request_of({**given, "dry": True}))
        turned = control.turn(engine, state, flow, [dry] if look > 1 else [])
        state, flow = turned.state, turned.flow
        if look > 1:
            assert turned.answers["me"]["done"] is False
            assert {"operator": "dear1", "from": "h1", "to": "h2"} in turned.answers["me"]["decided"]["moves"]
    assert set(engine.report()["placement"].values()) == {"h1"}
    engine.wait(5.0)
    control.turn(engine, state, flow, [Asked("me", request_of(given))])
    engine.wait(10.0)
    assert engine.report()["placement"]["dear1"] == "h2"


def test_a_query_asked_for_while_a_host_is_down_waits(tmp_path):
    """What is asked for before a dead host's operators run elsewhere is decided when they do, and refused if never."""
    new = Network.of(
        "new", [Source(name="s1")],
        [Operator(name="new", kind="map", inputs=("s1",), cost=(0.001,), selectivity=(1.0,))],
        [Sink(name="new-out", input="new")],
    )  # fmt: skip
    scenario = [Happening(10.0, Kill("h2")), Happening(10.5, Admit(new))]
    _, lines = controlled(tmp_path / "helped", stepped((40, 30.0)), APART, "replicate", scenario=scenario)
    assert [(line["policy"], line["acted"]) for line in lines] == [("replicate", True), ("admit", True)]
    assert lines[0]["time"] < lines[1]["time"] < 15
    _, lines = controlled(tmp_path / "alone", stepped((40, 30.0)), APART, "", scenario=scenario)
    assert [(line["policy"], line["acted"]) for line in lines] == [("admit", False)]
    assert "down" in lines[0]["why"]
    assert lines[0]["time"] == pytest.approx(31.0, abs=1.0)


def test_slow_host_gives_work_away(tmp_path):
    """A host that becomes slow is seen to be slow, not its operators to be dear, and gives some of them away."""
    scenario = [Happening(10.0, Slow("h1", 0.4))]
    report, lines = controlled(tmp_path, stepped((60, 70.0)), TOGETHER, "rebalance", scenario=scenario)
    assert lines
    assert lines[0]["decided"]["moves"][0]["to"] == "h2"
    assert report["latency"]["max"] < 10


def test_spare_host_joins_and_leaves(tmp_path):
    """A spare host is added when all have too much to do, gets work, and is retired after the burst."""
    rates = stepped((10, 60.0), (60, 190.0), (130, 40.0))
    goals = Goals(spare=(Host(name="h3"),), rest=20.0)
    report, lines = controlled(
        tmp_path, rates, {"cheap1": "h1", "dear1": "h1", "cheap2": "h1", "dear2": "h1"},
        "provision,rebalance", goals=goals, hosts=1,
    )  # fmt: skip
    kinds = [key for line in lines for key in line["decided"] if key in ("add", "retire")]
    assert kinds == ["add", "retire"]
    assert any(move["to"] == "h3" for move in report["moves"])
    assert set(report["placement"].values()) == {"h1"}


def test_cheapest_says_what_each_course_costs(tmp_path):
    """In a burst the cheapest course is taken, and the line prices every other one too."""
    rates = stepped((10, 60.0), (40, 160.0))
    report, lines = controlled(tmp_path, rates, TOGETHER, "cheapest")
    assert lines[0]["expected"]["price"] < lines[0]["expected"]["otherwise_price"]
    assert "defer" in lines[0]["why"]
    assert report["moves"]


def test_throttle_finds_a_trigger_that_keeps_up():
    """A trigger too short for overhead and load is lengthened to what keeps up, and no further."""
    from penstock.simulation import MicroBatch

    engine = simulated(two_queries(), APART, stepped((40, 150.0)), microbatch=MicroBatch(trigger=0.2, overhead=0.15))
    control = Control(policies=policies("throttle"), act=True)
    state, flow = State(), None
    for k in range(20):
        engine.wait(k + 1.0)
        turned = control.turn(engine, state, flow)
        state, flow = turned.state, turned.flow
    assert turned.seen.triggers["h1"] == pytest.approx(1.25 * 0.15 / (1 - 0.66), rel=0.1)


def longest_batch(policy, network, rates):
    """Return the longest batch of the first host (s) in a run that a policy steers, and the run's report."""
    from penstock.simulation import MicroBatch

    rows = []
    engine = simulated(
        network, APART, rates, trace=lambda part: rows.append(part.copy()), drain=True,
        microbatch=MicroBatch(trigger=1.0, overhead=0.1),
    )  # fmt: skip
    control = Control(policies=policies(policy), act=True)
    state, flow, limited = State(), None, 0
    while engine.wait(engine.now + 1.0):
        turned = control.turn(engine, state, flow)
        state, flow = turned.state, turned.flow
        limited += bool(turned.seen.limits)
    assert bool(limited) == (policy == "throttle")
    assert not turned.seen.limits
    report = engine.report()
    trace = np.concatenate(rows)
    ends = np.unique(trace["egress"][trace["sink"] == 0])
    return float(np.diff(ends).max()), report


def test_throttle_keeps_batches_short_in_a_burst():
    """What a burst leaves is read in parts: no batch takes longer than the bound, and every tuple arrives."""
    network, rates = two_queries(), stepped((10, 100.0), (10, 600.0), (60, 50.0))
    without, _ = longest_batch("rebalance", network, rates)
    longest, report = longest_batch("throttle", network, rates)
    assert without > 8.0
    assert longest < 5.0
    for q in (1, 2):
        assert report["streams"][f"dear{q}->t{q}"]["delivered"] == 10_000
    assert report["balanced"]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_policies_are_quiet_where_all_is_well(policy):
    """No policy changes anything in a network that is well, and each is a pure function of the situation."""
    engine = simulated(two_queries(), APART, stepped((40, 60.0)))
    known, flow = Knowledge(), Flow.of(two_queries())
    for k in range(5):
        engine.wait(k + 1.0)
        seen = engine.observe()
        known = known.updated(seen, seen.network)
    now = Situation(seen=seen, known=known, flow=flow, goals=Goals())
    if policy == "d-fit":  # all is well where hosts have their tables
        tables = Alone()(now, np.random.default_rng(0)).plan.tables
        now = attrs.evolve(now, seen=attrs.evolve(seen, tables={host: row["id"] for host, row in tables.items()}))
    assert POLICIES[policy]()(now, np.random.default_rng(0)) is None


def test_verifier_refuses_what_no_plan_may_do():
    """Strangers, dead hosts, broken pins, two copies on a host, too many moves and overload are each named."""
    network = two_queries()
    pinned = Network.of(
        "two", network.sources.values(),
        [attrs.evolve(o, pin="h1") if o.name == "cheap1" else o for o in network.operators.values()],
        network.sinks.values(),
    )  # fmt: skip
    engine = simulated(pinned, {**APART, "dear2#2": "h1"}, stepped((20, 200.0)), 3)
    engine.happen(Kill("h3"))
    known = Knowledge()
    for k in range(4):
        engine.wait(k + 1.0)
        seen = engine.observe()
        known = known.updated(seen, seen.network)
    now = Situation(seen=seen, known=known, flow=Flow.of(pinned), goals=Goals(moves=2))
    for plan, words in (
        (Plan(placement={"nobody": "h1"}), "no operator"),
        (Plan(placement={"dear1": "h9"}), "no host"),
        (Plan(placement={"dear1": "h3"}), "down"),
        (Plan(placement={"cheap1": "h2"}), "pinned"),
        (Plan(placement={"dear2": "h1"}), "copies"),
        (Plan(placement={"dear1": "h2", "cheap2": "h1", "dear2#2": "h1"}), "moves"),
        (Plan(placement={"dear1": "h2"}), "work off"),
        (Plan(keep={"a->b": 0.5}), "no stream"),
        (Plan(keep={"s1->cheap1": 1.5}), "expected 0..1"),
    ):
        assert any(words in fault for fault in wrong(now, plan)), plan
    assert wrong(now, Plan(keep={"s1->cheap1": 0.5})) == ()
    deaf = attrs.evolve(now, seen=attrs.evolve(now.seen, silent=frozenset({"h2"})))
    assert "'h2' does not answer" in wrong(deaf, Plan(placement={"dear1": "h2"}))
    assert wrong(deaf, Plan(placement={"dear2": "h2"})) == ()  # it is there


def test_no_plan_fills_a_host_with_state() -> None:
    """A move that brings more state together than a host can hold is refused; one that fits is not."""
    operators = [attrs.evolve(o, state=3e6) for o in two_queries().operators.values()]
    graph = Network.of("two", two_queries().sources.values(), operators, two_queries().sinks.values())
    engine = simulated(graph, APART, stepped((20, 20.0)), 3)
    engine.wait(1.0)
    seen = engine.observe()
    hosts = {name: attrs.evolve(host, memory=7e6) for name, host in seen.cluster.hosts.items()}
    seen = attrs.evolve(seen, cluster=attrs.evolve(seen.cluster, hosts=hosts))
    now = Situation(seen=seen, known=Knowledge().updated(seen, graph), flow=Flow.of(graph), goals=Goals(moves=4))
    there = [name for name, host in APART.items() if host == "h1"]
    assert len(there) == 2
    other = next(name for name, host in APART.items() if host == "h2")
    assert any("memory" in fault for fault in wrong(now, Plan(placement={other: "h1"})))
    assert wrong(now, Plan(placement={other: "h3"})) == ()


def test_plans_survive_being_written():
    """A plan written to the state file and read again is the same plan, with its network and hosts."""
    plan = Plan(
        placement={"a": "h1"}, keep={"a->b": 0.5}, limits={"s": None}, triggers={"h1": 2.0}, network=two_queries(),
        add=(Host(name="h3", capacity=2.0),), retire=("h2",),
    )  # fmt: skip
    again = read_plan(json.loads(json.dumps(plan_document(plan))))
    assert plan_document(again) == plan_document(plan)
    assert dict(again.network.operators) == dict(two_queries().operators)
    assert again.add == plan.add


class Killed(Exception):
    """The controller dies."""


def test_killed_controller_goes_on_as_if_nothing_had_been(tmp_path):
    """A controller killed at any look and started again ends with the report and history of one that was not."""
    rates = stepped((10, 60.0), (30, 160.0), (20, 60.0))
    scenario = (Happening(15.0, Kill("h2")), Happening(25.0, Recover("h2")), Happening(30.0, Slow("h1", 0.8)))

    def make(name, die_at=None):
        folder = Folder(tmp_path / name)

        def tell(_what, share):
            if die_at is not None and share * rates.duration >= die_at:
                raise Killed

        return folder, Controller(
            engine=simulated(two_queries(), APART, rates),
            control=Control(policies=policies("replicate,shed,rebalance"), act=True, journaled=True),
            folder=folder, scenario=scenario, until=rates.duration, tell=tell,
        )  # fmt: skip

    folder, whole = make("whole")
    with folder.held():
        report, lines = whole.run(), folder.history()
    assert lines
    for die_at in (12, 16, 33):
        folder, dies = make("killed", die_at)
        with pytest.raises(Killed), folder.held():
            dies.run()
        assert make("killed")[0].read()["over"] is False
    folder, again = make("killed")
    with folder.held():
        assert again.run() == report
    assert folder.history() == lines


def test_state_of_another_run_is_not_gone_on_with(tmp_path):
    """A folder whose controller was killed refuses other options, and says which differ."""
    rates = stepped((10, 60.0))

    def go(identity, tell=None):
        folder = Folder(tmp_path / "run")
        controller = Controller(
            engine=simulated(two_queries(), APART, rates),
            control=Control(policies=(), journaled=True), folder=folder, until=10.0, identity=identity, tell=tell,
        )  # fmt: skip
        with folder.held():
            controller.run()

    def die(_what, _share):
        raise Killed

    with pytest.raises(Killed):
        go({"rates": "a"}, die)
    with pytest.raises(InputError, match="other rates"):
        go({"rates": "b"})
    go({"rates": "a"})
    go({"rates": "b"})
