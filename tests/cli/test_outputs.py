"""What output options write into: files are replaced whole, and what is no file stays what it is."""

from __future__ import annotations

import json
import os
import stat
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.cli import common, control, run
from penstock.cli.streams import Unwritten
from penstock.errors import InputError
from penstock.files import atomic, check_file

SHED = ["n.toml", "--placement", "f=h1", "--at", "a=1"]
SIMULATE = ["n.toml", "--placement", "f=h1"]
PROVISION = ["n.toml", "--rates", "a=1", "--latency", "1", "--host-like", "h1"]


def write(path: Path, text: str) -> None:
    """Write a text as commands write their outputs."""
    with atomic(path) as file:
        file.write(text)


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    """An output that is a link stays a link, whether there is already a file at its end or not."""
    there, new = tmp_path / "there", tmp_path / "below" / "new"
    there.write_text("before")
    for end in (there, new):
        link = tmp_path / f"to-{end.name}"
        link.symlink_to(end)
        write(link, "after")
        assert link.is_symlink()
        assert end.read_text() == "after"
    assert {path.name for path in tmp_path.iterdir()} == {"there", "below", "to-there", "to-new"}


def test_a_pipe_stays_and_gets_the_whole(tmp_path: Path) -> None:
    """Whoever reads an output that is a named pipe gets all of it, and the pipe stays."""
    pipe, got = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    write(pipe, "all of it\n")
    reader.join(5)
    assert got == ["all of it\n"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_device_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device is written into, with nothing put in its place or beside it and its mode left alone."""
    device, status = tmp_path / "device", os.stat
    device.touch(mode=0o600)
    before = status(device)

    def pretend(path: Any, **more: Any) -> Any:
        found = status(path, **more)
        return SimpleNamespace(st_mode=stat.S_IFCHR | 0o600) if path == device else found

    monkeypatch.setattr("penstock.files.os.stat", pretend)
    write(device, "row\n")
    monkeypatch.undo()
    after = device.stat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert device.read_text() == "row\n"
    assert list(tmp_path.iterdir()) == [device]


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_a_stream_of_the_process_goes_on(tmp_path: Path, name: str) -> None:
    """An open stream is written where it stands, so that neither what it has is lost nor what comes."""
    with open(tmp_path / "log", "w") as log:
        log.write("before\n")
        log.flush()
        write(Path(name.format(log.fileno())), "row\n")
        log.write("after\n")
    assert (tmp_path / "log").read_text() == "before\nrow\nafter\n"


def test_a_reader_that_leaves_is_told(tmp_path: Path) -> None:
    """What a pipe's reader does not take any more, or a name that is none, is one clear error."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: os.close(os.open(pipe, os.O_RDONLY)), daemon=True)
    reader.start()
    with pytest.raises(InputError, match="cannot be written: Broken pipe"):
        write(pipe, "x" * 1_000_000)
    reader.join(5)
    with pytest.raises(InputError, match="cannot be written"):
        write(tmp_path / "a\0b", "x")


def test_files_are_there_though_nobody_reads_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What --report and --history name is written also where the reader of the answer has left meanwhile."""

    def leaves(_: object) -> None:
        raise Unwritten

    monkeypatch.setattr(common, "answer", leaves)
    report, history, job = tmp_path / "report", tmp_path / "history", cast("Any", None)
    with pytest.raises(Unwritten):
        run._tell(run.EndOptions(report=str(report)), job, job, {"a": 1}, json=True)
    with pytest.raises(Unwritten):
        control._tell({}, [{"a": 1}], control.FolderOptions(history=str(history)), json=True)
    assert json.loads(report.read_text()) == json.loads(history.read_text()) == {"a": 1}


def test_a_directory_is_no_output(tmp_path: Path) -> None:
    """An output that is a directory is refused before anything is worked out."""
    with pytest.raises(InputError, match="expected a file, got a directory") as refused, atomic(tmp_path):
        raise AssertionError
    assert refused.value.file == tmp_path


@pytest.mark.parametrize(
    ("command", "option", "name"),
    [
        ("calibrate", "--out", "out"),
        ("control", "--history", "out"),
        ("provision", "--plot", "out"),
        ("reproduce", "--out", "out.md"),
        ("run", "--learn", "out"),
        ("run", "--report", "out"),
        ("shed", "--plot", "out"),
        ("shed", "--save", "out"),
        ("simulate", "--plot", "out"),
        ("simulate", "--trace", "out"),
    ],
)
def test_a_directory_is_refused_before_all_work(
    penstock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, option: str, name: str
) -> None:
    """An option that names a file to write is checked before any file is read: a directory is none."""
    monkeypatch.setattr("penstock.experiments.reproduce", None)
    (tmp_path / name).mkdir()
    needed = {"shed": SHED, "simulate": SIMULATE, "provision": PROVISION, "reproduce": ["--quick"]}
    done = penstock(command, *needed.get(command, ["n.toml"]), option, tmp_path / name)
    assert done.code == 2
    assert done.err == f"penstock: {tmp_path / name}: {option}: expected a file, got a directory\n"


@pytest.mark.parametrize(
    ("command", "given", "says"),
    [
        ("advise", ["logs", "--plot", "file"], "file: --plot: expected a folder, got a file"),
        ("advise", ["logs", "--plot", "some.png"], "--plot: expected a folder, got 'some.png' (there are several"),
        ("demo", ["--out", "file"], "file: --out: expected a folder, got a file"),
        ("demo", ["--out", "here"], "here/demo.svg: --out: expected a file, got a directory"),
        ("inspect", ["logs", "--out", "file"], "file: --out: expected a folder, got a file"),
        ("inspect", ["logs", "--out", "here"], "here/rates.csv: --out: expected a file, got a directory"),
        ("inspect", ["logs", "--out", ""], "--out: expected a folder, got an empty name"),
        ("provision", [*PROVISION, "--plot", "out.jpg"], "--plot: expected a name that ends in .svg, .png or .pdf"),
        ("reproduce", ["--out", "here/index.md"], "index.md: --out: expected a file, got a directory"),
        ("shed", [*SHED, "--plot", "out.jpg"], "--plot: expected a name that ends in .svg, .png or .pdf"),
        ("shed", [*SHED, "--save", "file/plan.json"], "file: --save: expected a folder, got a file"),
        ("simulate", [*SIMULATE, "--plot", "out.jpg"], "--plot: expected a name that ends in .svg, .png or .pdf"),
        ("simulate", [*SIMULATE, "--trace", "file/deep/t.csv"], "file: --trace: expected a folder, got a file"),
    ],
)
def test_what_cannot_be_written_is_refused_before_all_work(
    penstock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, given: list[str], says: str
) -> None:
    """A name for output that can never be written is refused before any file is read."""
    monkeypatch.chdir(tmp_path)
    for work in ("penstock.experiments.reproduce", "penstock.running.demo.demo"):
        monkeypatch.setattr(work, None)
    Path("file").touch()
    for name in ("rates.csv", "demo.svg", "index.md"):
        Path("here", name).mkdir(parents=True)
    done = penstock(command, *given)
    assert done.code == 2
    assert says in done.err


def test_where_no_file_can_be_made_is_refused_before_all_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that may not be written is named, while what is written into, as a device, needs none."""
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(InputError, match=r"--out: cannot be written: no file can be made here"):
        check_file(tmp_path / "new" / "out.json", "--out")
    for lasting in ("/dev/null", "/dev/stdout"):
        check_file(lasting)


def test_a_run_says_its_report_before_it_writes_it(
    penstock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report that cannot be written is on standard output all the same: the run is over."""
    report = {"latency": {"max": 1.5}}
    monkeypatch.setattr("penstock.spark.hosts.start_hosts", lambda *_, **__: nullcontext())
    monkeypatch.setattr("penstock.spark.run.Engine", lambda *_: None)
    monkeypatch.setattr("penstock.running.job.execute", lambda *_, **__: (tmp_path / "file").touch())
    monkeypatch.setattr("penstock.running.job.finish", lambda *_, **__: SimpleNamespace(report=report))
    tables = '[sources.s]\nformat = "nexmark"\n[operators.f]\nkind = "filter"\ninput = "s"\nwhere = "true"\n'
    (tmp_path / "n.toml").write_text(f'name = "n"\n{tables}[sinks.o]\ninput = "f"\n')
    given = [
        tmp_path / "n.toml",
        "--hosts",
        1,
        "--placement",
        "f=h1",
        "--rates",
        "s=1",
        "--directory",
        tmp_path / "run",
    ]
    done = penstock("run", *given, "--report", tmp_path / "file" / "out.json", "--json")
    assert done.code == 2
    assert done.document["latency"] == report["latency"]
    assert "out.json: cannot be written" in done.err


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    """When writing fails, the old file is whole and nothing lies beside it."""
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(TypeError):
        write(path, None)  # type: ignore[arg-type]
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("out", ["taken", "taken.md"])
def test_reproduce_refuses_a_file_for_its_pictures_at_once(
    penstock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    """Where a file stands in place of the folder for pictures, nothing is computed."""
    monkeypatch.setattr("penstock.experiments.reproduce", None)
    (tmp_path / "taken").touch()
    done = penstock("reproduce", "economical-7", "--quick", "--out", tmp_path / out)
    assert done.code == 2
    assert f"{tmp_path / 'taken'}: --out: expected a folder, got a file" in done.err
