"""Folders that are damaged, or of something else: one clear error each, and no more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from folders import Folder, setting

from penstock.control.folder import Folder as Controlled
from penstock.errors import InputError
from penstock.load.setting import setting_of
from penstock.monitor import open_view
from penstock.monitor.controlled import ControlledView
from penstock.monitor.decisions import Decisions


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("run.json", '{"run":', "is damaged"),
        ("run.json", "[1]", "is damaged: expected an object, got [1]"),
        ("run.json", '{"name": "of others"}', "is not what penstock run writes"),
        ("run.json", "[" * 100_000, "is damaged"),
        ("about.json", "\x00\xff", "is damaged"),
        ("about.json", "{}", "does not tell what is deployed"),
        ("about.json", '{"cluster": 1, "rates": null}', "does not tell what is deployed"),
        ("control/about.json", "[]", "is damaged"),
        ("control/about.json", '{"cluster": {"links": [[1]]}, "rates": null}', "does not tell what is deployed"),
    ],
)
def test_a_folder_that_is_damaged_is_refused(penstock: Any, tmp_path: Path, file: str, text: str, says: str) -> None:
    """A file that is no JSON, no object or of something else is named, with what is wrong with it."""
    if file.startswith("control"):
        (tmp_path / "control").mkdir()
    else:
        Folder(tmp_path)
    (tmp_path / file).write_bytes(text.encode("latin-1"))
    done = penstock("dashboard", tmp_path, "--port", 0)
    assert done.code == 2
    assert f"{tmp_path / file}: {says}" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("run.json", lambda document: document.update(units=None)),
        ("run.json", lambda document: document["units"][0].pop("host")),
        ("run.json", lambda document: document["placement"].update(views="gone")),
        ("about.json", lambda document: document["cluster"]["hosts"][0].update(name="other")),
        ("about.json", lambda document: document["cluster"]["spark"].update(trigger="soon")),
        ("control/state.json", lambda document: document.update(status={"time": None})),
    ],
)
def test_a_folder_of_another_form_is_refused(tmp_path: Path, file: str, change: Callable[[Any], object]) -> None:
    """What can be read but not shown is one error of the folder when it is opened, not later."""
    if file.startswith("control"):
        document: Any = {}
        controlled(tmp_path)
    else:
        Folder(tmp_path)
        document = json.loads((tmp_path / file).read_text())
    change(document)
    (tmp_path / file).write_text(json.dumps(document))
    with pytest.raises(InputError, match="is damaged, or of another version of penstock") as refused:
        open_view([str(tmp_path)])
    assert refused.value.file == tmp_path


def test_a_document_of_another_version_is_refused() -> None:
    """What is deployed is refused where it has keys that are not known here."""
    document = json.loads(json.dumps(setting().document()))
    document["cluster"]["hosts"][0]["colour"] = "red"
    with pytest.raises(InputError, match="does not tell what is deployed"):
        setting_of(document)


def controlled(folder: Path) -> Path:
    """Make a controller's folder that tells what is deployed, and return that of its files."""
    path = folder / "control"
    path.mkdir(parents=True)
    (path / "about.json").write_text(json.dumps(setting().document()))
    return path


@pytest.mark.parametrize("text", ['{"sta', "[1]", '"x"', "\ufffd"])
def test_a_state_that_is_damaged_meanwhile_is_told(tmp_path: Path, text: str) -> None:
    """A controller's state that becomes unreadable while it is looked at is one clear error."""
    path = controlled(tmp_path)
    view = open_view([str(tmp_path)])
    assert isinstance(view, ControlledView)
    view.look(0.0)
    (path / "state.json").write_text(text)
    with pytest.raises(InputError, match=r"state\.json: is damaged"):
        view.look(1.0)
    (path / "state.json").unlink()
    view.look(2.0)


@pytest.mark.parametrize("state", ["[1]", '{"state": []}', '{"state": {"open": 3}}', '{"state": {"open": [[]]}}'])
def test_decisions_outlive_a_damaged_state(tmp_path: Path, state: str) -> None:
    """Decisions that were read stay where the state no longer tells of those that are open."""
    reader, line = Decisions(tmp_path), {"time": 2.0, "why": "h1 is full"}
    (tmp_path / "state.json").write_text(json.dumps({"state": {"open": [[line, None]]}}))
    assert reader.look() == [line]
    (tmp_path / "state.json").write_text(state + " " * 80)
    assert reader.look() is None


def test_a_decision_that_settles_is_there_once(tmp_path: Path) -> None:
    """Between the writing of the history and of the state nobody sees a decision twice."""
    folder = Controlled(tmp_path)
    folder.path.mkdir()
    first, line = {"time": 1.0, "came": None}, {"time": 2.0, "came": None}
    reader = Decisions(folder.path)
    folder.write({"told": 0, "state": {"open": [[first, None, []], [line, None, []]]}})
    assert reader.look() == folder.decisions(folder.read() or {}) == [first, line]
    folder.tell([{**first, "came": {}}])
    assert (reader.look() or [first, line]) == folder.decisions(folder.read() or {}) == [first, line]
    folder.write({"told": 1, "state": {"open": [[line, None, []]]}, "later": True})
    assert reader.look() == folder.decisions(folder.read() or {}) == [{**first, "came": {}}, line]
    assert reader.count == 2


def test_a_history_of_the_same_length_is_noticed(tmp_path: Path) -> None:
    """A history that was begun anew is read anew, however long it has become."""
    reader, path = Decisions(tmp_path), tmp_path / "history.jsonl"
    path.write_text('{"time": 1.0}\n')
    assert reader.look() == [{"time": 1.0}]
    path.write_text('{"time": 2.0}\n{"time": 3.0}\n')
    assert reader.look() == [{"time": 2.0}, {"time": 3.0}]


@pytest.mark.parametrize("command", ["status", "history"])
@pytest.mark.parametrize("state", ['{"state": 5}', '{"status": {"time": 1}, "state": 5}'])
def test_commands_name_a_damaged_folder(penstock: Any, tmp_path: Path, command: str, state: str) -> None:
    """What status and history cannot show is one error of the controller's folder."""
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "state.json").write_text(state)
    done = penstock(command, tmp_path)
    assert done.code == 2
    assert "is damaged, or of another version of penstock" in done.err


def test_a_line_cut_inside_a_letter_is_left_out(tmp_path: Path) -> None:
    """A kill in the middle of a letter costs that line alone, and what comes next has a line of its own."""
    (tmp_path / "control").mkdir()
    place, path = Controlled(tmp_path), tmp_path / "control" / "history.jsonl"
    place.tell([{"time": 1.0, "why": "größe"}])
    path.write_bytes(path.read_bytes() + '5\nnull\n{"time": 2.0, "why": "grö'.encode()[:-1])
    assert [row["time"] for row in place.history()] == [1.0]
    place.cut(1)
    place.tell([{"time": 3.0}])
    assert [row["time"] for row in place.history()] == [1.0, 3.0]
