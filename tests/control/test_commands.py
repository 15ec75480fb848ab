"""The commands: control, status, move, drain, stop, history, admit --apply; and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.cli import engines
from penstock.cli.decisions import came, show, show_history
from penstock.control.folder import Folder
from penstock.errors import InputError

KEYS = {"decisions", "moves", "placement", "latency", "sinks", "streams", "balanced", "hosts"}
LINE = {"time", "seen", "decided", "why", "expected", "came"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of its own to run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def burst(here):
    """Rates of the example two-chains with a burst."""
    (here / "rates.csv").write_text("time,clicks,buys\n0,100,20\n10,400,60\n20,100,20\n30,100,20\n")
    return "rates.csv"


@pytest.fixture
def network(examples):
    """The example two-chains."""
    return examples / "two-chains" / "network.toml"


PLACED = "views=h1,scored=h1,paid=h2,billed=h2"

TAPS = """
name = "more"
[sources.taps]
[operators.tap]
kind = "map"
input = "taps"
cost = 0.001
selectivity = 1
[sinks.tapped]
input = "tap"
"""


def test_control_has_the_keys_of_the_contract(penstock, network, burst):
    """The document has the contract's keys, and the history file one line a decision with its keys."""
    done = penstock(
        "control", network, "--hosts", 2, "--rates", burst, "--placement", PLACED, "--act",
        "--history", "history.jsonl", "--json",
    )  # fmt: skip
    assert done.code == 0
    assert done.document.keys() >= KEYS
    assert done.document["balanced"]
    lines = [json.loads(line) for line in Path("history.jsonl").read_text().splitlines()]
    assert len(lines) == done.document["decisions"] > 0
    assert all(line.keys() >= LINE and line["came"] for line in lines)
    again = penstock("history", "--json").document["decisions"]
    assert again == lines


def test_dry_run_is_the_default(penstock, network, burst):
    """Without --act the placement and the counts are those of a simulation of the same."""
    done = penstock("control", network, "--hosts", 2, "--rates", burst, "--placement", PLACED, "--json").document
    alone = penstock("simulate", network, "--hosts", 2, "--rates", burst, "--placement", PLACED, "--json").document
    assert done["streams"] == alone["streams"]
    assert done["moves"] == []
    assert done["decisions"] > 0


def test_scenario_happens(penstock, network, burst, examples):
    """A scenario of a death, a recovery and an admission ends with every query alive and every tuple counted."""
    Path("scenario.toml").write_text(
        '[[events]]\nat = 12\nkill = "h2"\n[[events]]\nat = 18\nrecover = "h2"\n'
        f'[[events]]\nat = 25\nadmit = "{examples / "two-chains" / "alarm.toml"}"\n'
        '[[events]]\nat = 26\nslow = {host = "h1", factor = 0.9}\n'
    )
    done = penstock(
        "control", network, "--hosts", 2, "--rates", burst, "--placement", PLACED, "--act",
        "--scenario", "scenario.toml", "--json",
    ).document  # fmt: skip
    assert done["balanced"]
    assert {"rare", "alarmed"} <= set(done["placement"])
    assert all(row["latency"]["count"] for row in done["sinks"].values())
    lines = penstock("history", "--json").document["decisions"]
    assert {"replicate", "admit"} <= {line["policy"] for line in lines}


@pytest.mark.parametrize("every", [7, 1000])
def test_a_run_lasts_as_long_as_its_rates(penstock, network, burst, every):
    """There is a look at the end, whatever part of a period is left till then, and what is due before it happens."""
    Path("scenario.toml").write_text('[[events]]\nat = 39\nkill = "h1"\n')
    given = ("control", network, "--hosts", 3, "--rates", burst, "--placement", PLACED, "--every", every, "--fresh",
             "--policy", "replicate", "--json")  # fmt: skip
    whole = penstock("simulate", network, "--hosts", 3, "--rates", burst, "--placement", PLACED, "--json").document
    assert penstock(*given).document["streams"] == whole["streams"]
    done = penstock(*given, "--act", "--scenario", "scenario.toml").document
    assert done["decisions"] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[events]]\nat = 1\nkill = 'h9'", "'h9' is no host"),
        ("[[events]]\nat = 1", "expected one of"),
        ("[[events]]\nat = 1\nkill = 'h1'\nrecover = 'h1'", "expected one of"),
        ("[[events]]\nat = 1\nrecover = 'h1'", "not down"),
        ("[[events]]\nat = -1\nkill = 'h1'", "at"),
        ("[[events]]\nat = inf\nkill = 'h1'", "events[0].at: expected a number <= 1000000000.0, got inf"),
        ("[[events]]\nat = 1\nslow = {host = 'h1', factor = 0}", "factor"),
        ("[[event]]\nat = 1", "event"),
        ("[[events]]\nat = 1\nadmit = 'nothing.toml'", "nothing.toml"),
        ("[[events]]\nat = 1\nrates = 'nothing.csv'", "nothing.csv"),
        ("[[events]]\nat = 1\nrates = 'other.csv'", "other.csv: 'nosuch' is no source"),
        ("[[events]]\nat = 1\nadmit = 'taps.toml'\nrates = 'other.csv'", "other.csv: 'nosuch' is no source"),
        ("[[events]]\nat = 1\nadmit = 'taps.toml'", "'taps', which comes at 1 s, has no rates"),
        ("[[events]]\nat = 1.0005\nrates = 'later.csv'", "rates that begin at 1.0005 s: expected rates whose period"),
        ("[[events]]\nat = 1\nrates = 'fine.csv'", "rates that begin at 1 s: expected rates whose period"),
        (
            "[[events]]\nat = 1.5005\nadmit = 'taps.toml'\nrates = 'later.csv'",
            "rates that begin at 1.5005 s: expected rates whose period",
        ),
        ("[[events]]\nat = 1\nkil = 'h1'", "did you mean 'kill'?"),
        ("[[events]]\nat = 1\nslow = {hots = 'h1', factor = 1}", "did you mean 'host'?"),
    ],
)
def test_bad_scenarios_are_refused(penstock, network, burst, text, words):
    """A scenario that is wrong is one clear message and exit 2, before anything runs."""
    Path("scenario.toml").write_text(text)
    Path("other.csv").write_text("time,nosuch\n0,50\n60,50\n")
    Path("later.csv").write_text("time,clicks\n0,50\n60,50\n")
    Path("fine.csv").write_text("time,clicks\n0,50\n0.0005,50\n")
    Path("taps.toml").write_text(TAPS)
    done = penstock("control", network, "--hosts", 2, "--rates", burst, "--scenario", "scenario.toml")
    assert done.code == 2
    assert "scenario.toml" in done.err
    assert words in done.err
    assert not Path(".penstock").exists()


@pytest.mark.parametrize(("rate", "fits"), [(50, True), (5000, False)])
def test_rates_of_a_source_that_comes_later_are_known(penstock, network, here, rate, fits):
    """A query is decided about with the rate that the command line gives its new source."""
    Path("taps.toml").write_text(TAPS)
    Path("scenario.toml").write_text("[[events]]\nat = 5\nadmit = 'taps.toml'\n")
    rates = f"clicks=100,buys=20,taps={rate}"
    done = penstock(
        "control", network, "--hosts", 2, "--placement", PLACED, "--rates", rates, "--duration", 20, "--scenario",
        "scenario.toml", "--json",
    )  # fmt: skip
    assert done.code == 0
    assert ("tap" in done.document["placement"]) is fits


def test_what_nobody_may_want_of_a_run_is_noted(penstock, network, here):
    """Copies on one host, state beyond a host's memory, and events after the end are told, and the run goes on."""
    Path("scenario.toml").write_text("[[events]]\nat = 80\nkill = 'h1'\n")
    Path("kept.toml").write_text(network.read_text().replace("[operators.views]", "[operators.views]\nstate = '2 MiB'"))
    Path("cluster.toml").write_text("[hosts.h1]\nmemory = '1 MiB'\n[hosts.h2]\n")
    done = penstock(
        "control", "kept.toml", "--cluster", "cluster.toml", "--placement", f"{PLACED},views#2=h1", "--rates",
        "clicks=100,buys=20", "--duration", 5, "--scenario", "scenario.toml", "--json",
    )  # fmt: skip
    assert done.code == 0
    for words in ("'views' and 'views#2' are both on 'h1'", "h1 keeps 4 MiB of state", "ends at 5 s, before"):
        assert f"note: {words}" in done.err.replace("the copies ", "").replace("the run ", "")


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--policy", "shed", "--act"], True), (["--policy", "shed"], False), (["--act"], False)],
)
def test_dead_hosts_that_no_policy_minds_are_noted(penstock, network, here, words, told):
    """Who acts by policies that leave alone what a dead host ran is told so, before anything runs."""
    done = penstock(
        "control", network, "--hosts", 2, "--placement", PLACED, "--rates", "clicks=100,buys=20", "--duration", 5,
        "--json", *words,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert ("note: none of these policies starts what a dead host ran" in done.err) is told


def test_scenario_that_spark_cannot_let_happen_is_refused(penstock, network, burst):
    """Rates and speeds that only the simulator can change are refused on Spark before anything starts."""
    Path("scenario.toml").write_text("[[events]]\nat = 1\nslow = {host = 'h1', factor = 0.5}\n")
    done = penstock(
        "control", network, "--hosts", 2, "--rates", burst, "--engine", "spark", "--scenario", "scenario.toml"
    )
    assert done.code == 2
    assert "cannot be made to happen on Spark" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--policy", "shred"], "no policy"),
        (["--policy", "shed,shed"], "named twice"),
        (["--algorithm", "first"], "no placement algorithm"),
        (["--engine", "flink"], "simulation or spark"),
        (["--every", "0"], "--every"),
        (["--prices", "gold=1"], "no price"),
        (["--prices", "value=1,value=2"], "price 'value' is given twice"),
        (["--prices", ""], "expected price=number, got ''"),
        (["--moves", "0"], "--moves"),
        (["--pace", "-1"], "--pace"),
        (["--overhead", "1"], "--trigger with --overhead"),
        (["--trigger", "-1"], "--trigger: expected a time >= 0 s, got -1"),
        (["--trigger", "1", "--overhead", "nan"], "--overhead: expected a time >= 0 s, got nan"),
        (["--move-time", "-1"], "--move-time: expected a time >= 0 s, got -1"),
        (["--engine", "spark", "--move-time", "nan"], "--move-time: expected a time >= 0 s, got nan"),
        (["--engine", "spark", "--trigger", "1"], "--trigger: means nothing to --engine spark"),
        (["--engine", "spark", "--pace", "1"], "--pace: means nothing to --engine spark"),
        (["--apart", "all"], "--apart: means nothing to --engine simulation"),
    ],
)
def test_bad_options_are_refused(penstock, network, burst, options, words):
    """Options that are wrong are one clear message and exit 2, and nothing is written."""
    done = penstock("control", network, "--hosts", 2, "--rates", burst, *options)
    assert done.code == 2
    assert words in done.err
    assert not Path(".penstock").exists()


def test_a_history_that_cannot_be_written_costs_no_answer(penstock, network, here):
    """Where the file of the history is on a full disk, the answer is printed before that is told."""
    given = ["--placement", PLACED, "--rates", "clicks=900,buys=20", "--duration", 8, "--history", "/dev/full"]
    done = penstock("control", network, "--hosts", 2, *given, "--policy", "shed", "--act", "--json")
    assert done.code == 2
    assert done.document["balanced"]
    assert "/dev/full: cannot be written" in done.err


def test_status_says_who_does_not_look_or_answer(penstock, network, burst):
    """Told are a controller that runs and has not looked for long, and a host that does not answer."""
    penstock("control", network, "--hosts", 2, "--rates", burst, "--placement", PLACED, "--act")
    folder = Folder(".penstock/two-chains")
    assert "is over" in penstock("status").err
    with folder.held():
        folder.ready()
        assert "controller in .penstock/two-chains runs\n" in penstock("status").err
        known = folder.read()
        assert known["status"]["silent"] == []
        folder.write({**known, "status": {**known["status"], "silent": ["h2"]}})
        for name in ("state.json", "ready"):
            os.utime(folder.path / name, (0, time.time() - 40))
        said = penstock("status")
        assert "runs, but last looked 40 s ago" in said.err
        assert next(line for line in said.out.splitlines() if line.startswith(" h2")).split()[1] == "silent"
        assert 40 <= penstock("status", "--json").document["looked"] < 60


def test_history_says_which_moves_did_not_come_about():
    """Moves of which it was seen that they did not happen are not told like those that did."""
    moves = [{"operator": name, "from": "h1", "to": "h2"} for name in "ab"]
    line = {"time": 5.0, "acted": True, "decided": {"moves": moves}, "seen": {"worst": None}}
    assert came({**line, "came": None}) == ""
    assert came({**line, "came": {"time": 15.0, "worst": 2.0, "moved": 2}}) == "worst latency: 2 s"
    said = came({**line, "came": {"time": 15.0, "worst": 2.0, "moved": 1}})
    assert said == "1 of 2 moves had not come about 10 s later; worst latency: 2 s"
    assert came({**line, "came": {"time": 15.0, "worst": None, "moved": 0}}).startswith("2 of 2 moves had not")
    assert came({**line, "acted": False, "came": {"time": 15.0, "worst": None, "moved": 0}}) == ""


def test_history_steers_no_terminal(capsys):
    """What a terminal would take for a command is shown as what it is, wherever in a history it stands."""
    line = {"time": 5.0, "acted": True, "seen": {"worst": None}, "came": None, "policy": "\x1b[2Kme"}
    line |= {"decided": {"add": ["h\x9b1"]}, "why": "so\u202e", "refused": ["no\x7f"]}
    show_history([line])
    said = capsys.readouterr().out
    assert all(text in said for text in (r"\x1b[2Kme", r"add h\x9b1", r"so\u202e", r"no\x7f"))
    assert said.replace("\n", "").isprintable()


def test_commands_without_a_controller_say_so(penstock, here):
    """Nothing to reach, or nobody who answers, is one message that says what to do."""
    for command in (["status"], ["stop"], ["move", "a", "h1"], ["history"]):
        done = penstock(*command)
        assert done.code == 2
        assert "no controller has run here" in done.err


def test_a_file_is_no_controllers_folder(penstock, here):
    """Where a file is named instead of a folder no controller has run, and nothing is made there."""
    Path("notes.txt").write_text("x")
    for command in (["status", "notes.txt"], ["history", "notes.txt"], ["status", "nowhere"]):
        done = penstock(*command)
        assert done.code == 2
        assert "no controller has run here" in done.err
    assert [path.name for path in Path().iterdir()] == ["notes.txt"]


def test_a_network_takes_no_file_of_the_hosts(penstock, network, here):
    """A network whose folder would lie where hosts that outlive penstock are kept is refused, and nothing is made."""
    Path("n.toml").write_text(Path(network).read_text().replace('"two-chains"', '"hosts.json"', 1))
    given = ["--hosts", 3, "--rates", "clicks=1,buys=1", "--duration", 1]
    refused = penstock("control", "n.toml", *given)
    assert refused.code == 2
    assert "hosts.json: penstock keeps a file of this name for its hosts (name a --directory" in refused.err
    assert penstock("control", "n.toml", *given, "--directory", "mine").code == 0
    assert not Path(".penstock").exists()


@pytest.mark.parametrize("directory", [[], [".penstock/two-chains"]])
def test_where_a_controller_was_refused_none_has_run(penstock, network, here, monkeypatch, directory):
    """A controller that was refused before it ran has not been killed: the commands say that none has run there."""

    def refusing(*_):
        raise InputError("no")

    monkeypatch.setitem(engines.ENGINES, "simulation", refusing)
    rates = ["--rates", "clicks=100,buys=20"]
    assert penstock("control", network, "--hosts", 2, "--placement", PLACED, *rates).code == 2
    assert Path(".penstock/two-chains/control").is_dir()
    for command in ("status", "history", "stop"):
        done = penstock(command, *directory)
        assert done.code == 2
        assert "no controller has run here" in done.err


def test_controller_at_work_is_reached(penstock, network, here, examples):
    """Status, move, drain, admit and stop reach a controller that runs; a second one and strangers are refused."""
    arguments = [
        "control", str(network), "--hosts", "3", "--rates", "clicks=100,buys=20", "--duration", "10000", "--placement",
        PLACED, "--pace", "20", "--policy", "", "--json",
    ]  # fmt: skip
    running = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.app", *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        folder = Folder(".penstock/two-chains")
        end = time.monotonic() + 240
        while not (folder.alive and (folder.read() or {}).get("status", {}).get("time", 0) > 5):
            assert time.monotonic() < end
            time.sleep(0.05)
        assert penstock("status", "--json").document["alive"]
        second = penstock(*arguments)
        assert second.code == 2
        assert "another controller" in second.err
        moved = penstock("move", "scored", "h3", "--json")
        assert moved.code == 0
        assert moved.document["decided"]["moves"] == [{"operator": "scored", "from": "h1", "to": "h3"}]
        assert penstock("move", "scored", "h9").code == 2
        assert penstock("move", "views", "h3", "--dry-run", "--json").document["acted"] is False
        assert penstock("move", "views", "h1", "--dry-run").code == 1
        admitted = penstock(
            "admit", network, examples / "two-chains" / "alarm.toml", "--hosts", 3, "--rates", "clicks=100,buys=20",
            "--placement", PLACED, "--latency", 5, "--apply", "--json",
        )  # fmt: skip
        assert admitted.code == 0
        assert admitted.document["applied"] is True
        assert admitted.document["placement"] == admitted.document["controller"]["decided"]["attach"]
        assert penstock("drain", "h2", "--json").document["done"]
        request = folder.path / "requests" / "stranger.json"
        request.write_text(json.dumps({"kind": "stop", "token": "wrong \ud800"}))
        reply = folder.path / "replies" / "stranger.json"
        while not reply.exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        assert json.loads(reply.read_text()) == {"done": False, "why": "wrong token"}
        assert oct((folder.path / "token").stat().st_mode & 0o777) == "0o600"
        assert penstock("stop").code == 0
        report = json.loads(running.communicate(timeout=30)[0])
    finally:
        running.kill()
    assert report["placement"]["scored"] == "h3"
    assert "h2" not in report["placement"].values()
    assert {"rare", "alarmed"} <= set(report["placement"])
    assert report["balanced"]
    assert penstock("status", "--json").document["alive"] is False


def test_a_query_is_asked_for_with_its_bounds(penstock, network, here, examples, monkeypatch):
    """The bounds of the command line reach the controller with the query."""
    asked = []
    monkeypatch.setattr(Folder, "known", True)
    monkeypatch.setattr(Folder, "ask", lambda _, kind, given: asked.append((kind, given)) or {"done": False, "why": ""})
    penstock(
        "admit", network, examples / "two-chains" / "alarm.toml", "--hosts", 2, "--rates", "clicks=100,buys=20",
        "--placement", PLACED, "--latency", 4, "--sink-latency", "dashboard=2", "--apply", "--directory", "somewhere",
    )  # fmt: skip
    ((kind, given),) = asked
    assert (kind, given["latency"], given["sinks"]) == ("admit", 4.0, {"dashboard": 2.0})


@pytest.mark.parametrize(
    ("command", "answer", "words"),
    [
        (
            ["move", "a", "h2"],
            {"decided": {"moves": []}, "refused": ["'a' is pinned to 'h1'"], "why": "asked"},
            "pinned",
        ),
        (["move", "a", "h2"], {"decided": {}, "refused": [], "why": "nothing may move now"}, "nothing may move now"),
        (["drain", "h1"], {"why": "no other host is left than 'h1'"}, "no other host"),
        (["drain", "h1"], {"decided": {}, "refused": [], "why": "h1 is to become empty"}, None),
    ],
)
def test_a_dry_run_says_why_nothing_would_be_done(penstock, monkeypatch, command, answer, words):
    """Who asks dry for what would be refused is told why, with exit 1; a host that is empty can become so."""
    told = {"done": False, "acted": False, **answer}
    monkeypatch.setattr("penstock.control.folder.folder_of", lambda _: SimpleNamespace(ask=lambda *_: told))
    done = penstock(*command, "--dry-run")
    assert done.code == (0 if words is None else 1)
    assert words is None or words in done.err


def test_killed_command_is_started_again(penstock, network, here):
    """The same command after a kill -9 goes on to the end, and the history has each decision once."""
    arguments = [
        "control", str(network), "--hosts", "2", "--rates", "clicks=300,buys=20", "--duration", "60", "--placement",
        PLACED, "--act", "--policy", "shed,rebalance",
    ]  # fmt: skip
    whole = penstock(*arguments, "--directory", "whole", "--pace", 1000, "--json").document
    run = [sys.executable, "-m", "penstock.cli.app", *arguments, "--directory", "killed", "--pace"]
    running = subprocess.Popen([*run, "10"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder, end = Folder("killed"), time.monotonic() + 240
    while not (folder.path.exists() and (folder.read() or {}).get("status", {}).get("time", 0) > 5):
        assert time.monotonic() < end
        time.sleep(0.05)
    running.kill()
    running.wait()
    again = penstock(*arguments, "--directory", "killed", "--pace", 1000, "--json").document
    assert {**again, "seconds": 0, "directory": ""} == {**whole, "seconds": 0, "directory": ""}
    assert folder.history() == Folder("whole").history()


def test_folder_holds_one_controller(tmp_path):
    """A folder held by one controller is refused to another, and free again when the first has ended."""
    folder = Folder(tmp_path)
    with folder.held():
        assert folder.alive
        with pytest.raises(InputError, match="another controller"), Folder(tmp_path).held():
            pass
    assert not folder.alive
    with Folder(tmp_path).held():
        pass


def test_damaged_state_is_told(penstock, here):
    """A state file that is damaged is one message, not a trace."""
    control = here / ".penstock" / "x" / "control"
    os.makedirs(control)
    (control / "state.json").write_text("{")
    done = penstock("status")
    assert done.code == 2
    assert "damaged" in done.err


def test_a_new_run_keeps_the_history_of_one_that_is_over(penstock, network, here):
    """Decisions of a run that ended stay in a file of their own, which is named, unless they are to be forgotten."""
    words = [
        "control",
        network,
        "--hosts",
        "2",
        "--rates",
        "clicks=100,buys=20",
        "--duration",
        "5",
        "--directory",
        "run",
    ]
    place = Folder("run")
    assert penstock(*words).code == 0
    place.tell([{"policy": "first"}])
    again = penstock(*words)
    assert again.code == 0
    assert "run/control/history-1.jsonl" in again.err
    assert json.loads((place.path / "history-1.jsonl").read_text().splitlines()[-1]) == {"policy": "first"}
    place.tell([{"policy": "second"}])
    assert "note" not in penstock(*words, "--fresh").err
    assert not (place.path / "history-2.jsonl").exists()


def test_a_run_without_a_controller_is_named(penstock, here):
    """Commands on the folder of a mere run, and on its files as logs, say what looks at it."""
    Path("run").mkdir()
    Path("run/about.json").write_text("{}")
    for command in ("status", "history", "inspect"):
        done = penstock(command, "run")
        assert done.code == 2
        assert "this is the folder of a penstock run: penstock dashboard run" in done.err


def test_moves_that_did_not_come_about_are_not_told_as_moved(capsys):
    """The last line counts the moves that came about."""
    moves = [{"operator": name, "from": "h1", "to": "h2"} for name in "ab"]
    line = {"time": 5.0, "acted": True, "decided": {"moves": moves}, "seen": {"worst": None}, "policy": "p", "why": ""}
    told = {"sinks": {}, "decisions": 1, "moves": moves, "acted": True, "balanced": True, "directory": "x"}
    for moved, words in ((0, "2 moves (0 moved)"), (1, "2 moves (1 moved)"), (2, "2 moves (moved)")):
        show(told, [{**line, "refused": [], "came": {"time": 15.0, "worst": None, "moved": moved}}], act=True)
        assert words in capsys.readouterr().err


def test_what_is_asked_for_is_told_apart_from_what_is_recommended(penstock, network, examples, tmp_path):
    """Without --act a scenario's query is attached all the same, and the report and its last line say so."""
    (tmp_path / "s.toml").write_text(f'[[events]]\nat = 3\nadmit = "{examples / "two-chains/alarm.toml"}"\n')
    asked = ["control", network, "--hosts", 2, "--duration", 12, "--placement", "views=h1,scored=h1,paid=h1,billed=h1"]
    for rates, more, acted, words in (
        ("clicks=90,buys=20", ["--scenario", tmp_path / "s.toml", "--policy", ""], True, "(1 asked for);"),
        ("clicks=900,buys=20", ["--scenario", tmp_path / "s.toml"], True, "(1 asked for, the rest recommended only);"),
        ("clicks=900,buys=20", [], False, "(recommended only);"),
        ("clicks=9,buys=2", ["--act"], False, "0 decisions, 0 moves (moved);"),
    ):
        done = penstock(*asked, "--rates", rates, *more, "--directory", tmp_path / "run", "--fresh")
        assert words in done.err
        done = penstock(*asked, "--rates", rates, *more, "--directory", tmp_path / "run", "--fresh", "--json")
        assert done.document["acted"] is acted


def test_status_says_what_moves_and_that_there_is_more(penstock, network, burst):
    """Operators that move are marked, which is explained, and those that are not shown leave a mark."""
    penstock("control", network, "--hosts", 2, "--rates", burst, "--placement", PLACED, "--act")
    folder = Folder(".penstock/two-chains")
    known = folder.read()
    assert "is moving" not in penstock("status").err
    many = {f"o{number}": {"host": "h1"} for number in range(9)}
    folder.write({**known, "status": {**known["status"], "operators": many, "moving": ["o0"]}})
    said = penstock("status")
    assert "o0*, o1" in said.out
    assert "o7, …" in said.out
    assert "*: is moving" in said.err


def test_batches_take_what_statistics_say(penstock, network, burst, tmp_path):
    """Without --overhead a simulated host's batches take the fixed time that was measured there."""
    known = tmp_path / "statistics.json"
    known.write_text('{"operators": {}, "hosts": {"h1": {"overhead": 0.6}, "h2": {"overhead": 0.6}}}')
    common = ["control", network, "--hosts", 2, "--rates", burst, "--placement", PLACED, "--trigger", "1", "--json"]
    measured, given, free = (
        penstock(*common, "--directory", tmp_path / f"d{k}", *more).document["latency"]["mean"]
        for k, more in enumerate([["--statistics", known], ["--overhead", "0.6"], ["--overhead", "0"]])
    )
    assert free < measured == given


@pytest.mark.parametrize("trigger", [[], ["--trigger", "1"]])
def test_micro_batches_that_the_simulator_leaves_out_are_noted(penstock, network, burst, tmp_path, trigger):
    """Where the cluster is Spark and no trigger is given it is said that rows are served one by one."""
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('[hosts.h1]\n[hosts.h2]\n[spark]\ntrigger = "2 seconds"\n')
    done = penstock("control", network, "--cluster", cluster, "--rates", burst, "--placement", PLACED, *trigger)
    assert ("count with --trigger 2" in done.err) == (not trigger)
