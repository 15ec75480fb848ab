"""What output options write into: files are replaced whole, and what is no file stays what it is."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import InputError
from penstock.files import atomic


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


def test_a_directory_is_no_output(tmp_path: Path) -> None:
    """An output that is a directory is refused before anything is worked out."""
    with pytest.raises(InputError, match="expected a file, got a directory") as refused, atomic(tmp_path):
        raise AssertionError
    assert refused.value.file == tmp_path


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
