"""Plan selection: rankings, legal reorderings, headroom, and the commands."""

from __future__ import annotations

import json
import pickle
import re

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import random_chain

from penstock.cluster import Cluster, Placement
from penstock.errors import TooLong
from penstock.latency.mace import mace
from penstock.latency.models import MODELS, model_of
from penstock.load import load_model
from penstock.network import Network, Operator, Sink, Source
from penstock.network.model import Growth
from penstock.sizing.compare import Candidate, compared
from penstock.sizing.headroom import headroom, rescaled
from penstock.sizing.reorder import by_rank, commute, rows, variants
from penstock.workload import Rates


def row_of(*operators: Operator, kind: str = "sink") -> Network:
    """Return operators in a row behind one source."""
    made, before = [], "s"
    for operator in operators:
        made.append(attrs.evolve(operator, inputs=(before,)))
        before = operator.name
    return Network.of("row", [Source(name="s")], made, [Sink(name="t", input=before)])


def step(name: str, kind: str = "filter", cost: float = 1e-3, selectivity: float = 0.5, **more: object) -> Operator:
    return Operator(name=name, kind=kind, inputs=("s",), cost=(cost,), selectivity=(selectivity,), **more)


def test_filters_commute_and_maps_only_with_what_they_pass_on() -> None:
    """A filter passes a map that passes on its columns unchanged, and no other; maps keep their order."""
    price = step("f", where="price > 3 and kind = 'select'")
    assert commute(price, step("g", where="kind = 'b'"))
    assert commute(price, step("m", "map", select="price, kind, upper(name) as loud"))
    assert not commute(price, step("m", "map", select="price * 2 as price, kind"))
    assert not commute(price, step("m", "map", select="kind"))
    assert commute(price, step("m", "map", select="*, 1 as one"))
    assert not commute(price, step("m", "map", select="*, 1 as price"))
    for select in ("*, v.price", "*, price", "*, v.*", "*, inline(items)", "price, v.price", "*, 1 as PRICE"):
        assert not commute(price, step("m", "map", select=select)), select
    assert commute(price, step("m", "map", select="*, v.cost, upper(name) as loud"))
    assert commute(step("f", where="Price > 3"), step("m", "map", select="PRICE, kind"))
    assert commute(price, step("d", "delay"))
    assert not commute(price, step("p", "python", function="a:b"))
    assert not commute(step("m", "map"), step("n", "map"))


def test_reorderings_are_all_legal_orders() -> None:
    """Every order that keeps the pairs that do not commute is proposed once, the given one first."""
    network = row_of(
        step("a", where="x > 1"),
        step("m", "map", select="x, y + 1 as z"),
        step("b", where="z > 1"),
        step("c", where="x > 2"),
    )
    found = [order[0] for order, _ in variants(network)]
    assert found[0] == ("a", "m", "b", "c")
    assert len(found) == len(set(found)) == 12
    assert all(order.index("m") < order.index("b") for order in found)
    for order, made in variants(network):
        walked, name = [], "s"
        while name != "t":
            name = made.outputs(name)[0].reader
            walked.append(name)
        assert tuple(walked[:-1]) == order[0]


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_order_by_rank_has_the_least_load(seed: int) -> None:
    """Of independent filters the order by (1 − selectivity)/cost costs least of all orders."""
    rng = np.random.default_rng(seed)
    network = row_of(*(step(f"f{k}", cost=rng.uniform(1e-4, 1e-2), selectivity=rng.uniform(0.01, 1)) for k in range(4)))
    rates = Rates.constant({"s": 100.0}, 2)
    cost = {order[0]: load_model(made, rates).mean_load.sum() for order, made in variants(network)}
    best = by_rank(network, rows(network)[0])
    assert cost[best] == pytest.approx(min(cost.values()), rel=1e-9)


def test_rows_end_where_streams_divide_meet_or_are_named() -> None:
    """A row ends where a stream is read twice, and in front of a join, whose condition names its input."""
    operators = [
        step("a"),
        attrs.evolve(step("b"), inputs=("a",)),
        attrs.evolve(step("c"), inputs=("b",)),
        Operator(
            name="j", kind="join", inputs=("c", "s2"), cost=(1e-3, 1e-3), selectivity=(0.1, 0.1), counts=(1, 1),
            on="c.x = s2.x",
        ),
        attrs.evolve(step("d"), inputs=("j",)),
        attrs.evolve(step("e"), inputs=("d",)),
    ]  # fmt: skip
    network = Network.of(
        "j", [Source(name="s"), Source(name="s2")], operators, [Sink(name="t", input="e"), Sink(name="u", input="e")]
    )
    assert rows(network) == [("a", "b"), ("d", "e")]
    for order, made in variants(network):
        assert {sink.input for sink in made.sinks.values()} == {order[1][-1]}
        assert made.operators["j"].inputs == ("c", "s2")


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_headroom_is_where_the_bound_begins_to_be_missed(seed: int) -> None:
    """With rates times the factor the bound holds, with a thousandth more it does not."""
    model, placement = random_chain(seed, 15)
    cluster = Cluster.uniform(1)

    def worst(trial: object) -> float:
        return mace(trial, placement, cluster).total.worst

    together, single = headroom(model, 0.5, worst)
    assert together == single["s1"]
    assert worst(rescaled(model, {"s1": together})) <= 0.5 + 1e-6
    assert worst(rescaled(model, {"s1": together * 1.001})) > 0.5


@pytest.mark.parametrize("name", MODELS)
def test_headroom_counts_what_no_sink_gets(name: str) -> None:
    """Rates may grow until the host of a filter that passes nothing has too much to do, idle as others may be."""
    network = Network.of(
        "both",
        [Source(name="s")],
        [step("a", "map", 0.001, 1.0), step("rare", cost=0.012, selectivity=0.0)],
        [Sink(name="ka", input="a"), Sink(name="k", input="rare")],
    )
    model = load_model(network, Rates.constant({"s": 50.0}, 60.0))
    placement, cluster = Placement({"a": "h1", "rare": "h2"}), Cluster.uniform(2)
    decide = model_of(name)
    together, _ = headroom(model, 2.0, lambda trial: decide(trial, placement, cluster, None).total.worst)
    assert together is not None
    # Work of a minute within a minute and two seconds, of which micro-batches wait for more than one.
    assert 0.97 <= together / (62 / 60 / 0.6) <= 1.0001


@pytest.mark.parametrize("name", ["pipelined", "sharing"])
def test_a_backlog_too_long_to_be_followed_is_no_headroom(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Factors at which a model refuses to follow the backlog miss the bound, and do not end the search."""
    monkeypatch.setattr("penstock.latency.pipelined.MOST", 2e3)
    monkeypatch.setattr("penstock.latency.fluid.LIMIT", 200)
    network = row_of(step("a", "map", 0.005))
    model = load_model(network, Rates.constant({"s": 100.0}, 10.0))
    placement, cluster, decide = Placement({"a": "h1"}), Cluster.uniform(1), model_of(name)
    with pytest.raises(TooLong):
        decide(rescaled(model, {"s": 16.0}), placement, cluster, None)
    together, _ = headroom(model, 1.0, lambda trial: decide(trial, placement, cluster, None).total.worst)
    assert together == pytest.approx(2.2, rel=1e-3)


def test_headroom_of_a_source_that_costs_nothing_is_unbounded() -> None:
    """A source without load may grow by any factor, and one that misses the bound alone leaves none to others."""
    network = Network.of(
        "two",
        [Source(name="a"), Source(name="b")],
        [
            Operator(name="x", kind="map", inputs=("a",), cost=(0.01,)),
            Operator(name="y", kind="map", inputs=("b",), cost=(0.0,)),
        ],
    )
    model = load_model(network, Rates.constant({"a": 100.0, "b": 1.0}, 10))
    placement, cluster = Placement({"x": "h1", "y": "h1"}), Cluster.uniform(1)
    together, single = headroom(model, 1.0, lambda trial: mace(trial, placement, cluster).total.worst)
    assert together == pytest.approx(1.1, rel=1e-4)
    assert single["b"] is None


def test_headroom_follows_growth_and_not_its_slope() -> None:
    """Where an aggregate puts out as many rows however many come, rates may grow as far as the latency model says."""
    operators = [
        Operator(
            name="agg", kind="aggregate", inputs=("a",), by=("k",), window=1.0, select="count(*) as n", cost=(0.001,),
            selectivity=(0.5,), growth=Growth(exponent=0.0, at=100.0),
        ),
        Operator(name="late", kind="map", inputs=("agg",), cost=(0.01,)),
    ]  # fmt: skip
    network = Network.of("grow", [Source(name="a")], operators, [Sink(name="k", input="late")])
    model = load_model(network, Rates.constant({"a": 100.0}, 60))
    placement, cluster = Placement({"agg": "h1", "late": "h1"}), Cluster.uniform(1)
    bound = 1.0
    together, _ = headroom(model, bound, lambda trial: mace(trial, placement, cluster).total.worst)
    # A minute's work, 0.001 a row and 50 rows of 0.01 a second, is a minute and the bound.
    assert together == pytest.approx((1 + bound / 60 - 0.5) / 0.1, rel=1e-4)
    assert mace(rescaled(model, {"a": together}), placement, cluster).total.worst == pytest.approx(bound, rel=1e-3)


def test_command(penstock, examples) -> None:
    """The ranking has the keys of the contract, the best first, and estimate gives the same worst values."""
    two = examples / "two-chains"
    shared = [two / "network.toml", "--hosts", 2, "--rates", two / "rates.csv", "--json"]
    placements = ["views=h1,scored=h1,paid=h2,billed=h2", "views=h2,scored=h1,paid=h2,billed=h2"]
    for model in ("mace", "pipelined", "microbatch"):
        done = penstock("compare", *shared, "--model", model, "--placements", *placements)
        assert done.code == 0, done.err
        ranking = done.document["ranking"]
        assert [row["given"] for row in ranking] == placements[::-1]
        for row in ranking:
            alone = penstock("estimate", *shared, "--model", model, "--placement", row["given"]).document
            assert (row["worst"], row["mean"]) == (alone["worst"], alone["mean"])
            assert row["given"] == ",".join(f"{o}={row['placement'][o]}" for o in ("views", "scored", "paid", "billed"))


def test_reorder_keeps_what_reads_a_new_column(penstock, tmp_path) -> None:
    """A filter of a column that a map has just taken out of a struct stays behind it."""
    network = tmp_path / "star.toml"
    network.write_text(
        'name = "star"\n[sources.s]\nschema = "id int, v struct<price: double>"\n'
        '[operators.wide]\nkind = "map"\ninput = "s"\nselect = "*, v.price"\ncost = 0.01\n'
        '[operators.dear]\nkind = "filter"\ninput = "wide"\nwhere = "price > 10"\ncost = 0.001\nselectivity = 0.1\n'
        '[sinks.k]\ninput = "dear"\n'
    )
    done = penstock("compare", network, "--hosts", 1, "--rates", "s=50", "--reorder", "--json")
    assert done.code == 0, done.err
    assert len(done.document["ranking"]) == 1


def test_command_reorders_and_compares_variants(penstock, examples, tmp_path) -> None:
    """Variants and legal reorderings share one ranking; the simulator stands beside it on request."""
    two = examples / "two-chains"
    other = tmp_path / "other.toml"
    other.write_text((two / "network.toml").read_text().replace("cost = 0.004", "cost = 0.003"))
    shared = ["compare", two / "network.toml", "--hosts", 1, "--rates", two / "rates.csv", "--json"]
    both = penstock(*shared, "--variant", other).document["ranking"]
    assert [row["network"] for row in both] == [str(other), str(two / "network.toml")]
    ranking = penstock(*shared, "--reorder", "--check-with", "simulation").document["ranking"]
    assert len(ranking) == 4
    assert ranking[0]["order"] == []
    assert [row["simulated"] for row in ranking] == sorted(row["simulated"] for row in ranking)
    assert penstock(*shared, "--placements", "views=h1").code == 2


def test_estimate_tells_headroom_and_when_models_differ(penstock, tmp_path) -> None:
    """Where backlog forms on one host after another, mace notes that pipelined says more."""
    network, rates = tmp_path / "tandem.toml", tmp_path / "rates.csv"
    chains = {"a": (0.006, 1e-9), "b": (1e-9, 0.006)}
    network.write_text(
        'name = "tandem"\n'
        + "".join(
            f'[sources.{name}]\n[operators.{name}1]\nkind = "map"\ninput = "{name}"\ncost = {first}\n'
            f'[operators.{name}2]\nkind = "map"\ninput = "{name}1"\ncost = {second}\n'
            f'[sinks.{name}3]\ninput = "{name}2"\n'
            for name, (first, second) in chains.items()
        )
    )
    rates.write_text("time,a,b\n0,1000,0\n1,0,1000\n")
    words = ["estimate", network, "--hosts", 2, "--rates", rates, "--placement", "a1=h1,b1=h1,a2=h2,b2=h2", "--json"]
    found = penstock(*words, "--headroom", 5).document
    assert found["worst"] == pytest.approx(5.0, rel=1e-5)
    assert any("pipelined says 10" in note for note in found["notes"])
    assert found["bounds"]["upper"] >= 10
    assert found["headroom"]["together"] == pytest.approx(1.0, rel=1e-4)
    assert found["episodes"][0] == {
        "host": "h1",
        "begins": 0.0,
        "peaks": 1.0,
        "ends": pytest.approx(6.0, abs=1e-5),
        "wait": pytest.approx(5.0, abs=1e-5),
    }
    assert penstock(*words[:-1], "--model", "pipelined").out.count("10")


@pytest.mark.parametrize("start", [0, 1000, 1_700_000_000])
def test_the_backlog_is_told_by_the_clock_of_the_rates(penstock, tmp_path, start) -> None:
    """People read when a backlog builds by the times that the rates file gives; programs, since the rates began."""
    (tmp_path / "n.toml").write_text(
        'name = "n"\n[sources.s]\n[operators.a]\nkind = "map"\ninput = "s"\ncost = 0.01\n[sinks.t]\ninput = "a"\n'
    )
    (tmp_path / "r.csv").write_text(
        "time,s\n" + "".join(f"{start + 0.5 * t},{50 + 100 * (t == 1)}\n" for t in range(8))
    )
    words = ["estimate", tmp_path / "n.toml", "--hosts", 1, "--rates", tmp_path / "r.csv", "--placement", "a=h1"]
    [row] = [line.split() for line in penstock(*words).out.splitlines() if line.split()[:1] == ["h1"]]
    assert row == ["h1", str(start + 0.5), str(start + 1), str(start + 1.5), "0.25"]
    [episode] = penstock(*words, "--json").document["episodes"]
    assert (episode["begins"], episode["peaks"], episode["ends"]) == (0.5, 1.0, 1.5)


@pytest.mark.parametrize("model", ["mace", "pipelined", "microbatch"])
def test_estimate_is_checked_with_the_simulator(penstock, examples, model) -> None:
    """On request the simulated latency stands beside the estimated one of tuples, with how far that is above it."""
    two = examples / "two-chains"
    placement = "views=h1,scored=h1,paid=h2,billed=h2"
    words = ["estimate", two / "network.toml", "--hosts", 2, "--rates", two / "rates.csv", "--placement", placement]
    found = penstock(*words, "--model", model, "--check-with", "simulation", "--json").document
    check = found["simulation"]
    for word, key in (("worst", "max"), ("p99", "p99"), ("p50", "p50"), ("mean", "mean")):
        assert check["disagreement"][word] == pytest.approx(found["tuples"][word] / check["latency"][key] - 1)
    assert abs(check["disagreement"]["worst"]) < 0.1
    assert "checked with the simulator" in penstock(*words, "--check-with", "simulation").out
    assert penstock(*words, "--check-with", "spark").code == 2


@pytest.mark.parametrize("command", ["estimate", "compare", "admit", "provision"])
def test_help_names_every_model(penstock, command) -> None:
    """The help of a command that takes a model names all of them."""
    text = " ".join(penstock(command, "--help").out.split())
    for name in MODELS:
        assert name in text.partition("--model")[2].partition("--")[0]


def test_copies_are_compared_by_mace(penstock, tmp_path) -> None:
    """On a cluster of Spark, whose models know of no copies, all are compared by mace if any placement has some."""
    rows = '[sources.s]\n[operators.a]\nkind = "map"\ninput = "s"\ncost = 0.004\n[sinks.t]\ninput = "a"\n'
    (tmp_path / "n.toml").write_text('name = "n"\n' + rows)
    (tmp_path / "c.toml").write_text("[hosts.h1]\n[hosts.h2]\n[spark]\ntrigger = 0.5\n")
    given = [tmp_path / "n.toml", "--cluster", tmp_path / "c.toml", "--rates", "s=300", "--json"]
    found = penstock("compare", *given, "--placements", "a=h1", "a=h1,a#2=h2").document
    assert found["model"] == "mace"
    for row in found["ranking"]:
        told = penstock("estimate", *given, "--placement", row["given"], "--model", "mace").document
        assert row["worst"] == told["worst"]
    assert penstock("compare", *given, "--placements", "a=h1").document["model"] == "microbatch"


def test_what_overlaps_is_not_certain(penstock, tmp_path) -> None:
    """The best is certain where its interval ends before the second's begins; both intervals are in the answer."""
    rows = '[sources.s]\n[operators.a]\nkind = "map"\ninput = "s"\n[operators.b]\nkind = "map"\ninput = "a"\n'
    (tmp_path / "n.toml").write_text('name = "n"\n' + rows + '[sinks.t]\ninput = "b"\n')
    (tmp_path / "r.csv").write_text("time,s\n" + "".join(f"{t},{200 if t < 10 else 10}\n" for t in range(30)))
    given = [tmp_path / "n.toml", "--hosts", 2, "--rates", tmp_path / "r.csv", "--json"]
    given += ["--placements", "a=h1,b=h1", "a=h1,b=h2"]
    for error, sure in ((0.001, True), (0.3, False)):
        costs = {name: {"cost": 0.004, "error": error, "tuples": 1000} for name in ("a", "b")}
        (tmp_path / "s.json").write_text(json.dumps({"operators": costs}))
        found = penstock("compare", *given, "--statistics", tmp_path / "s.json", "--model", "mace").document
        first, second = found["ranking"]
        assert first["interval"]["worst"][0] <= first["worst"] <= first["interval"]["worst"][1]
        assert found["certain"] == (first["interval"]["worst"][1] < second["interval"]["worst"][0])
        assert found["certain"] == sure


@pytest.mark.parametrize(("model", "units"), [("mace", "periods"), ("pipelined", "slices"), ("microbatch", "tuples")])
def test_rows_of_an_estimate_say_what_they_are_over(penstock, tmp_path, model, units) -> None:
    """A burst has most of the tuples in few of the periods: what a row is over stands in it, and only sink is all."""
    network = (
        "name = 'n'\n[sources.s]\n[operators.a]\nkind = 'map'\ninput = 's'\ncost = 0.002\n[sinks.t]\ninput = 'a'\n"
    )
    (tmp_path / "network.toml").write_text(network)
    rates = "time,s\n" + "".join(f"{t},{1000 if 50 <= t < 60 else 20}\n" for t in range(200))
    (tmp_path / "rates.csv").write_text(rates)
    words = ["estimate", tmp_path / "network.toml", "--hosts", 1, "--rates", tmp_path / "rates.csv"]
    words += ["--placement", "a=h1", "--model", model]
    found = penstock(*words, "--check-with", "simulation", "--json").document
    sink = found["sinks"]["t"]
    assert found["tuples"] == pytest.approx({word: sink[word] for word in found["tuples"]})
    assert (found["mean"] == pytest.approx(sink["mean"])) == (units == "tuples")
    assert abs(found["simulation"]["disagreement"]["mean"]) < 0.15
    said = [line.split("  ")[0].strip() for line in penstock(*words).out.splitlines()]
    assert f"all {units}" in said
    assert said.count("all tuples") == 1
    assert "tuples of t" in said


@pytest.mark.parametrize("model", ["mace", "pipelined", "microbatch", "sharing"])
def test_what_reaches_no_sink_has_no_latency(penstock, tmp_path, model) -> None:
    """A row without tuples is blank, and where no sink has any, models of tuples say that nothing can be told."""
    (tmp_path / "network.toml").write_text(
        "name = 'n'\n[sources.s]\n[sources.idle]\n"
        "[operators.a]\nkind = 'map'\ninput = 's'\ncost = 0.002\n"
        "[operators.b]\nkind = 'map'\ninput = 'idle'\ncost = 0.001\n"
        "[sinks.busy]\ninput = 'a'\n[sinks.never]\ninput = 'b'\n"
    )
    words = ["estimate", tmp_path / "network.toml", "--hosts", 1, "--placement", "a=h1,b=h1", "--model", model]
    shown = penstock(*words, "--rates", "s=600,idle=0").out
    rows = dict(re.findall(r"^ (all \w+|tuples of \w+) *(.*?) *$", shown, re.M))
    assert rows["tuples of busy"]
    assert rows["tuples of never"] == ""
    done = penstock(*words, "--rates", "s=0,idle=0")
    assert re.findall(r"^ (?:all tuples|tuples of busy) *(.*?) *$", done.out, re.M) == ["", ""]
    assert ("no latency can be told" in done.err) == (model in ("microbatch", "sharing"))


def test_what_does_not_fit_is_left_out(penstock, tmp_path) -> None:
    """An order that hosts have no room for does not keep those that fit from being ranked; if none fits it is no."""
    network = tmp_path / "filters.toml"
    network.write_text(
        'name = "f"\n[sources.s]\n'
        '[operators.dear]\nkind = "filter"\ninput = "s"\ncost = 0.01\nselectivity = 0.5\n'
        '[operators.cheap]\nkind = "filter"\ninput = "dear"\ncost = 0.0001\nselectivity = 0.1\n'
        '[sinks.out]\ninput = "cheap"\n'
    )
    asked = ["compare", network, "--hosts", 2, "--reorder", "--json", "--rates"]
    done = penstock(*asked, "s=300")
    assert done.code == 0, done.err
    assert [row["order"] for row in done.document["ranking"]] == [[["cheap", "dear"]]]
    assert any("are left out: 1; of the first" in note and "short by 1.015" in note for note in done.document["notes"])
    assert penstock(*asked, "s=3000").code == 1


@pytest.mark.parametrize(
    "where",
    ['note = "it\'s" and b2 = "X" or note = "that\'s"', r"note = 'it\'s' and b2 = 'X' or note = 'that\'s'",
     r"note = r'\' and b2 = r'\'", "note = 'a' -- it's\nand b2 = 'that''s'", "`b2` = `it's` or x = 'that''s'"],
)  # fmt: skip
def test_a_column_between_texts_is_seen(where) -> None:
    """Texts end where SQL ends them, so that what a condition reads is known whatever is in its texts."""
    assert not commute(step("f", where=where), step("m", "map", select="*, upper(b) as b2"))
    assert not commute(step("f", where="b2 = 1"), step("m", "map", select="*, '(' as b2, x"))


def test_a_ranking_keeps_no_series() -> None:
    """Of each candidate its network and what ranks it are kept, and no series, whose number is that of the periods."""
    network, cluster = row_of(step("a"), step("b")), Cluster.uniform(1)
    where = Placement(dict.fromkeys(network.operators, "h1"))
    rates = Rates.constant({"s": 900.0}, 5000)
    for one in compared(
        [("n", network)], rates, lambda _: [("one", where)], lambda m, p: mace(m, p, cluster), reorder=True
    ):
        assert isinstance(one, Candidate)
        assert len(pickle.dumps(one)) < 20_000
        assert one.estimate.total == mace(load_model(one.made, rates), where, cluster).total
