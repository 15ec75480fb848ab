"""How the command line behaves: progress, silence, colours, completion."""

from __future__ import annotations

import contextlib
import errno
import io
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import rich.progress

from penstock.cli import common, progress
from penstock.cli.app import arguments
from penstock.cli.progress import Milestones
from penstock.cli.streams import guarded
from penstock.errors import Enough

PLAN = ["examples/two-chains/network.toml", "--hosts", "2", "--rates", "examples/two-chains/rates.csv"]


def begin(root: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    known = {**os.environ, **environment}
    command = [sys.executable, "-m", "penstock.cli.app", *words]
    return subprocess.run(command, cwd=root, env=known, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("words", [["load", *PLAN], ["load", *PLAN, "--json"], ["-h"], ["load", "-h"], ["--version"]])
def test_answers_that_cannot_be_written_are_told(root: Path, words: list[str]) -> None:
    """A reader who has left is no error; a full disk is one message; who closes standard output wants nothing of it."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "penstock.cli.app", *words]
    for out, code, says in ((write, 0, ""), ("/dev/full", 2, "cannot be written: No space left"), (None, 0, "")):
        with open("/dev/full", "wb") as full:
            given = full if isinstance(out, str) else out
            closed = ["sh", "-c", 'exec "$@" >&-', "sh"] if out is None else []
            done = subprocess.run(
                [*closed, *command], cwd=root, stdout=given, stderr=subprocess.PIPE, text=True, timeout=120
            )
        assert done.returncode == code
        assert says in done.stderr
        assert len(done.stderr.splitlines()) <= 1
    os.close(write)


def test_a_message_that_nobody_can_read_changes_no_code(root: Path) -> None:
    """Bad input ends with 2 also where standard error leads nowhere."""
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "penstock.cli.app", "inspect", "nope"]
        assert subprocess.run(command, cwd=root, stdout=full, stderr=full, timeout=120).returncode == 2


class Gone(io.StringIO):
    """A standard stream, a terminal's or not, that nobody reads any more."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.isatty = lambda: terminal  # type: ignore[method-assign]

    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


@pytest.mark.parametrize("terminal", [False, True])
def test_who_reads_no_messages_any_more_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    """Work goes on to its answer where standard error leads nowhere, be it a pipe's end or a terminal that is gone."""
    times = count(0.0, 10.0)
    monkeypatch.setattr(sys, "stderr", Gone(terminal))
    with guarded():
        with progress.progress(lambda: next(times)) as tell:
            for share in (0.1, math.nan, 1.0):
                tell("running", share)
        common.say("a note")
        common.table("answer", ["a"], [["b"]])
    assert "b" in capsys.readouterr().out


def test_only_readers_of_the_answer_may_leave(penstock: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that breaks elsewhere in the middle of a command is no end in order."""

    def fails(*_: Any) -> Any:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("penstock.cli.reading.get_network", fails)
    with pytest.raises(ConnectionError, match="Broken pipe"):
        penstock("load", *PLAN)


def test_a_full_disk_is_not_taken_for_the_answers(penstock: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where any other file cannot be written, the message does not say that the answer could not."""

    def fails(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("penstock.cli.reading.get_network", fails)
    done = penstock("load", *PLAN)
    assert (done.code, done.out, done.err) == (2, "", "penstock: No space left on device\n")


def test_milestones_are_few(capsys: pytest.CaptureFixture[str]) -> None:
    """Where nobody watches a bar, work that is over soon says nothing, and long work a line for each thing it does."""
    now = [0.0]
    tell = Milestones(lambda: now[0])
    for k in range(20):
        now[0] = k / 10
        tell("starting", k / 1000)
    assert capsys.readouterr().err == ""
    for k in range(300):
        now[0] = 3 + k / 10
        tell("calibrating", 0.1 + k / 3000)
    for k in range(100):
        now[0] = 34 + k / 10
        tell("running", 0.5 + k / 250)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[-1] for line in lines] == ["calibrating", "running", "running"]
    assert lines[0].split()[:4] == ["3", "s", "10%", "calibrating"]


def test_silence_is_broken_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    """While the same thing goes on, a line comes every half minute."""
    now = [0.0]
    tell = Milestones(lambda: now[0])
    for k in range(100):
        now[0] = float(k)
        tell("running", 0.1)
    assert len(capsys.readouterr().err.splitlines()) == 4


@pytest.fixture
def hung_up() -> Iterator[None]:
    """Tests hear of a terminal that closes, also where whoever started them had nothing heard of it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hung_up")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_only_the_first_signal_asks_a_run_to_end_in_order(number: int) -> None:
    """Where something runs it hears of the first signal that asks; else that ends the command with its code."""
    before = signal.getsignal(number)
    with common.ending_in_order() as asked, contextlib.suppress(Enough):
        signal.raise_signal(number)
    assert asked == [number]
    with pytest.raises(SystemExit) as left, common.ending_in_order():
        signal.raise_signal(number)
    assert left.value.code == 128 + number
    assert signal.getsignal(number) is before


@pytest.mark.usefixtures("hung_up")
def test_a_terminal_that_closes_asks_once() -> None:
    """What tells of it again cuts no end short; who asks that nothing be heard of it, as nohup does, is not asked."""
    with common.ending_in_order() as asked:
        with contextlib.suppress(Enough):
            signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
    assert asked == [signal.SIGHUP]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with common.ending_in_order() as asked, common.ending_when_asked():
            signal.raise_signal(signal.SIGHUP)
        assert (asked, signal.getsignal(signal.SIGHUP)) == ([], signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hung_up")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_has_begun_is_cleaned_up(number: int) -> None:
    """A command that starts hosts is left by SIGTERM and SIGHUP as by Ctrl-C."""
    with pytest.raises(SystemExit) as left, common.ending_when_asked():
        signal.raise_signal(number)
    assert left.value.code == 128 + number


def test_nobody_knows_how_far_work_without_an_end_is(capsys: pytest.CaptureFixture[str]) -> None:
    """A share that is not known is not shown."""
    now = [0.0]
    tell = Milestones(lambda: now[0])
    now[0] = 10.0
    tell("running", math.nan)
    assert capsys.readouterr().err.split() == ["10", "s", "running"]


def test_the_bar_of_work_without_an_end_shows_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal the bar has a total only while somebody knows how far the work is."""
    bars: list[Any] = []
    plain = rich.progress.Progress.__enter__
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(rich.progress.Progress, "__enter__", lambda self: bars.append(self) or plain(self))
    with progress.progress() as tell:
        for share, total in ((0.5, 1.0), (math.nan, None), (math.nan, None), (1.0, 1.0)):
            tell("running", share)
            (task,) = bars[0].tasks
            assert (task.total, task.description) == (total, "running")


def test_quiet_works_in_front_of_and_behind_a_command(penstock: Any, root: Path) -> None:
    """--quiet means the same wherever it stands, and does not outlive its command."""
    assert arguments(["run", "x", "--quiet"]) == ["--quiet", "run", "x"]
    for words in (["--quiet", "load", *PLAN], ["load", *PLAN, "--quiet"]):
        assert penstock(*words).code == 0
        assert progress.quiet
    assert penstock("load", *PLAN).code == 0
    assert not progress.quiet


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colours_outside_a_terminal(root: Path, environment: dict[str, str]) -> None:
    """What goes to a file or pipe has no escape codes."""
    done = begin(root, "load", *PLAN, **environment)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr


def test_completion_can_be_had(root: Path) -> None:
    """The shell's completion knows commands and options."""
    asked = {"_PENSTOCK_COMPLETE": "complete_bash", "COMP_WORDS": "penstock insp", "COMP_CWORD": "1"}
    code = "import sys; sys.argv[0] = 'penstock'; from penstock.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env={**os.environ, **asked}, capture_output=True, text=True, timeout=60
    )
    assert "inspect" in done.stdout


def test_completion_that_cannot_be_installed_is_one_message(root: Path, tmp_path: Path) -> None:
    """A home that cannot be written is one message that names the file."""
    (tmp_path / "home").write_text("no folder")
    # Else the shell is found by who has started the tests.
    told = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "HOME": str(tmp_path / "home")}
    done = begin(root, "--install-completion", "bash", **told)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith(f"penstock: {tmp_path / 'home'}")
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_dashboard_says_what_it_needs(root: Path) -> None:
    """Where the dashboard's packages are missing one line says which to install."""
    code = """
import sys
from penstock.cli.app import main
from penstock.extras import EXTRAS
sys.modules.update(dict.fromkeys(EXTRAS["dashboard"][1]))
sys.argv = ["penstock", "dashboard", "examples/event-log"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("(in a clone of penstock: pip install '.[dashboard]')")


def test_tables_show_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that looks like markup is printed as it is, in cells and headings."""
    common.table("t", ["[b]name[/b]"], [["[/closed]"], ["clicks[eu]"]])
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("[b]name[/b]", "[/closed]", "clicks[eu]"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["place"], "missing argument 'NETWORK' (see penstock place -h)"),
        (["place", "x.toml", "--hots", "2"], "no such option: --hots (did you mean '--hosts'?)"),
        (["nothing"], "no such command 'nothing' (see penstock -h)"),
        (["hosts", "nothing"], "no such command 'nothing' (see penstock hosts -h)"),
        (["load", "x.toml", "--hosts", "two"], "--hosts: expected a whole number, got 'two' (see penstock load -h)"),
    ],
)
def test_a_command_line_that_does_not_parse_is_one_message(root: Path, words: list[str], said: str) -> None:
    """What is wrong with options is said like what is wrong with files, on one line, and the exit code is 2."""
    done = begin(root, *words, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.replace("python -m penstock.cli.app", "penstock") == f"penstock: {said}\n"
