"""What a real run tells those who look on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from penstock.monitor import open_view
from penstock.monitor.run import RunView

pytestmark = pytest.mark.spark


def test_a_real_run_is_shown(penstock: Any, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run on two Spark hosts the view has each stream's counts, each sink's rows, and nothing that waits."""
    network = tmp_path / "network.toml"
    text = (root / "examples/word-count/network.toml").read_text()
    network.write_text(text.replace("examples/", f"{root}/examples/"))
    monkeypatch.chdir(tmp_path)
    placed = "words=h1,long=h1,counted=h2"
    words = ("--hosts", "2", "--placement", placed, "--once", "--directory", tmp_path / "run", "--json")
    done = penstock("run", network, *words)
    assert done.code == 0, done.err
    view = open_view([str(tmp_path / "run")])
    assert isinstance(view, RunView)
    view.look(time.time())
    totals = view.live(time.time())["totals"]
    assert totals["streams"] == done.document["streams"]
    assert totals["latency"]["count"] == done.document["latency"]["count"]
    assert view.status.word == "ended"
    assert view.board.busy.sum() > 0
    assert set(view.board.busy.sum(axis=1) > 0) == {True}
