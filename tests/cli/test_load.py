"""``penstock load`` and what every command shares."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.app import COMMANDS, arguments, load_command

TWO = Path("examples/two-chains")


def test_keys_of_load(penstock: Any, root: Path) -> None:
    """Load prints one JSON document with the keys of the contract, and exact numbers."""
    done = penstock(
        "load", TWO / "network.toml", "--cluster", TWO / "cluster.toml", "--rates", "clicks=100,buys=20",
        "--placement", TWO / "placement.json", "--series", "--duration", 3, "--json",
    )  # fmt: skip
    assert done.code == 0
    assert done.err == ""
    document = done.document
    assert document["period"] == 1
    assert document["sources"]["clicks"] == {"mean": 100, "max": 100, "series": [100, 100, 100]}
    assert document["operators"]["scored"]["mean"] == pytest.approx(0.32)
    assert document["operators"]["scored"]["std"] == 0
    assert document["coefficients"]["scored"] == pytest.approx({"clicks": 0.0032, "buys": 0})
    assert document["hosts"]["h1"]["mean"] == pytest.approx(0.34)
    assert document["hosts"]["h2"]["series"] == pytest.approx([0.204] * 3)
    assert document["correlation"]["paid"] == {"billed": 0, "paid": 1, "scored": 0, "views": 0}


def test_a_duration_beside_a_file_of_rates_is_told_of(penstock: Any, root: Path) -> None:
    """Who gives a duration beside rates from a file is told that it does not hold; simulate ends its run by it."""
    words = [TWO / "network.toml", "--hosts", 2, "--rates", TWO / "rates.csv", "--duration", 10, "--json"]
    done = penstock("load", *words)
    assert done.code == 0
    assert done.err.startswith("note: --duration is how long inline rates last")
    assert done.document == penstock("load", *words[:5], "--json").document
    done = penstock("simulate", *words, "--placement", TWO / "placement.json")
    assert "--duration" not in done.err


def test_tables_for_people(penstock: Any, root: Path) -> None:
    """Without --json the same numbers come as tables."""
    done = penstock("load", TWO / "network.toml", "--hosts", 2, "--rates", TWO / "rates.csv")
    assert done.code == 0
    assert "scored" in done.out
    assert "per clicks/s" in done.out


def test_series_for_people(penstock: Any, root: Path) -> None:
    """Without --json --series prints the tables as always, and says where the series are."""
    given = ["load", TWO / "network.toml", "--rates", TWO / "rates.csv"]
    usual, done = penstock(*given), penstock(*given, "--series")
    assert (done.code, done.out) == (0, usual.out)
    assert done.err == usual.err + "note: --series: the series and their correlations are in --json\n"


def test_files_from_standard_input(penstock: Any, root: Path) -> None:
    """A file argument - reads standard input."""
    text = (TWO / "network.toml").read_bytes()
    done = penstock("load", "-", "--rates", "clicks=1,buys=1", "--json", stdin=text)
    assert done.code == 0
    assert done.document["network"] == "two-chains"
    broken = penstock("load", "-", "--rates", "clicks=1,buys=1", stdin=b"name = ")
    assert broken.code == 2
    assert broken.err.startswith("penstock: standard input:1: not valid TOML")


def test_costs_from_statistics(penstock: Any, root: Path) -> None:
    """Costs that the network leaves open come from --statistics; without it the command says so."""
    given = ["load", "examples/word-count/network.toml", "--rates", "lines=10", "--json"]
    without = penstock(*given)
    assert without.code == 2
    assert "operators.words.cost: has no cost" in without.err
    done = penstock(*given, "--statistics", "examples/word-count/statistics.json")
    assert done.document["operators"]["words"]["mean"] == pytest.approx(2e-4)


@pytest.mark.parametrize(
    "options",
    [
        ["--rates", "clicks=1,buys=1", "--placement", "views=h1"],
        ["--rates", "clicks=1,buys=1", "--hosts", "0"],
        ["--rates", "clicks=1,buys=1", "--hosts", "2", "--cluster", "examples/two-chains/cluster.toml"],
        ["--rates", "clicks=1"],
        ["--rates", "clicks=1,buys=1,more=1"],
        ["--rates", "clicks=1,buys=1", "--duration", "0"],
        ["--rates", "clicks=1,buys=1", "--period", "0"],
        ["--rates", "clicks=1,buys=1", "--period", "1e-9"],
        ["--rates", "clicks=1,buys=1", "--duration", "nan"],
        ["--rates", "clicks=1,buys=1", "--duration", "1e9"],
        ["--rates", "clicks=1,buys=1", "--hosts", "99999999999"],
        ["--rates", "no-such.csv"],
        ["--rates", "examples"],
        ["--rates", "clicks=1,buys=1", "--hosts", "2", "--placement", "views=h3,scored=h1,paid=h1,billed=h1"],
        ["--rates", "clicks=1,buys=1", "--statistics", "examples/two-chains/placement.json"],
        ["--rate", "clicks=1,buys=1"],
        [],
        ["--rates", "clicks=1,buys=1", "--hosts", "many"],
    ],
)
def test_bad_options(penstock: Any, root: Path, options: list[str]) -> None:
    """Bad options end with code 2, words on standard error and no document."""
    done = penstock("load", TWO / "network.toml", *options, "--json")
    assert done.code == 2
    assert done.out == ""
    assert done.err.strip()
    assert "Traceback" not in done.err


def test_a_missing_rate_says_how_to_give_it(penstock: Any, root: Path, tmp_path: Path) -> None:
    """A source without a rate asks for a rate where rates are inline, and for a column where they are a file."""
    assert penstock("load", TWO / "network.toml", "--rates", "clicks=220").err.endswith("(add buys=RATE)\n")
    (tmp_path / "rates.csv").write_text("time,clicks\n0,220\n")
    done = penstock("load", TWO / "network.toml", "--rates", tmp_path / "rates.csv")
    assert done.err.endswith("(add a column 'buys')\n")


def test_too_little_memory_is_one_message(penstock: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory runs out the command says so instead of breaking."""

    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("penstock.cli.reading.load_model", exhausted)
    done = penstock("load", TWO / "network.toml", "--rates", "clicks=1,buys=1")
    assert done.code == 2
    assert "memory" in done.err
    assert done.err.count("\n") == 1


def test_pins_must_be_hosts_and_are_obeyed(penstock: Any, tmp_path: Path) -> None:
    """A pin to a stranger is refused, and so is a placement that breaks a pin."""
    network = tmp_path / "n.toml"
    network.write_text('name="n"\n[sources.s]\n[operators.o]\nkind="map"\ninput="s"\ncost=1\npin="h2"\n')
    given = ["load", network, "--rates", "s=1"]
    assert "'h2' is no host" in penstock(*given, "--hosts", 1).err
    done = penstock(*given, "--hosts", 2, "--placement", "o=h1")
    assert done.code == 2
    assert "pinned to 'h2'" in done.err
    assert penstock(*given, "--hosts", 2, "--placement", "o=h2").code == 0


def test_several_placements_after_one_option() -> None:
    """--placements takes all words up to the next option."""
    assert arguments(["compare", "n", "--placements", "a=h1", "p.json", "--model", "mace"]) == [
        "compare", "n", "--placements", "a=h1", "--placements", "p.json", "--model", "mace",
    ]  # fmt: skip
    assert arguments(["x", "--placements"]) == ["x", "--placements"]


def test_several_placements_are_at_least_one(penstock: Any, root: Path) -> None:
    """--placements without a value is refused, whatever stands behind it: no placement that nobody asked for."""
    given = ["compare", TWO / "network.toml", "--hosts", 1, "--rates", "clicks=1,buys=1", "--placements"]
    for behind in ([], ["--json"], ["--seed", 1], ["--placements", "views=h1,scored=h1,paid=h1,billed=h1"]):
        done = penstock(*given, *behind)
        assert (done.code, done.out) == (2, "")
        assert done.err == "penstock: option '--placements' requires an argument\n"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_shows_one_runnable_example(penstock: Any, root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However wide a terminal is, -h of every command prints one example, which is a call of it with files that exist.

    Its lines, joined by blanks, are words that the command understands.
    """
    for columns in ("50", "60", "80", "100", "120"):
        monkeypatch.setenv("COLUMNS", columns)
        done = penstock(name, "-h")
        assert done.code == 0
        assert done.out.count("Example:") == 1
        example = done.out.split("Example:")[1].split("\n\n")[0].split()
        assert example == (load_command(name).help or "").split("Example:")[1].split()
        assert example[:2] == ["penstock", name]
    load_command(name).make_context(name, arguments(example[2:]))
    for word in example:
        if word.endswith((".toml", ".csv")) or word.startswith("examples/"):
            assert (root / word).exists(), word


def child(*given: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock.cli.app", *given], capture_output=True, text=True, timeout=60, **options
    )


def test_bytes_do_not_depend_on_the_process(root: Path) -> None:
    """The same question gives the same bytes in another process under another PYTHONHASHSEED."""
    given = ["load", str(TWO / "network.toml"), "--rates", str(TWO / "rates.csv"), "--series", "--json"]
    outs = {child(*given, env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in ("0", "1", "77")}
    assert len(outs) == 1
    assert json.loads(outs.pop())["network"] == "two-chains"


def test_bad_input_in_a_process_of_its_own(tmp_path: Path) -> None:
    """Bad input ends a real process with code 2, one line on standard error and nothing on standard output."""
    network = tmp_path / "n.toml"
    network.write_text("name = 3\n")
    done = child("load", str(network), "--rates", "s=1", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"penstock: {network}:1: name: ")
    assert done.stderr.count("\n") == 1


LIGHT = {"annotated_doc", "attr", "attrs", "msgspec", "penstock", "shellingham", "typer", "typing_extensions"}
"""Packages that are imported for ``--help``; together they take 0.1 s."""

IMPORTED = """
import sys
before, site = set(sys.modules), next(path for path in sys.path if path.endswith("site-packages"))
from penstock.cli.app import COMMANDS, GROUPS, main
for words in [["--help"], *([name, "--help"] for name in [*COMMANDS, *GROUPS]), WORDS]:
    sys.argv = ["penstock", *words]
    try:
        main()
    except SystemExit as leave:
        assert not leave.code, words
found = {name.partition(".")[0] for name, module in sys.modules.items()
         if name not in before and (getattr(module, "__file__", None) or "").startswith(site)}
print(*found, file=sys.stderr)
"""


def test_help_imports_little() -> None:
    """The help of every command is there in a blink: it imports typer, and nothing that computes or draws."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED.replace("WORDS", "['--version']")], capture_output=True, text=True, check=True
    )
    assert set(done.stderr.split()) <= LIGHT


def test_load_starts_without_what_it_does_not_use() -> None:
    """Computing loads needs neither Spark nor numba, scipy, matplotlib or a solver."""
    words = ["load", str(TWO / "network.toml"), "--rates", str(TWO / "rates.csv")]
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED.replace("WORDS", str(words))], capture_output=True, text=True, check=True
    )
    assert "two-chains: load" in done.stdout
    assert not {"pyspark", "numba", "matplotlib", "pandas", "scipy", "highspy"} & set(done.stderr.split())


@pytest.mark.parametrize(
    "command",
    [
        ["estimate", "n.toml", "--model", "mace"],
        ["estimate", "n.toml", "--model", "pipelined"],
        ["estimate", "n.toml", "--model", "microbatch"],
        ["estimate", "n.toml", "--model", "sharing"],
        ["simulate", "n.toml"],
        ["advise", "--network", "n.toml"],
    ],
)
def test_networks_without_operators_have_an_answer(
    penstock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """A network whose sources only feed sinks is predicted, simulated and advised on like any other."""
    monkeypatch.chdir(tmp_path)
    Path("n.toml").write_text('name = "n"\n[sources.s]\n[sinks.t]\ninput = "s"\n')
    Path("p.json").write_text('{"placement": {}}')
    done = penstock(*command, "--hosts", 2, "--rates", "s=10", "--placement", "p.json", "--json")
    assert done.code == 0, done.err
    assert done.document
