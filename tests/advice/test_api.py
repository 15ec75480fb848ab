"""``import penstock`` in a notebook: the values of the commands, tables, pictures, and a light import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import penstock as library
from penstock.errors import Infeasible, InputError
from penstock.load import read_statistics
from penstock.simulation import MicroBatch, Options
from penstock.telemetry.worker import Worker

LOG = "examples/event-log/spark-4.3.zstd"
RATES = {"clicks": 10.0, "buys": 5.0}


def test_the_import_is_light() -> None:
    """Importing penstock brings in neither numpy nor pyspark nor matplotlib."""
    code = "import sys, penstock; print([m for m in ('numpy', 'pandas', 'pyspark', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_inspect_has_the_numbers_of_the_command(penstock: Any, root: Path) -> None:
    """The table of queries has the numbers of ``penstock inspect --json``."""
    found = library.inspect(LOG)
    told = penstock("inspect", LOG, "--json").document["queries"]
    assert isinstance(found.queries, pd.DataFrame)
    assert list(found.queries.index) == list(told)
    for name, row in told.items():
        assert found.queries.loc[name, "rate_mean"] == pytest.approx(row["rate"]["mean"])
    assert found.queries.loc["filter", "overhead"] == pytest.approx(told["filter"]["overhead"])
    assert len(found.batches("filter")) == told["filter"]["batches"]
    assert set(found.findings.columns) == {"kind", "about", "says"}
    assert found.applications["cores"].iloc[0] == 2


def test_notebooks_show_it(root: Path) -> None:
    """A notebook shows tables, and what is said in them is escaped."""
    found = library.inspect(LOG, until="2026-11-22T10:32:40")
    assert "<table" in found._repr_html_()
    assert "filter" in repr(found)
    advised = found.advise(latency="6 s", burst=12)
    assert "<table" in advised._repr_html_()
    assert len(advised.table) == len(advised)
    assert repr(advised)


def test_advise_has_the_numbers_of_the_command(penstock: Any, root: Path) -> None:
    """Advice in a notebook is that of the command, number by number."""
    here = library.inspect(LOG).advise(latency=30, burst=3).document()
    there = penstock("advise", LOG, "--latency", "30", "--burst", "3", "--json").document
    assert json.loads(json.dumps(here)) == there


def test_plots_are_figures(root: Path, tmp_path: Path) -> None:
    """Every plot is a figure that can be saved."""
    found = library.inspect(LOG)
    figures = [found.plot("join"), found.plot(), found.plot(kind="correlation")]
    figures.append(found.advise(latency=30, burst=3).plot())
    for number, figure in enumerate(figures):
        figure.savefig(tmp_path / f"{number}.png")
        assert (tmp_path / f"{number}.png").stat().st_size > 5000
    with pytest.raises(InputError, match="no query"):
        found.plot("joint")
    with pytest.raises(InputError, match="load or correlation"):
        found.plot(kind="pie")


class Listening:
    """What a listener is to inspect."""

    def __init__(self, folder: Path | None) -> None:
        self.folder, self.flushed = folder, False

    def flush(self) -> None:
        """Write what waits."""
        self.flushed = True


def test_a_listener_is_read_where_it_writes(make: Any, tmp_path: Path) -> None:
    """A listener is flushed and its folder read; one without a folder is refused."""
    lines = [json.dumps(make.progress(batch)) for batch in make.paced()]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    listener = Listening(tmp_path)
    assert list(library.inspect(listener).inspection.queries) == ["clicks"]
    assert listener.flushed
    with pytest.raises(InputError, match="keeps no events"):
        library.inspect(Listening(None))


def test_progress_reports_are_read(make: Any) -> None:
    """The reports of a query's recentProgress are inspected as they are, and what is none of all this is refused."""
    reports = [make.progress(batch) for batch in make.paced()]
    found = library.inspect(reports)
    assert len(found.batches("clicks")) == 60
    assert found.advise(latency=9, burst="3x", cores={"progress": 2}).consultation.burst.factor == 3
    assert len(library.inspect(reports[0]).batches("clicks")) == 1
    for wrong in (None, 3, [reports[0], "log"], [reports[0], 3]):
        with pytest.raises(InputError, match=r"^source: expected logs, a listener or progress reports"):
            library.inspect(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^nothing could be read"):
        library.inspect([{"id": "x"}])
    with pytest.raises(InputError, match="continuous trigger, which reports no batch"):
        library.inspect([])
    with pytest.raises(InputError, match="expected a factor such as 3 or 3x"):
        found.advise(burst="much")


def test_networks_take_what_notebooks_have() -> None:
    """Networks are also files, rates also data frames, placements also answers, and numbers of hosts also numpy's."""
    path = "examples/two-chains/network.toml"
    rates = pd.DataFrame({"clicks": [100.0, 200.0], "buys": [20.0, 40.0]})
    answer = library.place(path, rates, np.int64(2))
    plain = library.estimate(
        library.load_network(path), {"clicks": [100, 200], "buys": [20, 40]}, dict(answer.placement)
    )
    assert library.estimate(path, rates, answer).total == plain.total


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"network": {}}, "network: expected a network or its file, got dict"),
        ({"hosts": 2.0}, "hosts: expected a whole number of hosts"),
        ({"hosts": True}, "hosts: expected a whole number of hosts"),
        ({"rates": 3}, "rates: expected rates by source"),
        ({"rates": {0: 1.0, "buys": 1}}, "rates: expected rates by names of sources"),
        ({"rates": {"clicks": [[1, 2]], "buys": 1}}, "rates: expected as many rates"),
        ({"rates": {"clicks": "many", "buys": 1}}, "rates: expected numbers"),
        ({"previous": 3}, "placement: expected hosts by operator"),
        ({"algorithm": "corelation"}, "algorithm: 'corelation' is no placement algorithm"),
        ({"theta": 0.5}, r"theta: .* \(pass previous\)"),
        ({"measure": "x"}, "measure: expected one of"),
        ({"move_cost": -1.0}, "move_cost: expected a finite cost"),
        ({"overload": "soft"}, "overload: expected True or False, got 'soft'"),
        ({"replicas": 1.5}, "replicas: expected a whole number, got 1.5"),
        ({"replicas": 2}, "replicas: correlation places no replicas"),
    ],
)
def test_bad_arguments_are_named_as_in_python(wrong: dict[str, Any], says: str) -> None:
    """Bad input raises InputError, which names the parameter and no option of the command."""
    good = {"network": "examples/two-chains/network.toml", "rates": {"clicks": 100, "buys": 20}}
    with pytest.raises(InputError, match=f"^{says}"):
        library.place(**{**good, **wrong})


def test_a_worker_is_flushed() -> None:
    """After a flush all that was put is done; a closed worker does not hold it up."""
    done: list[int] = []
    worker = Worker("test")
    for number in range(100):
        worker.put(lambda number=number: done.append(number))  # type: ignore[misc]
    worker.flush()
    assert done == list(range(100))
    worker.close()
    worker.flush()


def test_tables_do_without_pandas(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Where pandas is not installed, tables are lists of rows."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    found = library.inspect(LOG, until="2026-11-22T10:32:40")
    assert found.queries[0]["query"] == "filter"
    assert "<pre>" in found._repr_html_()


def test_networks_have_the_values_of_the_commands(penstock: Any, root: Path) -> None:
    """place, estimate, simulate and shed give what the commands print."""
    folder = "examples/two-chains"
    network = library.load_network(f"{folder}/network.toml")
    files = [f"{folder}/network.toml", "--hosts", "2", "--rates", "clicks=100,buys=20"]
    rates = {"clicks": 100.0, "buys": 20.0}

    placed = library.place(network, rates)
    assert (
        dict(placed.placement)
        == penstock("place", *files, "--algorithm", "correlation", "--json").document["placement"]
    )
    inline = ",".join(f"{o}={h}" for o, h in placed.placement.items())

    worst = penstock("estimate", *files, "--placement", inline, "--model", "pipelined", "--json").document["worst"]
    assert library.estimate(network, "clicks=100,buys=20", placed.placement).total.worst == pytest.approx(worst)

    latency = penstock("simulate", *files, "--placement", inline, "--json").document["latency"]
    assert library.simulate(network, rates, placed.placement).latency["max"] == pytest.approx(latency["max"])

    at = penstock(
        "shed", files[0], "--hosts", "2", "--placement", inline, "--planner", "exact", "--at", "clicks=1000,buys=200",
        "--json",
    ).document  # fmt: skip
    found = library.shed(network, placed.placement, {"clicks": 1000, "buys": 200})
    assert found.feasible
    assert found.score == pytest.approx(at["score"])
    assert dict(found.keep) == pytest.approx(at["keep"])


def test_statistics_count_as_in_the_commands(penstock: Any, tmp_path: Path) -> None:
    """In every function that takes statistics, what the network leaves open and the factors come from them."""
    network, file = str(tmp_path / "n.toml"), str(tmp_path / "s.json")
    Path(network).write_text(
        'name = "n"\n[sources.s]\n[sinks.t]\ninput = "b"\n[operators.a]\nkind = "filter"\ninput = "s"\ncost = 0.001\n'
        '[operators.b]\nkind = "map"\ninput = "a"\n'
    )
    rows = '"a": {"cost": 0.5, "selectivity": 0.1}, "b": {"cost": 0.02, "selectivity": 1.0}'
    Path(file).write_text(f'{{"operators": {{{rows}}}, "hosts": {{"h2": {{"factor": 12.0}}}}}}')
    given, placed, rates = [network, "--hosts", 2, "--statistics", file], {"a": "h1", "b": "h2"}, {"s": 100.0}
    inline = ["--placement", "a=h1,b=h2", "--json"]
    for known in (file, read_statistics(file)):
        late = library.estimate(network, rates, placed, statistics=known).total.worst
        assert late > 0
        assert late == penstock("estimate", *given, "--rates", "s=100", *inline).document["worst"]
        told = penstock("shed", *given, "--at", "s=1000", "--planner", "exact", *inline).document
        assert library.shed(network, placed, {"s": 1000.0}, statistics=known).keep == told["keep"]
        assert list(told["keep"].values()) == pytest.approx([0.5])
        answer = library.place(network, rates, statistics=known, algorithm="exact")
        assert answer.value == library.estimate(network, rates, answer, statistics=known).total.worst == 0
        assert library.load_network(network, known).operators["b"].cost == (0.02,)


@pytest.mark.parametrize("trigger", [None, 0.5])
def test_simulations_take_statistics_as_the_command(penstock: Any, tmp_path: Path, trigger: float | None) -> None:
    """Costs, factors, and overheads of batches come from statistics where they are given; without costs it says so."""
    network, file = tmp_path / "n.toml", tmp_path / "s.json"
    network.write_text('name = "n"\n[sources.s]\n[operators.a]\nkind = "map"\ninput = "s"\n[sinks.t]\ninput = "a"\n')
    file.write_text(
        '{"operators": {"a": {"cost": 0.002, "selectivity": 0.5, "overhead": 0.02}}, '
        '"hosts": {"h1": {"overhead": 0.1, "factor": 3.0}}}'
    )
    batches = [] if trigger is None else ["--trigger", trigger]
    told = penstock("simulate", network, "--hosts", 1, "--statistics", file, "--placement", "a=h1", "--rates", "s=100",
                    "--seed", 3, "--json", *batches).document  # fmt: skip
    options = Options(microbatch=None if trigger is None else MicroBatch(trigger=trigger))
    for known in (file, read_statistics(file)):
        found = library.simulate(network, {"s": 100}, {"a": "h1"}, 1, options=options, statistics=known, seed=3)
        assert found.latency == told["latency"]
        assert found.latency["max"] > (0.0059 if trigger is None else 0.12)
    with pytest.raises(InputError, match=r"has no cost .give it, or pass statistics from calibrate"):
        library.simulate(network, {"s": 100}, {"a": "h1"}, 1)


def test_copies_are_placed_from_python_as_by_the_command(penstock: Any, root: Path) -> None:
    """An algorithm places as many copies as by the command, unless told how many; previous ones may be more."""
    path, before = (
        root / "examples/two-chains/network.toml",
        "views=h1,views#2=h2,views#3=h3,scored=h1,paid=h2,billed=h3",
    )
    given = ["place", path, "--hosts", 4, "--rates", "clicks=10,buys=5", "--previous", before, "--json"]
    for algorithm, more, words in (
        ("economical-replicated", {}, []),
        ("economical", {"replicas": 3}, ["--replicas", 3]),
        ("correlation", {}, []),
    ):
        told = penstock(*given, "--algorithm", algorithm, *words).document
        found = library.place(path, RATES, 4, algorithm=algorithm, previous=before, **more)
        assert found.document() == {key: told[key] for key in found.document()}


def test_copies_are_shed_from_python_as_by_the_command(penstock: Any, root: Path) -> None:
    """The planner for copies gives the command's fractions, and its no is an error."""
    path = root / "examples/two-chains/network.toml"
    network = library.load_network(path)
    placed = {name: f"h{1 + k % 2}" for k, name in enumerate(network.operators)}
    placed |= {f"{name}#2": f"h{1 + (k + 1) % 2}" for k, name in enumerate(network.operators)}
    inline = ",".join(f"{name}={host}" for name, host in placed.items())
    at = {"clicks": 150.0, "buys": 70.0}
    told = penstock("shed", path, "--hosts", 2, "--placement", inline, "--planner", "replica", "--json",
                    "--at", ",".join(f"{name}={rate}" for name, rate in at.items()))  # fmt: skip
    found = library.shed(network, placed, at, planner="replica")
    assert told.code == 0, told.err
    assert found.keep == told.document["keep"]
    assert found.keep
    assert found.score == found.full == told.document["score"]
    with pytest.raises(Infeasible, match="no choice of one intact copy"):
        library.shed(network, placed, {name: 10 * rate for name, rate in at.items()}, planner="replica")


def test_networks_refuse_what_does_not_fit(root: Path) -> None:
    """Rates of strangers, hosts that cannot be, and planners that are not there are refused."""
    network = library.load_network("examples/two-chains/network.toml")
    with pytest.raises(InputError, match="no source"):
        library.place(network, {"clicks": 1.0, "bids": 1.0})
    with pytest.raises(InputError, match="as many rates"):
        library.place(network, {"clicks": np.ones(3), "buys": np.ones(4)})
    with pytest.raises(InputError, match="hosts"):
        library.place(network, {"clicks": 1.0, "buys": 1.0}, 0)
    with pytest.raises(InputError, match="unknown planner"):
        library.shed(network, dict.fromkeys(network.operators, "h1"), {"clicks": 1, "buys": 1}, planner="magic")
    with pytest.raises(AttributeError, match="no attribute"):
        library.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda n, p: library.load_network(3), "path: expected a network file, got int 3"),
        (lambda n, p: library.place(n, RATES, seed=-1), "seed: expected a whole number >= 0, got -1"),
        (lambda n, p: library.estimate(n, RATES, {"views": 1}), "placement: expected names"),
        (lambda n, p: library.estimate(n, RATES, p, statistics=3), "statistics: expected"),
        (lambda n, p: library.simulate(n, RATES, p, options=3), "options: expected"),
        (lambda n, p: library.simulate(n, RATES, p, seed=-1), "seed: expected a whole number >= 0, got -1"),
        (lambda n, p: library.simulate(n, RATES, p, seed=1.5), "seed: expected a whole number >= 0, got 1.5"),
        (lambda n, p: library.simulate(n, RATES, p, sede=3), "sede: no such argument .did you mean 'seed'"),
        (lambda n, p: library.shed(n, p, RATES, eror=0.01), "eror: no such argument .did you mean 'error'"),
        (lambda n, p: library.shed(n, p, RATES, error="x"), "error: expected"),
        (lambda n, p: library.shed(n, p, RATES, error=None), "error: expected"),
        (lambda n, p: library.shed(n, p, RATES, error=np.array([0.1, 0.2])), "error: expected"),
        (lambda n, p: library.shed(n, p, RATES, planner=None), "planner: unknown planner None"),
        (lambda n, p: library.shed(n, p, RATES, planner=["exact"]), "planner: unknown planner .'exact'"),
        (lambda n, p: library.shed(n, p, RATES, upto={"clicks": 9e9}), "upto: source 'buys' has no rate"),
        (lambda n, p: library.shed(n, p, {"clicks": -1, "buys": 1}), "at: expected finite rates"),
        (lambda n, p: library.shed(n, p, "clicks=1"), "at: expected rates by source"),
        (lambda n, p: library.inspect(""), "empty name"),
        (lambda n, p: library.inspect(LOG).advise(weights={"filter": "x"}), "weights: expected a number for 'filter'"),
        (lambda n, p: library.inspect(LOG).advise(seed=1.5), "seed: expected"),
        (lambda n, p: library.inspect(LOG).advise(latency=0), "latency: expected a finite time"),
        (lambda n, p: library.inspect(LOG).plot(3), "3 is no query"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(root: Path, ask: Any, says: str) -> None:
    """Arguments of a wrong kind, and those that nobody knows, are refused by name."""
    network = library.load_network("examples/two-chains/network.toml")
    with pytest.raises(InputError, match=says):
        ask(network, dict.fromkeys(network.operators, "h1"))


def test_the_model_is_that_of_the_command(penstock: Any, root: Path, tmp_path: Path) -> None:
    """Where nobody names a model, it is the one that fits the cluster, as for the command."""
    path, cluster = "examples/two-chains/network.toml", tmp_path / "c.toml"
    cluster.write_text('[hosts.h1]\n[spark]\ntrigger = "10 s"\n')
    placed = dict.fromkeys(library.load_network(path).operators, "h1")
    inline = ",".join(f"{name}={host}" for name, host in placed.items())
    told = penstock("estimate", path, "--rates", "clicks=10,buys=5", "--cluster", cluster, "--placement", inline,
                    "--json").document  # fmt: skip
    found = library.estimate(path, RATES, placed, cluster)
    assert told["model"] == found.model == "microbatch"
    assert found.total.worst == pytest.approx(told["worst"])


def test_networks_name_hosts_of_the_cluster(tmp_path: Path) -> None:
    """A host that the network names and the cluster lacks is refused by its key, whatever is asked."""
    path = tmp_path / "n.toml"
    path.write_text('name = "n"\n[sources.s]\nhost = "h9"\n[operators.f]\nkind = "map"\ninput = "s"\ncost = 0.1\n')
    network, placed = library.load_network(path), {"f": "h1"}
    for ask in (
        lambda: library.place(network, {"s": 1.0}),
        lambda: library.estimate(network, {"s": 1.0}, placed),
        lambda: library.simulate(network, {"s": 1.0}, placed),
        lambda: library.shed(network, placed, {"s": 1.0}),
    ):
        with pytest.raises(InputError, match=r"sources\.s\.host: 'h9' is no host of the cluster"):
            ask()


@pytest.mark.parametrize("error", [-1.0, 0.0, 1.0, 2.0, float("nan")])
def test_the_error_of_a_plan_is_a_share(root: Path, error: float) -> None:
    """An error that promises nothing, or more than all, is refused."""
    network = library.load_network("examples/two-chains/network.toml")
    placed = dict.fromkeys(network.operators, "h1")
    with pytest.raises(InputError, match="between 0 and 1"):
        library.shed(network, placed, {"clicks": 100.0, "buys": 10.0}, error=error)
