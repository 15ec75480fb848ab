from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from shedding_cases import FIGURE_1

PLACEMENT = "a1=h1,a2=h1,b1=h2,b2=h2"


@pytest.fixture
def figure(tmp_path: Path) -> Path:
    """Figure 1 of the paper with costs in hundredths."""
    path = tmp_path / "network.toml"
    path.write_text(FIGURE_1)
    return path


def shed(penstock: Any, figure: Path, *more: object) -> Any:
    return penstock("shed", figure, "--hosts", 2, "--placement", PLACEMENT, *more, "--json")


PLANNERS = ["exact", "solver", "solver-w", "c-fit", "d-fit", "random-drop", "input-only"]


@pytest.mark.parametrize("planner", PLANNERS)
def test_every_planner_answers(penstock: Any, figure: Path, tmp_path: Path, planner: str) -> None:
    """Every planner gives a feasible answer with the keys of the contract, and its saved table the same one."""
    table = tmp_path / "table.json"
    found = shed(penstock, figure, "--planner", planner, "--at", "x=100,y=100", "--save", table)
    assert found.code == 0, found.err
    document = found.document
    assert document["feasible"] is True
    assert document["planner"] == planner
    assert document["optimum"] == pytest.approx(60)
    assert document["full"] == pytest.approx(200)
    assert document["score"] <= 60 * (1 + 1e-9)
    if planner in ("exact", "solver", "c-fit", "d-fit"):
        assert document["score"] >= 0.95 * 60
    assert all(row["load"] <= 1 + 1e-9 for row in document["hosts"].values())
    again = shed(penstock, figure, "--plan", table, "--at", "x=100,y=100").document
    for key in ("planner", "score", "keep", "hosts", "entries"):
        assert again[key] == document[key]


def test_a_table_may_be_asked_for_with_its_planner(penstock: Any, figure: Path, tmp_path: Path) -> None:
    """Who names the planner beside its table gets the table's answer; another planner is refused."""
    table, at = tmp_path / "table.json", ("--at", "x=100,y=100")
    assert shed(penstock, figure, "--planner", "c-fit", *at, "--save", table).code == 0
    alone, both = (shed(penstock, figure, "--plan", table, *more, *at) for more in ([], ["--planner", "c-fit"]))
    assert (both.code, both.err) == (0, alone.err)
    assert both.document["keep"] == alone.document["keep"]
    for other in ("exact", "replica"):
        refused = shed(penstock, figure, "--plan", table, "--planner", other, *at)
        assert (refused.code, refused.out) == (2, "")
        assert f"{table}: --planner: '{other}' did not make this table, 'c-fit' did" in refused.err


def test_nothing_to_drop(penstock: Any, figure: Path) -> None:
    """Where everything fits nothing is dropped."""
    document = shed(penstock, figure, "--planner", "c-fit", "--at", "x=10,y=10").document
    assert document["keep"] == {}
    assert document["score"] == document["full"] == document["optimum"] == pytest.approx(20)


def test_plan_in_the_simulator(penstock: Any, figure: Path, tmp_path: Path) -> None:
    """In the simulator a plan keeps its hosts within 1 % of the quota and delivers its score within 1 %."""
    keep = tmp_path / "keep.json"
    delivered = {}
    for planner in ("exact", "random-drop"):
        found = shed(penstock, figure, "--planner", planner, "--at", "x=100,y=100")
        keep.write_text(found.out)
        run = penstock(
            "simulate", figure, "--hosts", 2, "--placement", PLACEMENT, "--rates", "x=100,y=100", "--duration", 3000,
            "--keep", keep, "--json",
        )  # fmt: skip
        assert run.code == 0, run.err
        assert run.document["balanced"]
        delivered[planner] = run.document["delivered"] / 3000
        assert delivered[planner] == pytest.approx(found.document["score"], rel=0.01)
        served = run.document["operators"]
        assert (served["a1"]["served"] * 0.01 + served["a2"]["served"] * 0.02) / 3000 <= 1.01
        assert (served["b1"]["served"] * 0.03 + served["b2"]["served"] * 0.01) / 3000 <= 1.01
    assert delivered["exact"] > delivered["random-drop"]


def test_plan_table_in_the_simulator(penstock: Any, figure: Path, tmp_path: Path) -> None:
    """With --plan the simulator looks the table up by what it measures, and delivers the optimum of Table 1."""
    table, rates = tmp_path / "table.json", tmp_path / "rates.csv"
    shed(penstock, figure, "--planner", "exact", "--at", "x=100,y=100", "--save", table)
    rates.write_text("time,x,y\n" + "".join(f"{100 * k},{x},{x}\n" for k, x in enumerate([10, *[100] * 9])))
    run = ("simulate", figure, "--hosts", 2, "--placement", PLACEMENT, "--rates", rates, "--plan", table, "--json")
    found = penstock(*run, "--control-period", 10).document
    assert found["balanced"]
    assert found["plan"]["looks"] == 100
    assert found["plan"]["outside"] == 0
    assert found["plan"]["keep"] == pytest.approx({"x->a1": 0.2, "y->a2": 0.4})
    # One period of the overload, 10 s, passes before the first look at it.
    assert found["delivered"] == pytest.approx(10 * 200 + 890 * 60 + 10 * 60, rel=0.02)
    wrong = penstock("simulate", figure, "--hosts", 2, "--placement", PLACEMENT.replace("a1=h1", "a1=h2"), *run[6:])
    assert (wrong.code, str(table) in wrong.err) == (2, True)
    both = penstock(*run, "--keep", "x->a1=0.5")
    assert (both.code, "got both" in both.err) == (2, True)


def test_replica_plan_in_the_simulator(penstock: Any, figure: Path, tmp_path: Path) -> None:
    """The simulator takes the fractions of copies, and loses nothing of the result."""
    places = PLACEMENT + ",a1#2=h2,b1#2=h1"
    common = ("--hosts", 2, "--placement", places)
    found = penstock("shed", figure, *common, "--planner", "replica", "--at", "x=20,y=20", "--json")
    keep = tmp_path / "keep.json"
    keep.write_text(found.out)
    run = ("simulate", figure, *common, "--rates", "x=20,y=20", "--duration", 500, "--drain", "--json")
    shedding, plain = penstock(*run, "--keep", keep).document, penstock(*run).document
    assert shedding["delivered"] == plain["delivered"] == 20_000
    assert shedding["dropped"] > 0
    assert all(host["busy"] <= 1.01 for host in shedding["hosts"].values())


def test_replica_command(penstock: Any, figure: Path) -> None:
    """Copies shed, and the whole score stays."""
    places = PLACEMENT + ",a1#2=h2,b1#2=h1"
    found = penstock(
        "shed", figure, "--hosts", 2, "--placement", places, "--planner", "replica", "--at", "x=20,y=20", "--json"
    )
    assert found.code == 0, found.err
    assert found.document["score"] == pytest.approx(40)
    assert found.document["keep"]
    assert set(found.document["intact"]) == {"a1", "a2", "b1", "b2"}
    alone = shed(penstock, figure, "--planner", "replica", "--at", "x=100,y=100")
    assert alone.code == 1
    assert alone.document["feasible"] is False


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_plot(penstock: Any, figure: Path, tmp_path: Path, ending: str, start: bytes) -> None:
    """The plot is what its name's ending says, and the same file each time."""
    path = tmp_path / f"score.{ending}"
    run = ("--planner", "exact", "--at", "x=9,y=9", "--plot", path)
    assert shed(penstock, figure, *run).code == 0
    assert path.read_bytes().startswith(start)


def test_plot_of_another_kind(penstock: Any, figure: Path, tmp_path: Path) -> None:
    """A plot whose name ends otherwise is refused before anything is planned."""
    found = shed(penstock, figure, "--planner", "exact", "--at", "x=9,y=9", "--plot", tmp_path / "score.doc")
    assert (found.code, ".svg, .png or .pdf" in found.err) == (2, True)


def test_tables_of_hosts(penstock: Any, figure: Path, tmp_path: Path) -> None:
    """d-fit says how many rows each host's table has and how many bytes it sent; also from a saved table."""
    table = tmp_path / "table.json"
    document = shed(penstock, figure, "--planner", "d-fit", "--at", "x=100,y=100", "--save", table).document
    assert document["tables"]["h1"]["bytes"] == 0
    assert document["tables"]["h2"]["bytes"] > 24 * document["tables"]["h2"]["entries"]
    assert document["entries"] == sum(row["entries"] for row in document["tables"].values())
    again = shed(penstock, figure, "--plan", table, "--at", "x=100,y=100").document
    assert again["tables"] == document["tables"]


def test_table_of_an_earlier_version(penstock: Any, figure: Path, tmp_path: Path) -> None:
    """A d-fit table without tables of hosts, as earlier versions wrote it, is refused with what to do."""
    table = tmp_path / "table.json"
    shed(penstock, figure, "--planner", "d-fit", "--at", "x=100,y=100", "--save", table)
    document = json.loads(table.read_text())
    document["arrays"] = {"points": document["arrays"]["h1/points"]}
    del document["hash"]
    table.write_text(json.dumps(document))
    found = shed(penstock, figure, "--plan", table, "--at", "x=1,y=1")
    assert (found.code, "build it again with --save" in found.err) == (2, True)


@pytest.mark.parametrize(
    "more",
    [
        ["--planner", "replica", "--upto", "x=9,y=9"],
        ["--planner", "replica", "--error", "0.1"],
        ["--planner", "exact", "--workload", "exponential:0.1"],
        ["--plan", "table.json", "--error", "0.1"],
        ["--plan", "table.json", "--upto", "x=9,y=9"],
        ["--plan", "table.json", "--upto", "x=9,y=9", "--planner", "exact"],
    ],
)
def test_what_a_planner_does_not_heed_is_said(
    penstock: Any, figure: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    """Who asks all planners alike gets an answer of each, and hears what decides nothing; so it is with a table."""
    monkeypatch.chdir(tmp_path)
    if "--plan" in more:
        assert shed(penstock, figure, "--planner", "exact", "--at", "x=1,y=1", "--save", "table.json").code == 0
    expected = shed(penstock, figure, *more[:2], "--at", "x=1,y=1", "--seed", 3).document
    found = shed(penstock, figure, *more, "--at", "x=1,y=1")
    assert found.code == 0, found.err
    why = "is of the making of a table" if "--plan" in more else "goes only with --planner "
    assert found.err.startswith(f"note: {more[2]} {why}")
    assert found.document["keep"] == expected["keep"]


def test_planners_that_do_not_stop_refuse_a_budget(penstock: Any, figure: Path, tmp_path: Path) -> None:
    """A budget is refused by planners that cannot stop before their table is done, and beside a table."""
    for planner in (*PLANNERS, "replica"):
        found = shed(penstock, figure, "--planner", planner, "--at", "x=100,y=100", "--budget", 1)
        taken = planner.startswith("solver")
        refused = "--budget: goes only with --planner solver, solver-w" in found.err
        assert (found.code, refused) == ((0, False) if taken else (2, True))


def test_links_are_links_for_copies_too(penstock: Any, tmp_path: Path) -> None:
    """Copies shed what a link cannot carry, and where intact ones need more of it the answer is no and names it."""
    network, cluster = tmp_path / "network.toml", tmp_path / "cluster.toml"
    network.write_text(
        'name = "copies"\n[sources.s]\n'
        + "".join(
            f'[operators.o{k}]\nkind = "filter"\ninput = "{given}"\ncost = 0.004\nselectivity = 0.5\n'
            for k, given in ((1, "s"), (2, "o1"), (3, "o2"))
        )
        + '[sinks.k]\ninput = "o3"\n'
    )
    cluster.write_text("[hosts.h1]\n[hosts.h2]\n[hosts.h3]\n[links]\ndelay = 0.01\nbandwidth = 100\n")
    places = "o1=h1,o1#2=h3,o2=h2,o2#2=h1,o3=h3,o3#2=h2"
    common = (network, "--cluster", cluster, "--placement", places)
    refused = penstock("shed", *common, "--planner", "replica", "--at", "s=240", "--json")
    assert (refused.code, refused.document["link"]) == (1, "h3->h1")
    found = penstock("shed", *common, "--planner", "replica", "--at", "s=198", "--json")
    assert found.code == 0, found.err
    keep = tmp_path / "keep.json"
    keep.write_text(found.out)
    run = ("simulate", *common, "--rates", "s=198", "--keep", keep, "--duration", 200, "--json")
    simulated = penstock(*run).document
    assert max(link["queued"] for link in simulated["links"].values()) < 200
    assert simulated["latency"]["p99"] < 2


def test_copies_have_a_note(penstock: Any, figure: Path) -> None:
    """Planners of one share a stream say of a placement with copies that shedding on copies may lose less."""
    common = ("shed", figure, "--hosts", 2, "--planner", "exact", "--at", "x=20,y=20", "--json", "--placement")
    copied = penstock(*common, PLACEMENT + ",a1#2=h2,b1#2=h1").document
    assert "--planner replica" in copied["notes"][0]
    assert copied["optimum"] < 40
    assert "notes" not in penstock(*common, PLACEMENT).document


def test_budget(penstock: Any, figure: Path) -> None:
    """Stopped at once, solvers keep and report the error of a single cell."""
    weighted = ("--planner", "solver-w", "--at", "x=100,y=100", "--error", 0.01)
    assert shed(penstock, figure, *weighted, "--budget", 0).document["reached"] == 1
    assert shed(penstock, figure, *weighted).document["reached"] == 0.01
    run = ("--planner", "solver", "--at", "x=100,y=100")
    assert shed(penstock, figure, *run, "--budget", 0).document["reached"] == 1
    assert shed(penstock, figure, *run).document["reached"] == 0.05
    found = shed(penstock, figure, *run, "--budget", -1)
    assert (found.code, "--budget" in found.err) == (2, True)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--planner", "exakt", "--at", "x=1,y=1"], "did you mean 'exact'"),
        (["--planner", "exact", "--at", "x=1"], "'y' has no rate"),
        (["--planner", "exact", "--at", "x=1,z=1"], "'z' is no source"),
        (["--planner", "exact", "--at", "x=1,y=-1"], "a finite number >= 0, got -1"),
        (["--planner", "exact", "--at", "x=1,y=1,x=2"], "given twice"),
        (["--planner", "exact", "--at", "x=1,y=1", "--upto", "x=1,y=0.5"], "--upto"),
        (["--planner", "exact", "--at", "x=1,y=1", "--upto", ""], "--upto"),
        (["--planner", "exact", "--at", "x=1,y=1", "--error", "1.5"], "--error"),
        (["--planner", "solver-w", "--at", "x=1,y=1", "--workload", "normal"], "--workload"),
        (["--at", "x=1,y=1"], "--planner"),
    ],
)
def test_bad_input(penstock: Any, figure: Path, more: list[str], said: str) -> None:
    """Bad input ends with exit code 2 and one message that names it."""
    found = shed(penstock, figure, *more)
    assert found.code == 2
    assert said in found.err


def test_table_of_another_placement(penstock: Any, figure: Path, tmp_path: Path) -> None:
    """A table of another placement, and rates outside its region, end with exit code 2."""
    table = tmp_path / "table.json"
    shed(penstock, figure, "--planner", "exact", "--at", "x=50,y=50", "--upto", "x=60,y=60", "--save", table)
    json.loads(table.read_text())
    outside = shed(penstock, figure, "--plan", table, "--at", "x=70,y=50")
    assert (outside.code, "covers rates up to 60" in outside.err) == (2, True)
    other = penstock(
        "shed", figure, "--hosts", 2, "--placement", "a1=h2,a2=h1,b1=h2,b2=h2", "--plan", table, "--at", "x=1,y=1"
    )
    assert other.code == 2
    assert str(table) in other.err


def test_drops_that_no_run_makes_are_told(penstock: Any, tmp_path: Path) -> None:
    """Where no window behind a stream can be dropped whole, one is told that a run drops nothing there."""
    (tmp_path / "n.toml").write_text(
        'name = "n"\n[sources.s]\n[sources.r]\n[operators.w]\nkind = "join"\ninputs = ["s", "r"]\ncost = 0.01\n'
        'within = "1 second"\nselectivity = 0.001\n'
        '[operators.x]\ninput = "w"\nkind = "aggregate"\ncost = 0.01\nwindow = "2 minutes"\n[sinks.t]\ninput = "x"\n'
    )
    words = ("--hosts", 1, "--placement", "w=h1,x=h1", "--planner", "exact", "--at", "s=500,r=5")
    said = penstock("shed", tmp_path / "n.toml", *words).err
    assert "s->w: no window behind it can be dropped whole, so that a run drops nothing" in " ".join(said.split())


def test_drops_of_whole_windows_are_told(penstock: Any, tmp_path: Path) -> None:
    """Where a stream that drops leads to windows, one is told how long a drop takes to begin and to end."""
    (tmp_path / "n.toml").write_text(
        'name = "n"\n[sources.s]\n[operators.a]\nkind = "map"\ninput = "s"\ncost = 0.01\n[operators.w]\n'
        'kind = "aggregate"\ninput = "a"\nwindow = "1 minute"\ncost = 0.001\n[sinks.t]\ninput = "w"\n'
    )
    words = ("--hosts", 1, "--placement", "a=h1,w=h1", "--planner", "exact", "--at")
    busy, calm = (penstock("shed", tmp_path / "n.toml", *words, f"s={rate}").err for rate in (500, 50))
    assert "s->a: drops whole windows of 60 s" in " ".join(busy.split())
    assert "windows" not in calm


WINDOWS = """
name = "windows"
[sources.clicks]
[operators.minute]
kind = "aggregate"
input = "clicks"
window = "10 seconds"
cost = 0.01
selectivity = 0.1
[operators.hour]
kind = "aggregate"
input = "minute"
window = "60 seconds"
cost = 0.05
selectivity = 0.1
[sinks.out]
input = "hour"
"""


def test_what_cannot_be_dropped_is_not_counted_on(penstock: Any, tmp_path: Path) -> None:
    """In front of windows over windows nothing is dropped, and no table is saved; too much of it is an answer no."""
    network = tmp_path / "windows.toml"
    network.write_text(WINDOWS)
    common = ("shed", network, "--hosts", 1, "--placement", "minute=h1,hour=h1", "--planner", "exact", "--json")
    found = penstock(*common, "--at", "clicks=80").document
    # Of the core 0.8 cannot be dropped, and the rest does half of what the second windows ask for.
    assert found["keep"] == pytest.approx({"minute->hour": 0.5})
    assert found["score"] == found["optimum"] == pytest.approx(0.4)
    assert (found["full"], found["hosts"]["h1"]["load"]) == pytest.approx((0.8, 1.0))
    much = penstock(*common, "--at", "clicks=200")
    assert (much.code, "h1 gets 2 of 1 by what cannot be dropped" in much.err + much.out) == (1, True)
    saved = penstock(*common, "--at", "clicks=80", "--save", tmp_path / "table.json")
    assert (saved.code, "nothing on clicks->minute" in saved.err) == (2, True)
