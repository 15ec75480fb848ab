"""``penstock simulate`` from the outside."""

from __future__ import annotations

import csv

import pytest

NETWORK = """
name = "two-chains"
[sources.clicks]
[sources.buys]
[operators.views]
kind = "filter"
input = "clicks"
cost = 0.002
selectivity = 0.8
[operators.matched]
kind = "join"
inputs = ["views", "buys"]
within = "1 second"
cost = 0.001
selectivity = 0.05
[sinks.dashboard]
input = "matched"
[sinks.raw]
input = "views"
"""
CLUSTER = """
[hosts.h1]
[hosts.h2]
capacity = 2.0
[links]
delay = 0.05
bandwidth = 1000
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "network.toml").write_text(NETWORK)
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def simulate(files, penstock):
    """The command on the network; its options make the rest."""
    return lambda *options: penstock("simulate", "network.toml", "--placement", "views=h1,matched=h2", *options)


@pytest.fixture
def document(simulate):
    """What the command answers on the cluster."""

    def answered(*options):
        done = simulate("--cluster", "cluster.toml", "--json", *options)
        assert done.code == 0, done.err
        return done.document

    return answered


RATES = ("--rates", "clicks=100,buys=20", "--duration", "5")


def test_document_has_the_keys_of_the_contract(document):
    """The document has every key that programs rely on, and the counts balance."""
    found = document(*RATES, "--drain", "--warmup", "1", "--policy", "stimulus")
    statistics = {"mean", "p50", "p99", "max", "count"}
    assert set(found["latency"]) == statistics
    assert set(found["sinks"]["raw"]["latency"]) == statistics
    assert set(found["operators"]["views"]) == {"served", "wait", "busy"}
    assert found["hosts"]["h1"]["busy"] == pytest.approx(0.2, rel=0.02)
    assert found["links"]["h1->h2"] == {"sent": 400, "queued": 0}
    parts = ("delivered", "dropped", "consumed", "queued", "lost")
    assert found["balanced"] is True
    assert found["arrived"] == sum(found[part] for part in parts)
    assert found["streams"]["views->matched"]["arrived"] == 400
    assert found["events"] > 0
    assert found["seconds"] > 0


def test_trace_has_a_row_per_sink_tuple(files, document):
    """The trace has one row per sink tuple whose differences are the latencies."""
    found = document(*RATES, "--drain", "--trace", "out.csv")
    with open(files / "out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == found["latency"]["count"]
    assert max(float(row["egress"]) - float(row["stimulus"]) for row in rows) == pytest.approx(found["latency"]["max"])
    assert len(rows[0]["egress"].partition(".")[2]) >= 9


def test_events_and_drops_are_options(files, document):
    """Failures, recoveries, moves, keep fractions, bounds and single arrivals are read from options and files."""
    (files / "keep.json").write_text('{"keep": {"clicks->views": 0.5}, "score": 3}')
    (files / "arrivals.csv").write_text("time,source,work\n0.0,clicks,1\n0.5,buys,2\n0.5,clicks,1\n")
    options = ("--fail", "h1@1", "--recover", "h1@2", "--move", "matched:h1@3", "--move-time", "0.2", "--queue", "5")
    found = document(*RATES, *options, "--keep", "keep.json")
    assert found["lost"] > 0
    assert found["dropped"] > 0
    assert found["hosts"]["h1"]["busy"] > 0
    single = document("--arrivals", "arrivals.csv", "--drain")
    assert single["streams"]["clicks->views"]["arrived"] == 2


def test_repeated_runs_give_confidence_intervals(document):
    """With --repeat the first run's document also says what all runs say together."""
    alone = document(*RATES, "--seed", "7")
    found = document(*RATES, "--seed", "7", "--repeat", "3")
    assert found["latency"] == alone["latency"]
    assert [run["seed"] for run in found["repeated"]["runs"]] == [7, 8, 9]
    mean = found["repeated"]["latency"]["mean"]
    assert mean["low"] <= mean["mean"] <= mean["high"]


def test_statistics_cost_something(document):
    """With a policy that moves operators the answer says what each host sends for a decision: (m + 1)·k·8 bytes."""
    found = document(*RATES, "--rebalance", "correlation-one-way", "--every", "2", "--window", "3")
    held = sum(row["bytes"] for row in found["statistics"].values())
    assert held == (len(found["operators"]) + len(found["statistics"])) * 3 * 8
    assert all(row["rate"] == row["bytes"] / 2 for row in found["statistics"].values())
    assert "statistics" not in document(*RATES)


def test_picture(files, document):
    """A picture is drawn on request."""
    document(*RATES, "--plot", "out.png")
    assert (files / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "one of --rates and --arrivals"),
        ((*RATES, "--fail", "h1@-1"), "time >= 0"),
        ((*RATES, "--fail", "h1"), "SECONDS"),
        ((*RATES, "--fail", "h1@1 lightyear"), "--fail: expected a duration such as"),
        ((*RATES, "--fail", "h7@1"), "no host"),
        ((*RATES, "--fail", "h7@9"), "no host"),
        ((*RATES, "--move", "matched:h7@1"), "no host"),
        ((*RATES, "--move", "nobody:h1@1"), "no operator"),
        ((*RATES, "--move", "matched@1"), "OPERATOR:HOST"),
        ((*RATES, "--keep", "clicks->nobody=0.5"), "no stream"),
        ((*RATES, "--keep", "clicks->views=2"), "0..1"),
        ((*RATES, "--policy", "lifo"), "no policy"),
        ((*RATES, "--warmup", "-1"), ">= 0"),
        (("--rates", "clicks=1"), "no rate"),
        (("--rates", "clicks=1,buys=1,x=1"), "no source"),
        (("--arrivals", "falling.csv"), "falling.csv:3"),
        (("--arrivals", "stranger.csv"), "stranger.csv"),
        (("--arrivals", "none.csv"), "no such file"),
        ((*RATES, "--repeat", "0"), "at least one run"),
        ((*RATES, "--rebalance", "exact"), "does not move operators"),
        ((*RATES, "--rebalance", "correlation-one-way", "--every", "0"), "period > 0"),
        ((*RATES, "--rebalance", "correlation-one-way", "--window", "0"), "at least 1 sample"),
        ((*RATES, "--rebalance", "correlation-one-way", "--sample", "0.3"), "multiple"),
        ((*RATES, "--rebalance", "correlation-one-way", "--weights", "load=1"), "no such parameter"),
        ((*RATES, "--every", "2"), "--rebalance with --every"),
        ((*RATES, "--move-time", "1"), "--move or --rebalance with --move-time"),
        ((*RATES, "--control-period", "3"), "--plan with --control-period"),
        ((*RATES, "--on-spark", "--trace", "t.csv"), "--trace: is of a single run: does not go with --on-spark"),
        ((*RATES, "--on-spark", "--plot", "t.png"), "--plot: is of a single run: does not go with --on-spark"),
        ((*RATES, "--repeat", "2", "--plot", "t.png"), "--plot: is of a single run: does not go with --repeat"),
        ((*RATES, "--trigger", "-1"), "--trigger: "),
        ((*RATES, "--trigger", "1", "--overhead", "-1"), "--overhead: "),
    ],
)
def test_bad_input_is_one_message_and_exit_code_two(files, options, message, simulate):
    """Bad input ends with code 2, one message and no trace."""
    (files / "falling.csv").write_text("time,source\n1,clicks\n0.5,clicks\n")
    (files / "stranger.csv").write_text("time,source\n1,nobody\n")
    done = simulate("--hosts", "2", "--json", *options)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_operators_move_by_what_is_observed(document):
    """With --rebalance operators move, every move is told, and the same seed moves the same."""
    options = ("--rates", "clicks=400,buys=20", "--duration", "20", "--move-time", "0.2", "--rebalance")
    for name in ("correlation-one-way", "correlation-two-way", "correlation-exchange", "potential-greedy"):
        given = (*options, name, "--every", "2", "--window", "3")
        found = document(*given)
        assert found["balanced"]
        for move in found["moves"]:
            assert set(move) == {"time", "operator", "from", "to"}
            assert move["from"] != move["to"]
            assert move["time"] >= 6
            assert move["time"] % 2 == 0
        assert document(*given)["moves"] == found["moves"]
    still = document(*options[:4])
    assert still["moves"] == []


def test_times_of_events_may_have_a_unit(document):
    """What happens at a time with a unit happens at that time."""
    plain = document(*RATES, "--fail", "h1@0.5", "--recover", "h1@1")
    assert plain["lost"] > 0
    spoken = document(*RATES, "--fail", "h1@500 ms", "--recover", "h1@1 s")
    assert spoken["streams"] == plain["streams"]


def test_what_happens_while_a_run_drains_is_allowed(document):
    """A run that drains goes on after its input, and so may what happens."""
    assert document(*RATES, "--drain", "--fail", "h1@4", "--recover", "h1@6")["balanced"]


def test_moves_told_beforehand_are_in_the_document(document):
    """A move by --move is told in the same way."""
    found = document(*RATES, "--move", "views:h2@1,views:h2@2")
    assert found["moves"] == [{"time": 1.0, "operator": "views", "from": "h1", "to": "h2"}]


def test_what_is_pinned_does_not_move(penstock, tmp_path):
    """A move of an operator to another host than its own is refused before anything runs."""
    path = tmp_path / "n.toml"
    path.write_text('name = "n"\n[sources.s]\n[operators.f]\nkind = "map"\ninput = "s"\ncost = 0.001\npin = "h2"\n')
    given = ("simulate", path, "--hosts", 2, "--rates", "s=10", "--placement", "f=h2")
    assert penstock(*given, "--move", "f:h2@5").code == 0
    refused = penstock(*given, "--move", "f:h1@5")
    assert (refused.code, refused.err) == (2, "penstock: --move: 'f' is pinned to 'h2'\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--fail", "h1@5"), "--fail at 5 s changes nothing, since the run ends at 5 s"),
        (("--move", "views:h2@7"), "--move at 7 s changes nothing, since the run ends at 5 s"),
    ],
)
def test_nothing_happens_when_a_run_is_over(options, said, simulate):
    """What is to happen at the end of a run or after it is told, and changes no figure."""
    rates = ("--hosts", "2", "--json", "--rates", "clicks=600,buys=20", "--duration", "5")
    plain, late = simulate(*rates).document, simulate(*rates, *options)
    assert late.err == f"note: {said}\n"
    told = late.document
    assert plain["queued"] > 0
    assert {**told, "seconds": 0} == {**plain, "seconds": 0}


def test_times_count_from_the_beginning_of_the_rates(files, simulate):
    """Of a file that begins later, a time that is too late for the run is told with where it begins."""
    (files / "late.csv").write_text("time,clicks,buys\n100,9,9\n101,9,9\n102,9,9\n")
    done = simulate("--hosts", "2", "--rates", "late.csv", "--fail", "h1@1", "--recover", "h1@102", "--json")
    assert done.code == 0
    assert "--recover at 102 s" in done.err
    assert "times count from the beginning of the rates, which is 100 in their file" in done.err


def test_a_warm_up_of_the_whole_run_leaves_no_latency(simulate):
    """Where the warm-up lasts until the end, latencies are not known, also of several runs, and it is told."""
    rates = ("--hosts", "2", "--json", "--rates", "clicks=60,buys=20", "--duration", "5")
    for more in ((), ("--repeat", "2")):
        done = simulate(*rates, "--warmup", "5", *more)
        assert done.code == 0, done.err
        assert done.document["latency"]["max"] is None
        assert "--warmup lasts until the run ends at 5 s" in done.err


def test_the_interval_has_the_overhead_that_was_asked_for(penstock, tmp_path):
    """A fixed time of every batch counts in the interval as in the run."""
    network = tmp_path / "network.toml"
    network.write_text(
        'name = "one"\n[sources.a]\n[operators.x]\nkind = "map"\ninput = "a"\ncost = 0.0001\n[sinks.out]\ninput = "x"\n'
    )
    given = ["--hosts", "1", "--placement", "x=h1", "--rates", "a=100", "--trigger", "1", "--overhead", "0.5"]
    found = penstock("simulate", str(network), *given, "--json").document
    low, high = found["interval"]["worst"]
    assert low <= found["latency"]["max"] + 0.02
    assert high == pytest.approx(found["latency"]["max"], abs=0.05)


@pytest.mark.parametrize(
    "words", [["simulate"], ["simulate", "--trigger", "0.1"], ["control", "--policy", "shed", "--for", "30", "--fresh"]]
)
def test_hosts_are_as_fast_as_statistics_say(penstock, tmp_path, monkeypatch, words):
    """A host that takes twice as long in place does so in every simulation, of batches and of single rows."""
    monkeypatch.chdir(tmp_path)
    network, statistics = tmp_path / "network.toml", tmp_path / "statistics.json"
    network.write_text(
        'name = "one"\n[sources.a]\n[operators.x]\nkind = "map"\ninput = "a"\ncost = 0.01\n[sinks.out]\ninput = "x"\n'
    )
    given = [network, "--hosts", "1", "--placement", "x=h1", "--rates", "a=40", "--duration", "30", "--json"]
    for factor, busy in ((1.0, 0.4), (2.0, 0.8)):
        statistics.write_text(f'{{"operators": {{}}, "hosts": {{"h1": {{"factor": {factor}}}}}}}')
        found = penstock(*words[:1], *given, *words[1:], "--statistics", statistics).document
        assert found["hosts"]["h1"]["busy"] == pytest.approx(busy, abs=0.02)
