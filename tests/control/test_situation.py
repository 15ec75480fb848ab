"""What a moment says to policies: what hosts can work off, how many batches lie on a way, what can move alone."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from engines import APART, TOGETHER, simulated, stepped, two_queries
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import Cluster, Host
from penstock.control.flow import Flow
from penstock.control.goals import Goals
from penstock.control.knowledge import Knowledge
from penstock.control.policies import policies
from penstock.control.policies.joining import joined
from penstock.control.situation import BATCH, SHORT, Situation
from penstock.control.tables import priced
from penstock.latency.fragments import divisible
from penstock.load import load_model
from penstock.network import Network, Operator, Sink, Source
from penstock.network.model import Growth
from penstock.simulation.options import MicroBatch
from penstock.steering import HostSeen, Plan, UnitSeen
from penstock.workload import Rates

RNG = np.random.default_rng(0)


def moment(network, placement, rates, hosts=3, **options):
    """Return a moment 8 s after the start."""
    engine = simulated(network, placement, rates, hosts, **options)
    known = Knowledge()
    for at in range(1, 9):
        engine.wait(float(at))
        seen = engine.observe()
        known = known.updated(seen, network)
    return Situation(seen=seen, known=known, flow=Flow.of(network), goals=Goals())


def having(now, **seen):
    """Return a moment in which other things were seen."""
    return attrs.evolve(now, seen=attrs.evolve(now.seen, **seen))


def random_network(rng, count):
    """Return operators that read one or two of what is before them, the last ones to sinks."""
    operators, made = [], ["s0", "s1"]
    for k in range(count):
        inputs = tuple(rng.choice(made, min(len(made), int(rng.integers(1, 3))), replace=False).tolist())
        kind = "filter" if len(inputs) == 1 else "union"
        operators.append(Operator(name=f"o{k}", kind=kind, inputs=inputs, cost=(1e-3,) * len(inputs)))
        made.append(f"o{k}")
    read = {name for operator in operators for name in operator.inputs}
    sinks = [Sink(name=f"t{o.name}", input=o.name) for o in operators if o.name not in read]
    return Network.of("random", [Source(name=name) for name in ("s0", "s1") if name in read], operators, sinks)


def test_a_busy_host_works_off_what_batches_as_long_as_the_bound_allows_do():
    """Overhead counts once a batch, and batches may be as long as the latency bound allows, whatever the interval."""
    now = moment(two_queries(), TOGETHER, stepped((20, 50.0)), 2, microbatch=MicroBatch(trigger=0.5, overhead=0.3))
    longest = BATCH * now.goals.bound
    assert now.hops == 1
    assert now.usable == pytest.approx([1 - 0.3 / longest] * 2)
    slow = having(now, triggers={"h1": 6.0, "h2": 0.0})
    assert slow.usable == pytest.approx([1 - 0.3 / 6.0, 1 - 0.3 / longest])
    late = having(now, hosts={"h1": HostSeen(overhead=2.0), "h2": HostSeen(overhead=0.0)})
    assert late.usable == pytest.approx([1 - 2.0 / (SHORT * 2.0), 1.0])
    slower = having(now, hosts={"h1": HostSeen(overhead=0.9), "h2": HostSeen(overhead=0.0)})
    assert slower.usable == pytest.approx([0.5, 1.0])


def test_a_host_without_queries_has_no_more_room_for_it():
    """Batches where none was seen yet are as long as one of those of the other hosts, and nothing moves for less."""
    now = moment(two_queries(), TOGETHER, stepped((20, 50.0)), 3, microbatch=MicroBatch(trigger=0.5, overhead=0.1))
    units = tuple(
        UnitSeen(name=f"cheap{q}", operators=(f"cheap{q}", f"dear{q}"), host="h1") for q in (1, 2)
    )  # fmt: skip
    free = having(now, units=units, hosts={"h1": HostSeen(overhead=0.2), "h2": HostSeen(), "h3": HostSeen()})
    assert free.fixed == pytest.approx([0.4, 0.2, 0.2])
    longest = BATCH * now.goals.bound
    assert free.usable == pytest.approx([1 - 0.4 / longest, 1 - 0.2 / longest, 1 - 0.2 / longest])
    one = having(free, units=units[:1])
    assert one.fixed == pytest.approx([0.2] * 3)
    nobody = having(free, hosts={})
    assert nobody.fixed == pytest.approx([0.0] * 3)


def test_queries_of_a_host_share_its_cores():
    """What one batch of each query takes comes after each other on one core, and beside each other on more."""
    now = moment(two_queries(), TOGETHER, stepped((20, 50.0)), 2, microbatch=MicroBatch(trigger=0.5, overhead=0.1))
    units = tuple(
        UnitSeen(name=f"cheap{q}", operators=(f"cheap{q}", f"dear{q}"), host="h1") for q in (1, 2)
    )  # fmt: skip
    longest = BATCH * now.goals.bound
    both = having(now, units=units, hosts={"h1": HostSeen(overhead=0.2), "h2": HostSeen(overhead=0.0)})
    assert both.usable == pytest.approx([1 - 0.4 / longest, 1.0])
    wide = Cluster.of([Host(name="h1", capacity=2, cores=2), Host(name="h2")])
    assert attrs.evolve(both, seen=attrs.evolve(both.seen, cluster=wide)).usable == pytest.approx(
        [2 * (1 - 0.2 / longest), 1.0]
    )


def test_queries_in_real_time_mode_share_no_overhead():
    """Beside a query in real-time mode one that works in batches takes as long as alone, and has done as much."""
    now = moment(two_queries(), TOGETHER, stepped((20, 50.0)), 2, microbatch=MicroBatch(trigger=0.5, overhead=0.1))
    alone = UnitSeen(name="cheap1", operators=("cheap1", "dear1"), host="h1", since=0.3)
    beside = UnitSeen(name="cheap2", operators=("cheap2", "dear2"), host="h1", real_time=True)
    hosts = {"h1": HostSeen(overhead=0.2), "h2": HostSeen()}
    waits = np.full(4, 100.0)
    one, both = (having(now, units=units, hosts=hosts, waiting=waits) for units in ((alone,), (alone, beside)))
    assert one.fixed.tolist() == both.fixed.tolist() == [0.2, 0.2]
    assert both.backlog == pytest.approx(one.backlog)
    whole = having(now, units=(), hosts=hosts, waiting=waits).backlog
    assert float(whole.sum() - both.backlog.sum()) == pytest.approx(0.1)


def test_the_cluster_of_a_moment_can_do_what_its_hosts_can():
    """Hosts that work faster or more slowly than their capacity says have that room in the cluster of the moment."""
    now = moment(two_queries(), APART, stepped((20, 50.0)), 3)
    now = having(now, hosts={"h1": HostSeen(speed=2.0), "h2": HostSeen(speed=0.5)})
    assert {name: host.usable for name, host in now.cluster().hosts.items()} == {"h1": 2.0, "h2": 0.5, "h3": 1.0}
    other = now.cluster({"h1": 1.5, "h3": 0.0}).hosts
    assert [other[name].usable for name in now.hosts] == pytest.approx([1.5, 0.5, 0.0], abs=1e-8)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_hops_are_those_of_the_longest_way(seed):
    """The batches on the longest way are as many as a walk along all ways counts, by host or by query."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, int(rng.integers(1, 9)))
    placement = {name: f"h{int(rng.integers(3)) + 1}" for name in network.operators}
    now = moment(network, placement, stepped((9, 5.0), sources=tuple(network.sources)))

    def longest(place):
        def at(name):
            steps = [at(w) + (place[w] != place[name]) for w in network.operators[name].inputs if w in place]
            return max(steps, default=1)

        return max(at(name) for name in network.operators)

    assert now.hops == longest(placement)
    queries = {name: int(rng.integers(3)) for name in network.operators}
    units = tuple(
        UnitSeen(name=str(q), operators=tuple(n for n in queries if queries[n] == q), host="h1")
        for q in sorted(set(queries.values()))
    )
    assert having(now, units=units).hops == longest(queries)


def test_part_of_a_query_moves_alone():
    """Of a query that runs several chains the one that helps moves; a query that cannot be divided stays whole."""
    now = moment(two_queries(0.012), TOGETHER, stepped((20, 60.0)), 2)
    whole = UnitSeen(name="cheap1", operators=tuple(TOGETHER), host="h1")
    parts = divisible(now.network, tuple(TOGETHER))
    assert set(parts) == {("cheap1", "dear1"), ("cheap2", "dear2")}
    (rebalance,) = policies("rebalance")
    apart = rebalance(having(now, units=(attrs.evolve(whole, parts=parts),)), RNG)
    assert apart is not None
    assert dict(apart.plan.placement or {}) in ({"cheap1": "h2", "dear1": "h2"}, {"cheap2": "h2", "dear2": "h2"})
    assert rebalance(having(now, units=(whole,)), RNG) is None


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_parts_of_a_query_read_nothing_of_each_other(seed):
    """Parts are all of the query, share no stream, and cannot be divided further; state stays with the first."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, int(rng.integers(1, 10)))
    stateful = [name for name in network.operators if rng.random() < 0.2]
    operators = [
        attrs.evolve(o, kind="aggregate", window=10.0) if o.name in stateful and o.kind == "filter" else o
        for o in network.operators.values()
    ]
    network = Network.of("random", network.sources.values(), operators, network.sinks.values())
    inside = tuple(name for name in network.operators if rng.random() < 0.8)
    parts = divisible(network, inside)
    assert sorted(name for part in parts for name in part) == sorted(inside)
    home = {name: k for k, part in enumerate(parts) for name in part}
    for stream in network.streams:
        if stream.writer in home and stream.reader in home:
            assert home[stream.writer] == home[stream.reader]
    held = {home[name] for name in inside if network.operators[name].stateful}
    assert held <= {home[inside[0]]} if inside else not held
    for part in parts:
        # Without the ties of state a part is connected: walking its streams reaches all of it.
        if any(network.operators[name].stateful for name in part):
            continue
        reached, front = {part[0]}, [part[0]]
        while front:
            name = front.pop()
            near = {s.writer for s in network.streams if s.reader == name}
            near |= {s.reader for s in network.streams if s.writer == name}
            front += sorted((near & set(part)) - reached)
            reached |= near & set(part)
        assert reached == set(part)


def test_what_waits_before_its_drop_is_work_as_far_as_it_will_be_kept():
    """Tuples that wait before a drop count by the fraction that will hold, those behind it as a whole."""
    now = moment(two_queries(), APART, stepped((20, 50.0)), 2)
    keep = {"s1->cheap1": 0.2, "s2->cheap2": 0.5}
    behind = having(now, waiting=np.array([100.0, 0.0, 0.0, 40.0]), keep=keep)
    cost = {name: float(now.costs[0][k]) for k, name in enumerate(now.seen.operators)}
    first, second = 100 * (cost["cheap1"] + cost["dear1"]), 40 * cost["dear2"]
    assert behind.host_backlog(behind.where()) == pytest.approx([first, second])
    before = having(behind, undecided=frozenset({"cheap1", "dear1", "cheap2"}))
    assert before.host_backlog(before.where()) == pytest.approx([0.2 * first, second])
    assert before.host_backlog(before.where(), {}) == pytest.approx([first, second])
    assert before.host_backlog(before.where(), {"s1->cheap1": 0.7}) == pytest.approx([0.7 * first, second])


def test_what_a_running_batch_has_done_waits_no_more():
    """A batch's rows count as waiting until it ends: its time beyond the overhead is taken off its own host's work."""
    now = moment(two_queries(), {**APART, "dear1": "h2"}, stepped((20, 50.0)), 2)
    cost = {name: float(now.costs[0][k]) for k, name in enumerate(now.seen.operators)}
    busy = {"h1": HostSeen(overhead=0.2), "h2": HostSeen(overhead=0.0)}
    behind = having(now, waiting=np.array([100.0, 0.0, 0.0, 40.0]), hosts=busy)
    first, dear, second = 100 * cost["cheap1"], 100 * cost["dear1"], 40 * cost["dear2"]
    there = [first, dear + second]
    assert behind.host_backlog(behind.where()) == pytest.approx(there)
    assert behind.host_queue({}) == pytest.approx([first, second])
    part = 0.4 * first
    units = (
        UnitSeen(name="cheap1", operators=("cheap1", "cheap2"), host="h1", since=0.2 + part),
        UnitSeen(name="dear1", operators=("dear1", "dear2"), host="h2", since=1e6),
    )
    after = having(behind, units=units)
    assert after.host_queue({}) == pytest.approx([first - part, 0.0])
    assert after.host_backlog(after.where()) == pytest.approx([first - part, dear])


def test_a_host_is_fed_by_those_whose_operators_it_reads():
    """What holds at the hosts before it holds for a host that gets tuples from them, and for no other."""
    now = moment(two_queries(), {**APART, "dear1": "h2"}, stepped((20, 50.0)), 2)
    assert now.fed_by(np.array([0.7, 0.3])).tolist() == [0.0, 0.7]
    alone = moment(two_queries(), TOGETHER, stepped((20, 50.0)), 2)
    assert alone.fed_by(np.array([0.7, 0.3])).tolist() == [0.0, 0.0]


def growing(exponent=0.5):
    """Return an aggregate whose output grows with a power of its input, and what reads it."""
    sums = Operator(
        name="sums", kind="aggregate", inputs=("s",), by=("x",), window=1.0, cost=(1e-3,), selectivity=(0.1,),
        growth=Growth(exponent, 100.0),
    )  # fmt: skip
    reads = Operator(name="reads", kind="filter", inputs=("sums",), where="true", cost=(1e-2,), selectivity=(1.0,))
    return Network.of("g", [Source(name="s")], [sums, reads], [Sink(name="t", input="reads")])


def test_a_learned_selectivity_has_the_growth_in_it():
    """At the rates at which a selectivity was learned it holds as it is, and from there the output grows."""
    now = moment(growing(), {"sums": "h1", "reads": "h2"}, Rates.constant({"s": 400.0}, 20.0))
    learned = float(now.costs[1][0])
    assert learned == pytest.approx(0.1, rel=0.1)
    model = now.model()
    assert model.mean_load == pytest.approx(now.load.mean(axis=1))
    more = load_model(now.priced(), Rates.constant({"s": 1600.0}, 1.0))
    assert more.inflow("reads").mean() == pytest.approx(400 * learned * 4**0.5)
    program = priced(now.flow, *now.costs).operators["sums"]
    assert (program.selectivity, program.growth) == ((learned,), None)


def test_outputs_that_are_few_grow_from_the_rate_at_which_they_were_learned():
    """Where the rate has changed, the selectivity and the rate at which it holds are of the same looks."""
    lists = Operator(
        name="lists", kind="aggregate", inputs=("s",), by=("x",), cost=(1e-3,), selectivity=(0.01,),
        growth=Growth(0.0, 100.0),
    )  # fmt: skip
    network = Network.of("g", [Source(name="s")], [lists], [Sink(name="t", input="lists")])
    now = moment(network, {"lists": "h1"}, Rates.constant({"s": 100.0}, 8.0))
    for rate in (*[100] * 60, *[400] * 10):
        counts = {key: np.array([rate]) for key in ("entered", "served", "tried")}
        work = rate * np.array([1e-3])
        seen = attrs.evolve(now.seen, **counts, emitted=np.array([1]), work=work)
        now = attrs.evolve(now, seen=seen, known=now.known.updated(seen, network))
    for rate in (100.0, 400.0, 1600.0):
        model = load_model(now.priced(), Rates.constant({"s": rate}, 1.0))
        assert model.inflow("t").mean() == pytest.approx(1.0, rel=0.15)  # the given one counts a little


def test_a_given_selectivity_keeps_its_growth():
    """Where nothing was learned of late, an output grows as the network says; without input nobody knows from where."""
    now = moment(growing(), {"sums": "h1", "reads": "h2"}, Rates.constant({"s": 400.0}, 20.0))
    nothing = attrs.evolve(now, known=attrs.evolve(now.known, sums=np.zeros((2, 4))))
    assert nothing.priced().operators["sums"].growth == Growth(0.5, 100.0)
    quiet = attrs.evolve(now, known=attrs.evolve(now.known, rates={"s": (0.0, 0.0)}, windows={}))
    assert quiet.priced().operators["sums"].growth is None


@settings(max_examples=40, deadline=None)
@given(rates=st.lists(st.integers(50, 500), min_size=2, max_size=32), put=st.integers(50, 100))
def test_an_output_that_never_grows_is_right_at_any_rate(rates, put):
    """As many tuples put out at every look are as many at other rates, whatever the rates were meanwhile."""
    network = growing(0.0)
    now = moment(network, {"sums": "h1", "reads": "h2"}, Rates.constant({"s": 400.0}, 20.0))
    known = Knowledge()
    for rate in rates:
        counts = {"entered": [rate], "served": [rate, put], "tried": [rate, put], "emitted": [put, put]}
        seen = attrs.evolve(now.seen, work=np.array([0.1, 0.1]), **{k: np.array(v) for k, v in counts.items()})
        known = known.updated(seen, network)
    found = load_model(attrs.evolve(now, known=known).priced(), Rates.constant({"s": 1234.0}, 1.0))
    assert found.inflow("reads").mean() == pytest.approx(put)


def test_what_waits_is_followed_where_sources_outnumber_operators():
    """Of a union of more sources than operators nothing that waits comes again, whatever its group."""
    flow = Flow.of(
        Network.of(
            "u",
            [Source(name=f"s{k}") for k in range(3)],
            [Operator(name="both", kind="union", inputs=("s0", "s1", "s2"), cost=(0.02,) * 3)],
            [Sink(name="z", input="both")],
        )
    )
    coming = flow.follows(np.array([5.0]), np.ones(3), group=np.zeros(1, np.int64))
    assert coming.tolist() == [0.0]


def test_nothing_is_dropped_where_no_host_is_up():
    """With all hosts down nothing is decided about drops."""
    now = moment(two_queries(0.02), TOGETHER, stepped((20, 60.0)), 2)
    (shed,) = policies("shed")
    assert shed(having(now, down=frozenset({"h1", "h2"}), keep={"s1->cheap1": 0.5}), RNG) is None


@pytest.mark.parametrize("batches", [None, MicroBatch(trigger=0.5, overhead=0.45)])
def test_a_host_that_would_join_has_the_room_that_it_has_then(batches):
    """What a host could work off if it were there is what it can work off once it is, with batches and without."""
    engine = simulated(two_queries(), APART, stepped((30, 50.0)), 2, microbatch=batches)
    known, moments = Knowledge(), []
    for at in range(1, 12):
        if at == 9:
            engine.apply(Plan(add=(Host(name="h3"),)))
        engine.wait(float(at))
        seen = engine.observe()
        known = known.updated(seen, seen.network)
        moments.append(Situation(seen=seen, known=known, flow=Flow.of(seen.network), goals=Goals()))
    before, after = joined(moments[7], [Host(name="h3")]), moments[-1]
    assert before.hosts == after.hosts == ("h1", "h2", "h3")
    assert before.usable == pytest.approx(after.usable)
    assert (after.usable[2] < 1) == (batches is not None)
