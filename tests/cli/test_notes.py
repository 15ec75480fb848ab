"""Notes and warnings beside an answer: what was assumed, and what is doubtful in a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from penstock.cli import common, reading
from penstock.cluster import Cluster
from penstock.errors import Infeasible, InputError
from penstock.load import Statistics
from penstock.network import read_network

TWO = Path("examples/two-chains")
RATES = ["--rates", "clicks=10,buys=5"]
ON = "views=h1,scored=h1,paid=h2,billed=h2"
PLACED = ["--cluster", TWO / "cluster.toml", "--placement", TWO / "placement.json"]
ASSUMED = "note: operators.paid, operators.views have no selectivity; 1 is assumed\n"
PLANNING: dict[str, list[object]] = {
    "load": ["NETWORK", *RATES],
    "place": ["NETWORK", "--hosts", 2, *RATES],
    "estimate": ["NETWORK", *PLACED, *RATES],
    "compare": ["NETWORK", "--hosts", 2, *RATES],
    "simulate": ["NETWORK", *PLACED, *RATES, "--duration", 2],
    "shed": ["NETWORK", *PLACED, "--planner", "exact", "--at", "clicks=1000,buys=20"],
    "admit": ["NETWORK", TWO / "alarm.toml", *PLACED, *RATES, "--latency", 9],
    "provision": ["NETWORK", "--host-like", "h1", "--latency", 5, *RATES],
}


def written(folder: Path, *changes: tuple[str, str]) -> Path:
    """Return a copy of the two chains with changes."""
    text = (TWO / "network.toml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "shop.toml"
    path.write_text(text)
    return path


def open_selectivities(folder: Path) -> Path:
    """Return a copy of the two chains of which no selectivity is known."""
    kept = [line for line in (TWO / "network.toml").read_text().splitlines() if not line.startswith("selectivity")]
    path = folder / "shop.toml"
    path.write_text("\n".join(kept) + "\n")
    return path


def put(command: str, network: Path) -> list[object]:
    """Return the words of a command on a network."""
    return [command, *(network if word == "NETWORK" else word for word in PLANNING[command])]


@pytest.mark.parametrize("command", sorted(PLANNING))
@pytest.mark.parametrize("json", [False, True])
def test_assumed_selectivities_are_named(penstock: Any, root: Path, tmp_path: Path, command: str, json: bool) -> None:
    """Each command that plans says once, and not in its document, of which operators it assumes a selectivity of 1."""
    done = penstock(*put(command, open_selectivities(tmp_path)), *(["--json"] if json else []))
    assert done.code == 0, done.err
    assert done.err.count(ASSUMED) == 1
    assert "is assumed" not in done.out
    assert "is assumed" not in penstock(*put(command, TWO / "network.toml")).err


def test_one_operator_has_none(penstock: Any, root: Path, tmp_path: Path) -> None:
    """Of a single operator the note speaks of one."""
    done = penstock("load", written(tmp_path, ("selectivity = 0.5\n", "")), *RATES)
    assert done.err == "note: operators.paid has no selectivity; 1 is assumed\n"


def test_statistics_leave_nothing_to_assume(penstock: Any, root: Path) -> None:
    """Where statistics fill in the selectivities there is no note."""
    known = ["--statistics", "examples/word-count/statistics.json"]
    done = penstock("load", "examples/word-count/network.toml", "--rates", "lines=10", *known)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("command", ["calibrate", "control", "run"])
def test_what_measures_assumes_nothing(command: str, root: Path, tmp_path: Path) -> None:
    """Commands that measure selectivities do not speak of assumed ones, and yet warn."""
    from penstock.cli import reading

    network = open_selectivities(tmp_path)
    network.write_text(network.read_text().partition("[sinks.ledger]")[0])
    common.begin(command)
    reading.get_network(str(network))
    assert list(common._notes) == [f"penstock: warning: {network}:31: operators.billed: nothing reads it"]
    common.begin("load")


@pytest.mark.parametrize("command", sorted(set(PLANNING) - {"admit"}))
def test_an_operator_that_nothing_reads_is_a_warning(penstock: Any, root: Path, tmp_path: Path, command: str) -> None:
    """An operator whose rows go nowhere is named with its line, and the command answers all the same."""
    network = written(tmp_path, ('input = "billed"', 'input = "paid"'))
    done = penstock(*put(command, network))
    assert done.code == 0, done.err
    assert done.err.count(f"warning: {network}:34: operators.billed: nothing reads it\n") == 1


def test_warnings_leave_the_document_alone(penstock: Any, root: Path, tmp_path: Path) -> None:
    """A network with a doubt has the same document as without, where the doubt changes no number."""
    words = ["load", "NETWORK", *RATES, "--json"]
    plain = penstock(*[TWO / "network.toml" if word == "NETWORK" else word for word in words])
    network = written(tmp_path, ('input = "billed"', 'input = "paid"'))
    doubtful = penstock(*[network if word == "NETWORK" else word for word in words])
    assert plain.err == ""
    assert doubtful.err != ""
    assert doubtful.document == plain.document


def test_a_filter_that_multiplies_is_a_warning(penstock: Any, root: Path, tmp_path: Path) -> None:
    """A filter that is to put out more than comes in is named with line and number."""
    network = written(tmp_path, ("selectivity = 0.5", "selectivity = 1.8"))
    done = penstock("load", network, *RATES)
    assert done.code == 0
    assert done.err.startswith(f"penstock: warning: {network}:32: operators.paid.selectivity: a filter")
    assert "got 1.8" in done.err


def test_a_refusal_stays_one_message(penstock: Any, root: Path, tmp_path: Path) -> None:
    """Where there is no answer there are no notes beside the refusal, and none is left for the next command."""
    refused = penstock("load", open_selectivities(tmp_path), "--rates", "clicks=1")
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert penstock("load", TWO / "network.toml", *RATES).err == ""


def test_an_answer_of_no_has_its_notes(capsys: pytest.CaptureFixture[str]) -> None:
    """That the answer is no may come from what was assumed, so it is said; beside a refusal it is not."""
    for error, expected in ((Infeasible("h1 is full"), 2), (InputError("no such file"), 1)):
        common.begin("place")
        common.note("note: one")
        common.note("note: one")
        with pytest.raises(SystemExit):
            common.fail(error, as_json=False)
        assert capsys.readouterr().err.count("\n") == expected
    common.begin("place")


def test_notes_of_a_refused_command_are_forgotten(penstock: Any, root: Path, tmp_path: Path) -> None:
    """What a command noted that was then refused does not stand in the answer of the next, whichever that is."""
    refused = penstock("load", open_selectivities(tmp_path), "--rates", "strangers=1")
    assert refused.code == 2
    done = penstock("inspect", "examples/event-log/spark-4.3.zstd", "--json")
    assert done.code == 0, done.err
    assert "is assumed" not in done.err


def test_periods_that_do_not_fit_the_duration_are_told(penstock: Any, root: Path) -> None:
    """Inline rates are cut into equal periods: where the one given does not fit, the one taken is named."""
    words = ["load", TWO / "network.toml", "--hosts", 2, *RATES, "--duration", 10, "--json", "--period"]
    assert penstock(*words, 2.5).err == ""
    outcome = penstock(*words, 3)
    assert outcome.document["period"] == 2.5
    assert outcome.err == "note: 10 s are no whole number of periods of 3 s: 2.5 s are taken\n"


@pytest.mark.parametrize("algorithm", [None, "random", "connected"])
def test_without_rates_sources_bring_equally_much(
    root: Path, capsys: pytest.CaptureFixture[str], algorithm: str | None
) -> None:
    """A placement needs no rates: equal ones are assumed, and told, and quotas that they exceed forbid nothing."""
    network = read_network(TWO / "network.toml")
    common.begin("run")
    for cluster in (Cluster.uniform(2), Cluster.uniform(2, 1e-9)):
        placed = reading.decide_placement(reading.Deployment(network, Statistics(), cluster), None, algorithm, None, 0)
        assert placed.keys() == network.operators.keys()
    assert algorithm == "random" or set(placed.values()) == {"h1", "h2"}
    common.say_notes()
    said = "note: operators are placed for equal rates of all sources; --rates says what comes\n"
    assert capsys.readouterr().err == ("" if algorithm == "random" else said)


def test_some_placements_need_no_costs(root: Path) -> None:
    """Without rates, placements by chance and by whole queries are there without costs too; others name what lacks."""
    network = read_network(TWO / "network.toml")
    bare = network.having([attrs.evolve(each, cost=None) for each in network.operators.values()])
    deployed = reading.Deployment(bare, Statistics(), Cluster.uniform(2))
    for algorithm in ("random", "connected"):
        assert reading.decide_placement(deployed, None, algorithm, None, 0).keys() == bare.operators.keys()
    with pytest.raises(InputError, match="has no cost"):
        reading.decide_placement(deployed, None, None, None, 0)


def test_a_missing_cost_is_missing_in_its_file(penstock: Any, root: Path, tmp_path: Path) -> None:
    """Of a running and a new network the one is named that lacks a cost, and a plan names the file as well."""
    text = (TWO / "alarm.toml").read_text().splitlines()
    new, old = tmp_path / "new.toml", tmp_path / "old.toml"
    new.write_text("\n".join(line for line in text if not line.startswith("cost")))
    text = (TWO / "network.toml").read_text().splitlines()
    old.write_text("\n".join(line for line in text if not line.startswith("cost")))
    asked = ["admit", TWO / "network.toml", new, *PLACED, *RATES, "--latency", 9]
    assert penstock(*asked).err.startswith(f"penstock: {new}: operators.")
    assert penstock(*put("shed", old)).err.startswith(f"penstock: {old}: operators.")


@pytest.mark.parametrize(
    ("overhead", "placement", "words", "told"),
    [
        (0.2, ON, [], True),
        (0.0, ON, [], False),
        (0.2, f"{ON},views#2=h2", [], False),
        (0.2, ON, ["--model", "mace"], False),
        (0.2, ON, ["--model", "microbatch"], False),
    ],
)
def test_batches_that_nobody_asked_about_are_told(
    penstock: Any, tmp_path: Path, overhead: float, placement: str, words: list[str], told: bool
) -> None:
    """Where statistics are of Spark and nothing else is, an estimate by a model without batches says so."""
    (tmp_path / "known.json").write_text(json.dumps({"operators": {}, "hosts": {"h1": {"overhead": overhead}}}))
    done = penstock(
        "estimate", TWO / "network.toml", "--hosts", 2, *RATES, "--placement", placement, "--statistics",
        tmp_path / "known.json", *words,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert ("ask with --model microbatch" in done.err) is told


@pytest.mark.parametrize("command", sorted(PLANNING.keys() - {"load", "simulate"}))
def test_a_plan_says_where_a_cost_that_could_not_be_told_may_matter(
    command: str, penstock: Any, root: Path, tmp_path: Path
) -> None:
    """A plan says of a cost below what calibration could tell from 0 what it may come to, and not of one above."""
    hidden, seen = {"cost": 1e-9, "error": 1.0, "resolution": 0.1}, {"cost": 2e-3, "error": 0.1, "resolution": 1e-4}
    statistics, given = tmp_path / "statistics.json", "cost = 0.0002                         # seconds of"
    statistics.write_text(json.dumps({"operators": {"views": hidden, "paid": hidden, "scored": seen}, "hosts": {}}))
    done = penstock(*put(command, written(tmp_path, (given, "# seconds of"))), "--statistics", statistics)
    cores = 100 if command == "shed" else 1
    said = f"note: views: cost below 100,000 µs, taken as 0; at these rates it may be up to {cores} cores\n"
    # That of `paid` stands in the network.
    assert done.err.count(said) == 1, done.err
    assert "paid: cost" not in done.err
    assert "scored: cost" not in done.err


WINDOWS = (
    'name = "n"\n[sources.s]\nformat = "rate"\noptions = { rowsPerSecond = 9 }\ntime = "timestamp"\n'
    '[operators.a]\nkind = "filter"\ninput = "s"\nwhere = "true"\ncost = 1e-3\nselectivity = 1\n'
    '[operators.w]\nkind = "aggregate"\ninput = "a"\nby = []\nwindow = "5 minutes"\nselect = ["count(*) as n"]\n'
    'cost = 1e-3\nselectivity = 0.1\n[sinks.rows]\ninput = "a"\n[sinks.windows]\ninput = "w"\n'
)
"""A network with windows of 5 minutes."""


def test_decisions_say_which_sinks_they_know_nothing_of(penstock: Any, tmp_path: Path) -> None:
    """A yes that rests on sinks behind windows that do not end within the rates says so, and gives no 0 for them."""
    path, new = tmp_path / "network.toml", tmp_path / "new.toml"
    path.write_text(WINDOWS)
    new.write_text(
        'name = "m"\n[sources.s]\n[operators.b]\nkind = "filter"\ninput = "s"\nwhere = "true"\ncost = 1e-3\n'
        'selectivity = 1\n[sinks.more]\ninput = "b"\n'
    )
    said, placed = "no window before windows ends within the rates of 60 s", "a=h1,w=h1"
    common = ["--rates", "s=9", "--model", "microbatch", "--json"]
    admitted = penstock("admit", path, new, "--hosts", 1, "--placement", placed, "--latency", 9, *common).document
    # It shares the host of the windows, and nobody knows how late these are with it.
    assert not admitted["admitted"]
    assert (admitted["breaks"], admitted["unknown"]) == ([], ["windows"])
    assert admitted["sinks"]["windows"]["worst"] is admitted["sinks"]["windows"]["before"] is None
    assert admitted["sinks"]["rows"]["worst"] is not None
    for found in (
        admitted,
        penstock("provision", path, "--host-like", "h1", "--latency", 9, *common).document,
        penstock("compare", path, "--hosts", 1, "--placements", placed, *common).document,
        penstock("estimate", path, "--hosts", 1, "--placement", placed, *common).document,
    ):
        assert sum(said in note for note in found["notes"]) == 1
    assert found["sinks"]["windows"]["worst"] is found["sinks"]["windows"]["interval"]["worst"] is None
    assert found["worst"] == max(found["series"]) > 0


def test_only_sinks_that_a_query_may_delay_decide(penstock: Any, tmp_path: Path) -> None:
    """A query is kept away from windows of which nothing is known, and refused where it brings such; not in doubt."""
    path, new = tmp_path / "network.toml", tmp_path / "new.toml"
    path.write_text(WINDOWS)
    query = (
        'name = "m"\n[sources.s]\n[operators.b]\nkind = "filter"\ninput = "s"\nwhere = "true"\ncost = 1e-3\n'
        'selectivity = 1\n[sinks.more]\ninput = "b"\n'
    )
    new.write_text(query)
    asked = ["--placement", "a=h1,w=h1", "--latency", 9, "--rates", "s=9", "--model", "microbatch"]
    found = penstock("admit", path, new, "--hosts", 2, *asked, "--json").document
    assert found["admitted"]
    assert (found["placement"], found["unknown"]) == ({"b": "h2"}, [])
    assert found["sinks"]["windows"]["worst"] is None
    assert penstock("admit", path, new, "--hosts", 2, *asked, "--sure", "--json").document["unknown"] == ["windows"]
    assert penstock("admit", path, new, "--hosts", 1, *asked, "--duration", 700).code == 0
    path.write_text(query)
    new.write_text(WINDOWS)
    asked[1] = "b=h1"
    refused = penstock("admit", path, new, "--hosts", 2, *asked)
    assert refused.code == 1
    assert "not known to keep it: windows" in refused.err
    assert "give longer rates (--duration" in refused.err
    sure = ["--host-like", "h1", *asked[2:]]
    assert penstock("provision", new, *sure).code == 0
    refused = penstock("provision", new, *sure, "--sure")
    assert refused.code == 1
    assert "no window before windows ends" in refused.err


@pytest.mark.parametrize("model", ["mace", "pipelined", "microbatch", "sharing"])
def test_numbers_are_there_where_nothing_waits_for_a_window(penstock: Any, tmp_path: Path, model: str) -> None:
    """Where nothing comes, or a filter lets nothing through, latencies are 0 as the series is, and so are intervals."""
    path = tmp_path / "network.toml"
    path.write_text(
        'name = "n"\n[sources.s]\n[operators.a]\nkind = "filter"\ninput = "s"\ncost = 1e-3\nselectivity = 0\n'
        '[sinks.o]\ninput = "a"\n'
    )
    for rate in (0, 9):
        asked = ["--hosts", 1, "--rates", f"s={rate}", "--model", model, "--json"]
        found = penstock("estimate", path, *asked, "--placement", "a=h1").document
        sink = found["sinks"]["o"]
        assert {sink[key] for key in ("worst", "p99", "p50", "mean")} == set(found["tuples"].values()) == {0.0}
        assert found["worst"] == max(found["series"])
        assert found["interval"]["worst"] == [found["p05"]["worst"], found["p95"]["worst"]]
        assert sink["interval"]["worst"] == [0.0, 0.0]
        (best,) = penstock("compare", path, *asked, "--placements", "a=h1").document["ranking"]
        assert (best["worst"], best["mean"]) == (found["worst"], found["mean"])


def test_sinks_whose_windows_do_not_end_are_named(penstock: Any, root: Path, tmp_path: Path) -> None:
    """Where no window before a sink ends within the rates an estimate says why nothing is told of the sink."""
    path = tmp_path / "network.toml"
    path.write_text(WINDOWS)
    asked = ["--hosts", 1, "--placement", "a=h1,w=h1", "--rates", "s=9", "--model", "microbatch"]
    said = "note: no window before windows ends within the rates of 60 s"
    assert said in penstock("estimate", path, *asked, "--duration", 60).err
    assert "no window" not in penstock("estimate", path, *asked, "--duration", 700).err
    # Nor where no row comes.
    path.write_text(path.read_text().replace("selectivity = 0.1", "selectivity = 0"))
    assert "no window" not in penstock("estimate", path, *asked, "--duration", 60).err
