"""How fast hosts are, for operators that burn processor time."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.network.file import parse_network
from penstock.spark.run import Engine, speeds
from penstock.workload import Rates

NETWORK = parse_network(
    {
        "name": "work",
        "sources": {"events": {"format": "nexmark"}},
        "operators": {"work": {"kind": "delay", "input": "events", "cost": 0.001}},
        "sinks": {"out": {"input": "work"}},
    }
)


def test_a_host_is_measured_once_and_others_of_the_machine_are_like_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """While queries run no host of this machine is measured where one is known; hosts elsewhere are, each once."""
    asked: list[str] = []

    def measured(session: Any) -> float:
        asked.append(session)
        return float(len(asked))

    monkeypatch.setattr(speeds, "speed_of", measured)
    hosts: Any = {name: SimpleNamespace(pid=pid) for name, pid in (("h1", 1), ("h2", 2), ("far", None))}
    known = speeds.Speeds(hosts, {name: name for name in hosts})  # type: ignore[dict-item]
    assert [known.now("far"), known.now("h1"), known.of("h1"), known.now("h2"), known.now("far")] == [1, 2, 2, 2, 1]
    assert asked == ["far", "h1"]
    assert known.of("h2") == 3


@pytest.mark.spark
def test_a_delay_takes_as_long_where_it_moves(engine: Engine, tmp_path: Path) -> None:
    """A step that burns time does as many steps a row on a host that had none before."""
    deployment = engine.prepare(NETWORK, {"work": "h1"}, tmp_path, rates=Rates.constant({"events": 1.0}, 1))
    system = engine.system(deployment, False, lambda _what, _share: None)
    unit = system.units["work"]
    plans = [system.compile(unit.on(host)).frame._explain_string(extended=True) for host in ("h1", "h3")]
    steps = [re.findall(r"sequence\(1, (\d+)", plan) for plan in plans]
    assert steps[0]
    assert steps[0] == steps[1]
    # Without a known speed it would be one; how many there are is a matter of the machine.
    assert int(steps[0][0]) > 50
