"""``penstock control`` on Spark where a run was cut off: which hosts it has, and which of them it starts first."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import attrs
import pytest

from penstock.control.folder import Folder
from penstock.errors import InputError
from penstock.home import KEPT
from penstock.network import read_network
from penstock.spark import hosts
from penstock.spark.compile import Deployment
from penstock.spark.left import check_output
from penstock.spark.run.folder import claim, note, owned
from penstock.spark.shipped.place import place_of

NETWORK = """
name = "n"

[sources.events]
format = "json"
schema = "k string"
options = { path = "." }

[operators.kept]
kind = "filter"
input = "events"
where = "true"
cost = 0.001
selectivity = 1.0

[operators.few]
kind = "filter"
input = "kept"
where = "k = 'a'"
cost = 0.001
selectivity = 0.5

[sinks.out]
input = "few"
"""

CLUSTER = "[hosts.h1]\n[hosts.h2]\n[hosts.h3]\n"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is asked of the hosts' start, which is refused."""
    found: dict[str, Any] = {}

    def begin_hosts(cluster: Any, **given: Any) -> Any:
        found.update(given)
        raise InputError("would have started")

    monkeypatch.setattr("penstock.spark.hosts.begin_hosts", begin_hosts)
    return found


def leave(folder: Path, moved: str | None = None) -> list[object]:
    """Write files and, with ``moved``, what a run leaves whose second operator went there; return a command."""
    (folder / "network.toml").write_text(NETWORK)
    (folder / "cluster.toml").write_text(CLUSTER)
    if moved is not None:
        on = {"kept": "h1", "few": "h1"}
        deployment = Deployment(
            read_network(folder / "network.toml"), on, str(folder / "run"), apart=frozenset(["few"]), live=frozenset()
        )
        first = claim(deployment)
        units = tuple(unit.on(moved) if unit.name == "few" else unit for unit in first.units)
        note(attrs.evolve(deployment, placement={**on, "few": moved}), attrs.evolve(first, units=units))
    files = [folder / "network.toml", "--cluster", folder / "cluster.toml", "--directory", folder / "run"]
    return ["control", *files, "--engine", "spark", "--rates", "events=1", "--algorithm", "largest-first"]


def test_all_hosts_start_before_a_run(penstock: Any, tmp_path: Path, asked: dict[str, Any]) -> None:
    """Where nothing has run, all hosts are needed."""
    done = penstock(*leave(tmp_path))
    assert "would have started" in done.err
    assert (asked["names"], asked["going_on"]) == (["h1", "h2", "h3"], None)


def test_hosts_of_a_run_that_goes_on_are_told_apart(penstock: Any, tmp_path: Path, asked: dict[str, Any]) -> None:
    """It is known where the run lies; a host that a policy had added is there again with its work."""
    done = penstock(*leave(tmp_path, "h3"))
    assert "would have started" in done.err
    assert (asked["names"], asked["going_on"]) == (["h1", "h2", "h3"], {"h1", "h3"})
    (tmp_path / "other").mkdir()
    done = penstock(*leave(tmp_path / "other", "h5"), "--spare", 2)
    assert "would have started" in done.err
    assert (asked["names"], asked["going_on"]) == (["h1", "h2", "h3", "h5"], {"h1", "h5"})


def test_a_host_that_is_gone_is_named(penstock: Any, tmp_path: Path, asked: dict[str, Any]) -> None:
    """A run that lies on a host which the cluster does not have is refused before anything starts."""
    done = penstock(*leave(tmp_path, "h9"), "--spare", 2)
    assert done.code == 2
    assert f"{tmp_path / 'run'}: the run here lies also on h9" in done.err
    assert not asked


@pytest.mark.parametrize(
    "text", ["{}", "[]", "3", '{"placement": 3}', '{"network": "n", "placement": {}, "units": [1]}']
)
def test_a_damaged_claim_is_refused(penstock: Any, tmp_path: Path, asked: dict[str, Any], text: str) -> None:
    """A file of what runs here that is JSON but no claim is named in one message, by every command that goes on."""
    control = leave(tmp_path, "h3")
    (tmp_path / "run/run.json").write_text(text)
    for command in (control, ["run", *control[1:6]]):
        done = penstock(*command)
        assert done.code == 2
        assert f"{tmp_path / 'run/run.json'}: is not what penstock run writes" in done.err
        assert "Traceback" not in done.err
    assert not asked


def test_no_report_replaces_what_the_run_keeps(penstock: Any, tmp_path: Path) -> None:
    """A report may lie in the run's folder, but not under the name of a file of the run's own."""
    _, *files = leave(tmp_path)[:6]
    for option, file in (("--report", "run.json"), ("--learn", "batches/one.json")):
        done = penstock("run", *files, option, tmp_path / "run" / file)
        assert done.code == 2
        assert f"{option}: is a file of the run's own" in done.err
    check_output(str(tmp_path / "run/report.json"), str(tmp_path / "run"), "--report")
    check_output(str(tmp_path / "run.json"), str(tmp_path / "run"), "--report")


def test_another_network_is_named(penstock: Any, tmp_path: Path, asked: dict[str, Any]) -> None:
    """Who starts another network in a run's folder is told whose it is, whatever its operators are called."""
    control = leave(tmp_path, "h3")
    (tmp_path / "network.toml").write_text(NETWORK.replace("kept", "whole").replace('"n"', '"m"'))
    for command in (control, ["run", *control[1:6]]):
        done = penstock(*command)
        assert done.code == 2
        assert f"{tmp_path / 'run'}: another network ('n') runs in this folder" in done.err
    assert not asked


def test_a_host_that_a_run_lacks_is_said_of_its_folder(penstock: Any, tmp_path: Path) -> None:
    """Where a run goes on with hosts that are not the cluster's any more, the message names the run's folder."""
    files = leave(tmp_path, "h3")[1:6]
    (tmp_path / "cluster.toml").write_text("[hosts.h1]\n")
    done = penstock("run", *files)
    assert done.code == 2
    assert f"{tmp_path / 'run'}: placement." in done.err


def test_hosts_that_run_already_are_taken(penstock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``run`` and ``calibrate`` look for hosts that were left running where ``hosts start`` has noted them."""
    found: list[Any] = []

    def start_hosts(_cluster: Any, *, names: Any, kept: Any) -> Any:
        found.append((list(names), kept))
        raise InputError("would have started")

    monkeypatch.setattr("penstock.spark.hosts.start_hosts", start_hosts)
    files = leave(tmp_path)[1:6]
    for command in (["run", *files, "--once", "--placement", "kept=h1,few=h2"], ["calibrate", *files[:3]]):
        assert "would have started" in penstock(*command).err
    assert found == [(["h1", "h2"], KEPT), (["h1"], KEPT)]


@pytest.mark.parametrize("name", ["control", "run"])
def test_a_folder_in_which_a_run_is_at_work_is_refused(
    penstock: Any, tmp_path: Path, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It is before hosts start, and nothing is left there."""
    monkeypatch.setattr("penstock.spark.hosts.start_hosts", hosts.begin_hosts)
    _, *files = leave(tmp_path, "h3")
    with owned(place_of(str(tmp_path / "run"))):
        there = {*(tmp_path / "run").iterdir()}
        ways = ["--engine", "spark"] if name == "control" else []
        done = penstock(name, *files[:5], *ways)
    assert f"{tmp_path / 'run'}: another penstock runs in this folder" in done.err
    assert done.code == 2
    assert ({*(tmp_path / "run").iterdir()}, asked) == (there, {})


@pytest.fixture
def refused(asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is asked of the hosts' start by any command, which is refused."""
    monkeypatch.setattr("penstock.spark.hosts.start_hosts", hosts.begin_hosts)
    return asked


def test_a_simulated_controller_is_refused_in_a_folder_of_a_run_that_is_named(penstock: Any, tmp_path: Path) -> None:
    """However the folder is written; who looks on would take its decisions for those of the run."""
    command, run = leave(tmp_path, moved="h2"), tmp_path / "run"
    for name in (run, f"file://{run}"):
        done = penstock(*command[:5], name, "--engine", "simulation", *command[8:])
        assert (done.code, "a run on Spark has this folder" in done.err) == (2, True)
        assert f"--directory, such as {name}-simulated" in " ".join(done.err.split())


def test_a_run_moves_what_a_simulated_controller_has_left_aside(
    penstock: Any, tmp_path: Path, refused: dict[str, Any]
) -> None:
    """It is said where that is; while the controller works the run is refused, before hosts start."""
    command, run = leave(tmp_path), tmp_path / "run"
    simulated = [*command[:6], "--engine", "simulation", *command[8:]]
    reals = command, ["run", *command[1:6], "--algorithm", "largest-first"]
    for number, real in enumerate(reals, 1):
        assert penstock(*simulated).code == 0
        with Folder(run).held():
            done = penstock(*real)
            assert (done.code, "a simulated controller works in this folder" in done.err) == (2, True)
        assert not refused
        done = penstock(*real)
        assert f"is in {run}/control-simulated-{number} from now on" in " ".join(done.err.split())
        assert "would have started" in done.err
        assert Folder(run / f"control-simulated-{number}").directory.joinpath("state.json").exists()
        assert not Folder(run).used
        refused.clear()
    assert penstock(*simulated).code == 0
    claim(Deployment(read_network(tmp_path / "network.toml"), {"kept": "h1", "few": "h1"}, str(run)))
    assert (run / "control-simulated-3").exists()


def test_the_usual_folders_are_two_where_a_run_has_the_first(
    penstock: Any, tmp_path: Path, refused: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a folder a run and a simulated controller go on beside each other, in whichever order they come."""
    monkeypatch.chdir(tmp_path)
    command = leave(tmp_path)
    real, simulated = (
        [*command[:4], "--engine", engine, *command[8:], *more]
        for engine, more in (("spark", ()), ("simulation", ("--json",)))
    )
    assert penstock(*simulated).document["directory"] == ".penstock/n"
    assert "would have started" in penstock(*real).err
    claim(Deployment(read_network(tmp_path / "network.toml"), {"kept": "h1", "few": "h1"}, ".penstock/n"))
    for _ in range(2):
        done = penstock(*simulated)
        assert done.document["directory"] == ".penstock/n-simulated"
        assert "a run on Spark has .penstock/n; this simulated one is in .penstock/n-simulated" in done.err
        assert penstock("status", "--json").document["directory"] == ".penstock/n-simulated"
    with Folder(".penstock/n").held():
        assert penstock("status", "--json").document["directory"] == ".penstock/n"
        with Folder(".penstock/n-simulated").held():
            assert "2 controllers have folders here" in penstock("status").err
    Folder(".penstock/n").write({})
    for at, last in ((-60, "n-simulated"), (60, "n")):
        when = time.time() - 100 + at
        os.utime(".penstock/n-simulated/control/state.json", (time.time() - 100,) * 2)
        os.utime(".penstock/n/control/state.json", (when, when))
        assert penstock("history", "--json").document["directory"] == f".penstock/{last}"
