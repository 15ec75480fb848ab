"""Every file that a command reads may also come from standard input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.app import COMMANDS
from penstock.errors import InputError

FILES = {
    "placement.json": json.dumps({"placement": {"views": "h1", "scored": "h1", "paid": "h2", "billed": "h2"}}),
    "statistics.json": json.dumps({"operators": {"views": {"cost": 0.0001}}}),
    "keep.json": json.dumps({"keep": {"clicks->views": 0.5}}),
    "arrivals.csv": "time,source\n0,clicks\n0.5,buys\n",
    "rates.csv": "time,clicks,buys\n0,100,20\n1,120,20\n",
    "samples/clicks.json": "",
    "samples/buys.json": "",
    "scenario.toml": '[[events]]\nat = 1\nkill = "h2"\n',
}
"""What stands in files beside those of the example."""

ON, RATES, AT = "--cluster cluster.toml --statistics statistics.json", "--rates rates.csv", "--placement placement.json"
CALLS = [
    f"load network.toml {ON} {RATES} {AT}",
    f"place network.toml {ON} {RATES} --previous placement.json",
    f"estimate network.toml {ON} {RATES} {AT}",
    f"compare network.toml {ON} {RATES} --placements placement.json --variant other.toml",
    f"admit network.toml alarm.toml {ON} {RATES} {AT} --latency 9",
    f"provision network.toml {ON} {RATES} --host-like h1 --latency 9",
    f"shed network.toml {ON} {AT} --at clicks=120,buys=30 --plan plan.json",
    f"simulate network.toml {ON} {RATES} {AT} --keep keep.json --duration 1",
    f"simulate network.toml {ON} --arrivals arrivals.csv {AT} --plan plan.json",
    f"advise --network network.toml {ON} {RATES} {AT} --latency 9",
    "inspect log.zstd",
    f"control network.toml {ON} {RATES} {AT} --scenario scenario.toml --for 1 --directory run --fresh",
    f"control network.toml {ON} {RATES} {AT} --scenario scenario.toml --engine spark --directory run",
    f"run network.toml {ON} {RATES} {AT} --keep keep.json --directory run",
    f"run network.toml {ON} {AT} --plan plan.json --directory run",
    "calibrate network.toml --cluster cluster.toml --sample samples",
]
READS_FILES = sorted(COMMANDS.keys() - {"dashboard", "demo", "reproduce", "status", "move", "drain", "stop", "history"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all of the files."""
    examples, made = Path(__file__).parents[2] / "examples", tmp_path_factory.mktemp("files")
    for name in ("network.toml", "cluster.toml", "alarm.toml"):
        shutil.copy(examples / "two-chains" / name, made)
    shutil.copy(made / "network.toml", made / "other.toml")
    shutil.copy(examples / "event-log" / "spark-4.3.zstd", made / "log.zstd")
    (made / "samples").mkdir()
    for name, text in FILES.items():
        (made / name).write_text(text)
    return made


@pytest.fixture
def ask(penstock: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command in that folder; hosts are refused in our words instead of being started."""

    def refused(*_: Any, **__: Any) -> Any:
        raise InputError("would have started")

    for name in ("begin_hosts", "start_hosts"):
        monkeypatch.setattr(f"penstock.spark.hosts.{name}", refused)
    monkeypatch.chdir(folder)
    planned = folder / "plan.json"
    if not planned.exists():
        words = f"shed network.toml {ON} {AT} --at clicks=120,buys=30 --planner exact --save plan.json"
        assert penstock(*words.split()).code == 0
    return penstock


@pytest.mark.parametrize("call", CALLS)
def test_every_file_may_come_from_standard_input(ask: Any, folder: Path, call: str) -> None:
    """A command answers the same, whichever of its files is standard input."""
    words = call.split()
    usual = ask(*words, "--json")
    assert usual.code == 0 or "would have started" in usual.err, usual.err
    files = [place for place, word in enumerate(words) if (folder / word).is_file()]
    assert files
    for place in files:
        given = [*words[:place], "-", *words[place + 1 :]]
        done = ask(*given, "--json", stdin=(folder / words[place]).read_bytes())
        assert (done.code, told(done.out)) == (usual.code, told(usual.out)), (given, done.err)
        assert usual.code == 0 or "would have started" in done.err, (given, done.err)


def told(out: str) -> Any:
    """Return what a document says, without how long it took and what its files are called."""
    if not out:
        return None
    document = json.loads(out)
    for row in [document, *document.get("ranking", ())]:
        for key in ("seconds", "lookup", "network", "given"):
            row.pop(key, None)
    return document


def test_all_commands_with_files_are_asked() -> None:
    """No command that reads files is left out above."""
    assert sorted({call.split()[0] for call in CALLS}) == READS_FILES
