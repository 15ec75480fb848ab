"""Networks of parts that share no host, link or stream."""

from __future__ import annotations

import subprocess
import sys

import attrs
import numpy as np
import pytest
from shedding_cases import figure_1, random_placed, random_program, two_hosts
from test_planners import overloads

from penstock.cluster import Cluster, Host, Link, Placement
from penstock.errors import InputError
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding import (
    Exact,
    LookUp,
    Program,
    Question,
    build_program,
    build_table,
    optimum,
    read_table,
    save_table,
)
from penstock.shedding.parts import split

EVERYWHERE = ["exact", "solver", "c-fit"]


def beside(
    seed: int, parts: int, sources: int = 1, hosts: int = 2, *, links: bool = False
) -> tuple[Program, list[Program]]:
    """Return random programs as one, and by themselves; the names of each are in front of the others'."""
    rng = np.random.default_rng(seed)
    tables: tuple[list[Source], list[Operator], list[Sink]] = [], [], []
    machines: list[Host] = []
    wires: dict[tuple[str, str], Link] = {}
    placed: dict[str, str] = {}
    alone = []
    for number in range(parts):
        network, cluster, placement = random_placed(rng, sources, hosts, links=links)

        def called(name: str, number: int = number) -> str:
            return f"p{number}{name}"

        mine = (
            [attrs.evolve(each, name=called(each.name)) for each in network.sources.values()],
            [
                attrs.evolve(each, name=called(each.name), inputs=tuple(map(called, each.inputs)))
                for each in network.operators.values()
            ],
            [attrs.evolve(each, name=called(each.name), input=called(each.input)) for each in network.sinks.values()],
        )
        for table, rows in zip(tables, mine, strict=True):
            table.extend(rows)  # type: ignore[arg-type]
        own = [attrs.evolve(host, name=called(host.name)) for host in cluster.hosts.values()]
        links_here = {(called("h0"), called("h1")): cluster.link("h0", "h1")} if links else {}
        where = {called(name): called(host) for name, host in placement.items()}
        alone.append(build_program(Network.of("random", *mine), Cluster.of(own, links=links_here), Placement(where)))
        machines += own
        wires |= links_here
        placed |= where
    whole = build_program(Network.of("random", *tables), Cluster.of(machines, links=wires), Placement(placed))
    return whole, alone


def chains(count: int, steps: int) -> Program:
    """Return a program of equal chains, each on hosts of its own, with a sink behind every step."""
    operators = [
        Operator(name=f"o{c}_{k}", kind="map", inputs=(f"o{c}_{k - 1}" if k else f"s{c}",), cost=(0.01 * (k + 1),))
        for c in range(count)
        for k in range(steps)
    ]
    sinks = [Sink(name=f"t{each.name[1:]}", input=each.name, weight=1.0 + k) for k, each in enumerate(operators)]
    hosts = [Host(name=f"h{c}_{k}") for c in range(count) for k in range(steps)]
    network = Network.of("chains", [Source(name=f"s{c}") for c in range(count)], operators, sinks)
    return build_program(network, Cluster.of(hosts), Placement({each.name: f"h{each.name[1:]}" for each in operators}))


def test_a_network_that_hangs_together_has_no_parts() -> None:
    """Operators that share a stream, or a host, are planned together."""
    assert split(figure_1()) == ()
    assert split(two_hosts((0.03, 0.05), (0.06, 0.01))) == ()


@pytest.mark.parametrize("links", [False, True])
def test_parts_are_the_programs_that_they_are_alone(links: bool) -> None:
    """Each part has names, arcs, limits and flows of its own, in the order in which it has them alone."""
    for seed in range(20):
        whole, alone = beside(seed, 2, 2, 2, links=links)
        parts = split(whole)
        # What is random may itself fall apart.
        assert len(parts) == sum(len(split(each)) or 1 for each in alone)
        assert sorted(name for part in parts for name in part.program.streams) == sorted(whole.streams)
        rates = np.random.default_rng(seed).uniform(0, 2, len(whole.sources))
        full, load = whole.flow(rates), whole.K @ whole.flow(rates)
        for part in parts:
            own = part.program.flow(rates[part.sources])
            np.testing.assert_allclose(own, full[part.arcs])
            for name, used, limit in zip(part.program.resources, part.program.K @ own, part.program.limit, strict=True):
                place = whole.resources.index(name)
                assert used == pytest.approx(load[place])
                assert limit == whole.limit[place]
        assert sum(part.program.score(whole.flow(rates)[part.arcs]) for part in parts) == pytest.approx(
            whole.score(full)
        )


def test_a_shared_host_holds_parts_together() -> None:
    """Two chains on hosts of their own are two parts, also with a limited link; with a host in common they are one."""
    network = Network.of(
        "two",
        [Source(name="a"), Source(name="b")],
        [
            Operator(name=name, kind="map", inputs=(given,), cost=(0.01,))
            for name, given in [("a1", "a"), ("a2", "a1"), ("b1", "b"), ("b2", "b1")]
        ],
        [Sink(name="t", input="a2"), Sink(name="u", input="b2")],
    )
    hosts = [Host(name=f"h{k}") for k in range(5)]

    def parts(placement: dict[str, str], *links: tuple[str, str]) -> int:
        cluster = Cluster.of(hosts, links=dict.fromkeys(links, Link(bandwidth=5.0)))
        return len(split(build_program(network, cluster, Placement(placement))))

    alone = {"a1": "h0", "a2": "h1", "b1": "h2", "b2": "h3"}
    assert parts(alone) == parts(alone, ("h0", "h1")) == 2
    assert parts({**alone, "b2": "h0"}) == 0
    assert parts({**alone, "b1#2": "h0"}) == 0


@pytest.mark.parametrize("planner", EVERYWHERE)
def test_parts_are_planned_as_if_they_were_alone(planner: str) -> None:
    """A table has the entries of its parts, answers each with its own plan, and keeps the promise for all together."""
    for seed in range(4):
        whole, alone = beside(seed, 2, 1, 2)
        exact, upto = optimum(whole), np.full(2, 2.0)
        table = build_table(planner, Question(exact, upto, 0.1))
        own = [build_table(planner, Question(optimum(each), upto[:1], 0.1)) for each in alone]
        assert table.entries == sum(each.entries for each in own)
        look_up, apart = LookUp(whole, table), [LookUp(*pair) for pair in zip(alone, own, strict=True)]
        points = overloads(whole, upto, 100, seed)
        for point, best in zip(points, exact.values(points), strict=True):
            kept = look_up.plan(point)
            assert whole.feasible(kept)
            assert whole.score(kept) >= 0.9 * best * (1 - 1e-8)
            scores = [each.program.score(each.plan(point[k : k + 1])) for k, each in enumerate(apart)]
            assert whole.score(kept) == pytest.approx(sum(scores))


def test_the_optimum_of_parts_is_the_programs() -> None:
    """Part by part plans are as good as the linear program's for the whole, at any rates."""
    for seed in range(6):
        whole, _ = beside(seed, 3, 1, 2, links=seed % 2 == 1)
        exact, plain = optimum(whole), Exact(whole)
        points = np.random.default_rng(seed).uniform(0, 3, (40, 3))
        np.testing.assert_allclose(
            exact.values(points), [whole.score(plain.solver.solve(p)) for p in points], rtol=1e-6
        )
        for point, best in zip(points, exact.values(points), strict=True):
            kept = exact.plan(point)
            assert whole.feasible(kept)
            assert whole.score(kept) == pytest.approx(best, rel=1e-6)


def test_a_mean_error_holds_for_all_together() -> None:
    """solver-w keeps its promise over the whole workload, whichever part is worth more where."""
    whole, _ = beside(3, 2, 1, 2)
    exact, upto = optimum(whole), np.full(2, 3.0)
    table = build_table("solver-w", Question(exact, upto, 0.1))
    look_up = LookUp(whole, table)
    points = np.random.default_rng(1).uniform(0, 1, (2000, 2)) * upto
    best = exact.values(points)
    losses = [1 - whole.score(look_up.plan(p)) / top for p, top in zip(points, best, strict=True)]
    assert np.mean(losses) <= table.error <= 0.1 + 1e-12


def test_rows_of_parts_add_up() -> None:
    """Of eight parts with some rows each the exact table has their sum, where one for all would have the product."""
    program = chains(8, 4)
    single = build_table("exact", Question(optimum(chains(1, 4)), np.full(1, 500.0)))
    table = build_table("exact", Question(optimum(program), np.full(8, 500.0)))
    assert single.entries**8 > 20_000
    assert table.entries < 3 * 8 * single.entries
    rates = np.linspace(20.0, 480.0, 8)
    kept = LookUp(program, table).plan(rates)
    assert program.feasible(kept)
    assert program.score(kept) == pytest.approx(optimum(program).values(rates[None])[0])


@pytest.mark.parametrize("planner", [*EVERYWHERE, "solver-w"])
def test_tables_of_parts_are_kept(planner: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A table of parts answers the same when it is read again; with a part too few it is refused."""
    whole, _ = beside(5, 2, 1, 2)
    upto = np.full(2, 2.0)
    table = build_table(planner, Question(optimum(whole), upto, 0.1))
    save_table(table, tmp_path / "table.json")
    again = read_table(tmp_path / "table.json")
    for point in overloads(whole, upto, 30, 1):
        np.testing.assert_array_equal(LookUp(whole, again).plan(point), LookUp(whole, table).plan(point))
    fewer = attrs.evolve(again, arrays={**again.arrays, "parts": np.array([3])})
    with pytest.raises(InputError, match=r"damaged.*build it again with --save"):
        LookUp(whole, fewer)


def test_random_networks_are_covered() -> None:
    """Every stream of a random network with links is in one of its parts, or the network is one."""
    rng = np.random.default_rng(11)
    for _ in range(40):
        program = random_program(rng, 3, 4, links=True)
        found = [name for part in split(program) for name in part.program.streams]
        assert not found or sorted(found) == sorted(program.streams)


@pytest.mark.parametrize("planner", EVERYWHERE)
@pytest.mark.parametrize("count", [1, 2])
def test_a_source_that_nobody_reads_changes_nothing(planner: str, count: int) -> None:
    """Beside one part or several, plans are those without it, whatever it brings."""
    alone, rates = chains(count, 2), np.full(count, 150.0)
    network = alone.network
    sources = [*network.sources.values(), Source(name="spare")]
    more = Network.of("more", sources, network.operators.values(), network.sinks.values())
    placement = Placement({name: f"h{name[1:]}" for name in network.operators})
    wide = build_program(more, Cluster.of([Host(name=name) for name in alone.resources]), placement)
    found = [
        LookUp(program, build_table(planner, Question(optimum(program), 2 * most, 0.05))).plan(most)
        for program, most in ((alone, rates), (wide, np.append(rates, 5.0)))
    ]
    np.testing.assert_allclose(found[0], found[1])


def test_scipy_waits_until_a_program_is_split() -> None:
    """Who simulates does not wait for SciPy."""
    code = "import sys, penstock.simulation; assert not [name for name in sys.modules if name.startswith('scipy')]"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
