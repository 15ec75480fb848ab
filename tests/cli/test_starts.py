"""Rates files whose times do not begin at 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as api

SOURCE = """
[sources.bids]
format = "nexmark"
"""
RUNNING = """
[operators.kept]
kind = "filter"
input = "bids"
where = "price > 100"
cost = 1e-5
selectivity = 0.5
[operators.counted]
kind = "aggregate"
input = "kept"
window = 10
by = ["auction"]
select = "count(*) AS n"
cost = 1e-5
selectivity = 0.1
[sinks.out]
input = "counted"
"""
ADDED = """
[operators.more]
kind = "filter"
input = "bids"
where = "price > 200"
cost = 1e-5
selectivity = 0.5
[sinks.much]
input = "more"
"""
HOSTS, PLACED = ["network.toml", "--cluster", "cluster.toml"], "kept=h1,counted=h1"
COMMANDS: dict[str, list[object]] = {
    "estimate": [*HOSTS, "--placement", PLACED],
    "compare": [*HOSTS, "--placements", PLACED],
    "admit": ["network.toml", "new.toml", *HOSTS[1:], "--placement", PLACED, "--latency", 9],
    "provision": [*HOSTS, "--host-like", "h1", "--model", "microbatch", "--latency", 6.5],
    "simulate": [*HOSTS, "--placement", PLACED, "--trigger", 4],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Windows of 10 s at a trigger of 4 s, and rates that begin at 0 and at 3 s."""
    monkeypatch.chdir(tmp_path)
    Path("network.toml").write_text('name = "running"' + SOURCE + RUNNING)
    Path("new.toml").write_text('name = "new"' + SOURCE + ADDED)
    Path("cluster.toml").write_text("[spark]\ntrigger = 4\n[hosts.h1]\n")
    for start in (0, 3):
        rows = "".join(f"{start + second},500\n" for second in range(30))
        Path(f"from{start}.csv").write_text("time,bids\n" + rows)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_scheduled_sources_begin_with_a_window(penstock: Any, command: str) -> None:
    """By every command, sources that are told when to begin do so with a window, whatever a file calls that moment."""
    found = []
    for start in (0, 3):
        done = penstock(command, *COMMANDS[command], "--rates", f"from{start}.csv", "--json")
        assert done.code == 0, done.err
        found.append({key: value for key, value in done.document.items() if key != "seconds"})
    assert found[0] == found[1]


@pytest.mark.usefixtures("folder")
def test_scheduled_sources_begin_with_a_window_in_python() -> None:
    """The functions answer like the commands."""
    worst = {
        api.estimate("network.toml", f"from{start}.csv", PLACED, "cluster.toml", model="microbatch").total.worst
        for start in (0, 3)
    }
    assert len(worst) == 1


@pytest.mark.usefixtures("folder")
def test_times_of_events_still_count_from_the_beginning(penstock: Any) -> None:
    """A note on an event that comes too late names the moment at which the rates begin in their file."""
    done = penstock("simulate", *COMMANDS["simulate"], "--rates", "from3.csv", "--fail", "h1@31")
    assert "which is 3 in their file" in done.err
