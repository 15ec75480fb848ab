"""What plans leave to the batches of hosts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shedding_cases import FIGURE_1, random_placed

from penstock import api
from penstock.cluster import Cluster, Host, SparkSettings
from penstock.errors import InputError
from penstock.load import OperatorStatistics, Statistics
from penstock.load.statistics import HostStatistics
from penstock.network import Network, Operator, Sink, Source
from penstock.shedding import (
    PLANNERS,
    LookUp,
    Program,
    Question,
    build_program,
    build_table,
    optimum,
    read_table,
    save_table,
)
from penstock.shedding.room import rooms, shares, stale

TRIGGER = 1.0


def chains(*costs: float) -> Network:
    """Return a network of operators that each read a source of their own."""
    numbers = range(len(costs))
    return Network.of(
        "chains",
        [Source(name=f"s{k}") for k in numbers],
        [Operator(name=f"o{k}", kind="map", inputs=(f"s{k}",), cost=(costs[k],)) for k in numbers],
        [Sink(name=f"t{k}", input=f"o{k}") for k in numbers],
    )


def on_spark(*hosts: Host, **settings: Any) -> Cluster:
    """Return hosts whose cluster file has a table for Spark."""
    return Cluster.of(hosts, spark=SparkSettings(**{"trigger": TRIGGER, "given": True, **settings}))


def measured(overhead: float, factor: float, *hosts: str) -> Statistics:
    """Return statistics of hosts that are alike."""
    return Statistics(hosts=dict.fromkeys(hosts or ("h",), HostStatistics(overhead=overhead, factor=factor)))


def roomy(network: Network, cluster: Cluster, placement: Mapping[str, str], known: Statistics) -> Program:
    """Return the program that every planner is given."""
    program = build_program(network, cluster, placement)
    return program.leaving(shares(cluster, rooms(network, cluster, placement, known)))


@pytest.mark.parametrize(
    ("overhead", "factor", "left"), [(0.2, 1.0, 0.8), (0.2, 1.25, 0.64), (0.6, 1.3, 0.5 / 1.3), (5.0, 1.0, 0.5)]
)
def test_one_host_keeps_what_its_batches_leave(overhead: float, factor: float, left: float) -> None:
    """A host of two cores at a quota of 0.7 keeps 1.4 cores less the overhead, in batches of twice that at least."""
    cluster = on_spark(Host(name="h", capacity=2.0, cores=2, quota=0.7))
    found = api.shed(chains(0.01), {"o0": "h"}, {"s0": 400.0}, cluster, statistics=measured(overhead, factor))
    assert found.keep == pytest.approx({"s0->o0": 1.4 * left / 4})
    assert found.load == pytest.approx({"h": 0.7 * left})
    assert found.score == found.optimum
    assert len(found.notes) == 1


def test_state_counts_and_so_does_each_query() -> None:
    """A host pays its overhead once for each of its queries, and for the state of what is placed there."""
    windows = [
        Operator(name="a", kind="aggregate", inputs=("s",), cost=(0.01,), window=10.0, selectivity=(0.1,)),
        Operator(name="b", kind="aggregate", inputs=("a",), cost=(0.01,), window=20.0, selectivity=(0.1,)),
    ]
    network = Network.of("n", [Source(name="s")], windows, [Sink(name="t", input="b")])
    state = {"b": OperatorStatistics(overhead=0.05)}
    known = attrs.evolve(measured(0.1, 1.0, "h", "i"), operators=state)
    cluster = on_spark(Host(name="h"), Host(name="i"))
    together = rooms(network, cluster, {"a": "h", "b": "h"}, known)
    assert {name: room.left for name, room in together.items()} == pytest.approx({"h": 0.75})
    apart = rooms(network, cluster, {"a": "h", "b": "i"}, known)
    assert {name: room.left for name, room in apart.items()} == pytest.approx({"h": 0.9, "i": 0.85})
    copied = rooms(network, cluster, {"a": "h", "b": "h", "a#2": "i", "b#2": "i"}, known)
    assert {name: room.left for name, room in copied.items()} == pytest.approx({"h": 0.75, "i": 0.75})


def test_a_host_that_was_not_measured_has_the_overhead_of_the_others() -> None:
    """Batches take of a host that was never measured what they take of the others, and the answer says so."""
    network, placement = chains(0.001, 0.001), {"o0": "h", "o1": "i"}
    cluster, known = on_spark(Host(name="h"), Host(name="i")), measured(0.2, 1.1, "h")
    found = api.shed(network, placement, {"s0": 1500.0, "s1": 1500.0}, cluster, statistics=known)
    assert found.load == pytest.approx({"h": 0.8 / 1.1, "i": 0.8})
    assert "0.2 s of overhead (not measured: as on the other hosts) in batches of 1 s" in found.notes[1]


@pytest.mark.parametrize(
    ("cluster", "known"),
    [
        (on_spark(Host(name="h", quota=0.7)), Statistics()),
        (on_spark(Host(name="h", quota=0.7)), measured(0.0, 1.0)),
        (on_spark(Host(name="h", quota=0.7), mode="real-time"), measured(0.6, 1.3)),
        (Cluster.of([Host(name="h", quota=0.7)]), measured(0.6, 1.3)),
    ],
)
def test_nothing_changes_where_nothing_is_known(cluster: Cluster, known: Statistics) -> None:
    """Without statistics of the hosts, or without micro-batches, the program is what it was, to the last bit."""
    network = chains(0.01, 0.02)
    placement = dict.fromkeys(network.operators, "h")
    assert rooms(network, cluster, placement, known) == {}
    plain, same = build_program(network, cluster, placement), roomy(network, cluster, placement, known)
    assert (plain.limit == same.limit).all()
    assert api.shed(network, placement, {"s0": 90.0, "s1": 90.0}, cluster, statistics=known).notes == ()


@pytest.fixture
def deployed(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Write a network, the statistics of two hosts, and their cluster."""
    (tmp_path / "n.toml").write_text(FIGURE_1)
    hosts = {"h1": {"overhead": 0.25}, "h2": {"overhead": 0.8, "factor": 1.25}}
    (tmp_path / "st.json").write_text(json.dumps({"operators": {}, "hosts": hosts}))
    (tmp_path / "c.toml").write_text("[hosts.h1]\nquota = 0.8\n[hosts.h2]\n[spark]\ntrigger = '1 second'\n")
    (tmp_path / "less.toml").write_text("[hosts.h1]\nquota = 0.6\n[hosts.h2]\nquota = 0.4\n")
    return tmp_path / "n.toml", tmp_path / "st.json", tmp_path / "c.toml"


PLACED = "a1=h1,a2=h1,b1=h2,b2=h2"
ROOM = {"h1": 0.6, "h2": 0.4}


@pytest.mark.parametrize("planner", PLANNERS)
def test_all_planners_and_their_tables_agree(penstock: Any, deployed: tuple[Path, Path, Path], planner: str) -> None:
    """Each planner answers as with quotas that leave as much, and so does its table, without the statistics."""
    network, known, cluster = deployed
    table, less = network.with_name("table.json"), network.with_name("less.toml")
    words = ("shed", network, "--placement", PLACED, "--at", "x=100,y=100", "--json")
    by_hand = penstock(*words, "--cluster", less, "--planner", planner).document
    found = penstock(*words, "--cluster", cluster, "--statistics", known, "--planner", planner, "--save", table)
    assert (found.code, found.document["feasible"]) == (0, True)
    again = penstock(*words, "--cluster", cluster, "--plan", table).document
    for document in (found.document, again):
        assert document["keep"] == pytest.approx(by_hand["keep"])
        assert [document[key] for key in ("score", "optimum", "full")] == pytest.approx(
            [by_hand[key] for key in ("score", "optimum", "full")]
        )
        assert {name: row["load"] for name, row in document["hosts"].items()} == pytest.approx(
            {name: row["load"] for name, row in by_hand["hosts"].items()}
        )
        assert {name: row["room"] for name, row in document["hosts"].items()} == pytest.approx(ROOM)
    assert found.document["notes"] == [
        "h1: 0.6 of its capacity can be filled: a quota of 0.8, 0.25 s of overhead in batches of 1 s",
        "h2: 0.4 of its capacity can be filled: 0.8 s of overhead in batches of 1.6 s, a factor of 1.25",
    ]
    assert again["notes"][1] == "h2: 0.4 of its capacity can be filled: so the plan table was made"
    assert all("room" not in row for row in by_hand["hosts"].values())


def test_copies_leave_as_much(penstock: Any, deployed: tuple[Path, Path, Path]) -> None:
    """The planner for copies fills hosts as far as the others do."""
    network, known, cluster = deployed
    words = ("shed", network, "--placement", PLACED + ",a1#2=h2,b1#2=h1", "--planner", "replica", "--json")
    less = network.with_name("less.toml")
    # What has copies elsewhere is a query of its own: on h1 there are three, whose overhead takes half of a batch.
    less.write_text("[hosts.h1]\nquota = 0.4\n[hosts.h2]\nquota = 0.4\n")
    by_hand = penstock(*words, "--at", "x=9,y=9", "--cluster", less).document
    found = penstock(*words, "--at", "x=9,y=9", "--cluster", cluster, "--statistics", known).document
    assert found["keep"] == pytest.approx(by_hand["keep"])
    assert {name: row["room"] for name, row in found["hosts"].items()} == pytest.approx({"h1": 0.4, "h2": 0.4})


def test_the_simulator_follows_a_table_that_leaves_room(penstock: Any, deployed: tuple[Path, Path, Path]) -> None:
    """A run that knows no statistics takes from the table how far hosts may be filled."""
    network, known, cluster = deployed
    words = (network, "--cluster", cluster, "--placement", PLACED)
    table = network.with_name("table.json")
    planned = penstock(
        "shed", *words, "--statistics", known, "--planner", "d-fit", "--at", "x=100,y=100", "--save", table, "--json"
    ).document
    ran = penstock("simulate", *words, "--rates", "x=100,y=100", "--duration", 300, "--plan", table, "--json").document
    assert ran["plan"]["keep"] == pytest.approx(planned["keep"])
    for name, row in ran["hosts"].items():
        assert row["busy"] == pytest.approx(planned["hosts"][name]["load"], abs=0.02)


def test_micro_batches_at_a_measured_pace_follow_a_table(penstock: Any, deployed: tuple[Path, Path, Path]) -> None:
    """Hosts that work more slowly than their capacity says take the table that was made for them, and keep up."""
    network, known, cluster = deployed
    known = known.with_name("slower.json")
    hosts = {name: {"overhead": 0.2, "factor": 1.25} for name in ("h1", "h2")}
    known.write_text(json.dumps({"operators": {}, "hosts": hosts}))
    words = (network, "--cluster", cluster, "--placement", PLACED)
    tables = [network.with_name(name) for name in ("old.json", "new.json")]
    for table, more in zip(tables, ((), ("--statistics", known)), strict=True):
        penstock("shed", *words, *more, "--planner", "exact", "--at", "x=100,y=100", "--save", table)
    run = ("simulate", *words, "--statistics", known, "--rates", "x=100,y=100", "--duration", 300, "--trigger", 1)
    old, new = (penstock(*run, "--plan", table, "--json") for table in tables)
    assert "the plan table, which fills 1, is to be made again" in " ".join(old.err.split())
    assert "made again" not in new.err
    # What came before the first look is worked off, or piles up.
    assert new.document["latency"]["max"] < old.document["latency"]["max"] / 2


def test_a_table_of_other_hosts_is_refused_and_an_old_one_told(
    penstock: Any, deployed: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    """A table that leaves less than batches take is followed with a note; one for other quotas or hosts is refused."""
    network, known, cluster = deployed
    table = tmp_path / "table.json"
    words = ("shed", network, "--placement", PLACED, "--at", "x=100,y=100")
    penstock(*words, "--cluster", cluster, "--planner", "exact", "--save", table)
    assert "left" not in json.loads(table.read_text())
    told = " ".join(penstock(*words, "--cluster", cluster, "--statistics", known, "--plan", table).err.split())
    assert "h1: 0.6 of its capacity can be filled" in told
    assert "the plan table, which fills 1, is to be made again with --statistics" in told
    penstock(*words, "--cluster", cluster, "--statistics", known, "--planner", "exact", "--save", table)
    quiet = penstock(*words, "--cluster", cluster, "--statistics", known, "--plan", table).err
    assert "made again" not in quiet
    refused = penstock(*words, "--cluster", network.with_name("less.toml"), "--plan", table)
    assert (refused.code, "made for another network, cluster" in refused.err) == (2, True)
    document = json.loads(table.read_text())
    for damaged in ([1.0], [0.75, float("nan")], [0.75, 0.41]):
        table.write_text(json.dumps({**document, "left": damaged}))
        assert penstock(*words, "--cluster", cluster, "--plan", table).code == 2


def test_a_table_of_parts_leaves_each_its_room(tmp_path: Path) -> None:
    """Where parts of a network have tables of their own, saved ones answer as those that were made."""
    network, placement = chains(0.01, 0.02), {"o0": "h", "o1": "i"}
    cluster = on_spark(Host(name="h"), Host(name="i", quota=0.5))
    program = roomy(network, cluster, placement, measured(0.3, 1.1, "h", "i"))
    table = build_table("c-fit", Question(optimum(program), np.array([500.0, 500.0]), 0.05))
    save_table(table, tmp_path / "table.json")
    read, rates = read_table(tmp_path / "table.json"), np.array([300.0, 400.0])
    look_up = LookUp(build_program(network, cluster, placement), read)
    assert look_up.program.feasible(look_up.plan(rates))
    assert look_up.plan(rates).tolist() == LookUp(program, table).plan(rates).tolist()
    assert not stale(read, cluster, rooms(network, cluster, placement, measured(0.3, 1.1, "h", "i")))
    with pytest.raises(InputError, match="made for another network"):
        LookUp(roomy(network, cluster, placement, measured(0.4, 1.1, "h", "i")), read)


@given(
    seed=st.integers(0, 2**32 - 1),
    overheads=st.tuples(st.floats(0, 3), st.floats(0, 3)),
    factors=st.tuples(st.floats(0.5, 3), st.floats(0.5, 3)),
)
@settings(deadline=None, max_examples=60)
def test_more_overhead_never_keeps_more(
    seed: int, overheads: tuple[float, float], factors: tuple[float, float]
) -> None:
    """As a host's overhead or factor grows, no stream of it keeps more, and the best score of several never rises."""
    rng = np.random.default_rng(seed)
    network = chains(*rng.uniform(0.1, 1.0, 3))
    placement, cluster = dict.fromkeys(network.operators, "h"), on_spark(Host(name="h"))
    rates = rng.uniform(0.5, 5.0, 3)
    low, high = (
        roomy(network, cluster, placement, measured(overhead, factor))
        for overhead, factor in zip(sorted(overheads), sorted(factors), strict=True)
    )
    assert (high.limit > 0).all()
    before, after = (optimum(program).plan(rates) for program in (low, high))
    assert (after <= before + 1e-9).all()

    network, plain, placed = random_placed(rng, 2, 2)
    cluster = attrs.evolve(plain, spark=SparkSettings(trigger=TRIGGER, given=True))
    names, rates = tuple(cluster.hosts), rng.uniform(0.5, 5.0, 2)
    scores = []
    for overhead, factor in zip(sorted(overheads), sorted(factors), strict=True):
        program = roomy(network, cluster, placed, measured(overhead, factor, *names))
        scores.append(program.score(optimum(program).plan(rates)))
    assert scores[1] <= scores[0] * (1 + 1e-6)
