"""What a controller does with requests and a state file that are damaged."""

from __future__ import annotations

import json

import pytest
from engines import APART, simulated, stepped, two_queries
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.control.controller import Controller, left_by
from penstock.control.folder import Folder
from penstock.control.loop import Control
from penstock.control.policies.base import Proposal
from penstock.errors import InputError
from penstock.steering import Plan

KEEP = Plan(keep={"s1->cheap1": 0.5})


def written(path):
    """Return a folder with what a controller remembers that has kept half of a stream."""
    folder, engine = Folder(path), simulated(two_queries(), APART, stepped((5, 50.0)))
    control = Control(policies=(lambda now, _: proposal(now),), act=True, journaled=True)
    with folder.held():
        controller = Controller(engine=engine, control=control, folder=folder, until=5.0, identity={"network": "two"})
        controller.run()
    folder.write({**(folder.read() or {}), "over": False})
    return folder


def proposal(now):
    """Return a plan that keeps half of a stream, until it is in force."""
    return None if now.seen.keep else Proposal(policy="half", plan=KEEP, why="half")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with a state file, and what that says."""
    folder = written(tmp_path_factory.mktemp("kept"))
    return folder, folder.read()


@pytest.mark.parametrize("request_of", [{}, {"network": 3}, {"network": {"name": "x"}}, {"rates": {"s": "many"}}])
def test_a_request_that_cannot_be_read_is_refused(tmp_path, request_of):
    """A request that lacks something, or has what it should not have, is answered, and the controller goes on."""
    folder, engine = Folder(tmp_path), simulated(two_queries(), APART, stepped((5, 50.0)))
    with folder.held():
        controller = Controller(engine=engine, control=Control(policies=()), folder=folder, until=5.0)
        token = (folder.path / "token").read_text()
        asked = {"kind": "admit", "token": token, **request_of}
        (folder.path / "requests" / "one.json").write_text(json.dumps(asked))
        controller.run()
    answer = json.loads((folder.path / "replies" / "one.json").read_text())
    assert answer["done"] is False
    assert "cannot be read" in answer["why"]


@pytest.mark.parametrize(
    "changed",
    [
        {"identity": 3},
        {"state": None},
        {"told": "x"},
        {"waiting": [[]]},
        {"status": 3},
        {"state": {"journal": [[]]}},
        {"state": {"journal": [[1.0, {}]]}},
        {"state": {"written": 9}},
        {"state": {"written": "x"}},
        {"state": {"known": {}}},
        {"state": {"at": None}},
    ],
)
def test_a_damaged_state_is_told_with_its_file(kept, changed):
    """Where the state file is damaged, a controller that would go on names the file and begins nothing."""
    folder, whole = kept
    (folder.path / "state.json").write_text(json.dumps({"over": False}))
    with pytest.raises(InputError, match=r"state\.json: is damaged: .*--fresh"):
        left_by(folder, {"network": "two"})
    inner = changed.get("state")
    damaged = {**whole, **changed} if not inner else {**whole, "state": {**whole["state"], **inner}}
    folder.write(damaged)
    with pytest.raises(InputError, match=r"state\.json: is damaged: .*--fresh"):
        left_by(folder, {"network": "two"})


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_state_without_one_of_its_keys_is_damaged_or_as_good(kept, data):
    """Whatever key is lost from a state file, it is gone on with or refused with the reason."""
    folder, whole = kept
    document = json.loads(json.dumps(whole))
    assert left_by(written_as(folder, document), {"network": "two"}) == document
    place = document
    for _ in range(data.draw(st.integers(0, 2))):
        inner = [key for key, value in place.items() if isinstance(value, dict) and value]
        if not inner:
            break
        place = place[data.draw(st.sampled_from(sorted(inner)))]
    del place[data.draw(st.sampled_from(sorted(place)))]
    why = ""
    try:
        left_by(written_as(folder, document), {"network": "two"})
    except InputError as error:
        why = str(error)
    assert not why or "damaged" in why or "not over" in why


def written_as(folder, document):
    """Return the folder with a document as its state."""
    folder.write(document)
    return folder


@given(
    lines=st.lists(st.sampled_from(['{"time": 1}', '{"time": 2.5}', '{"ti', "", "[]"]), max_size=9),
    told=st.none() | st.integers(0, 10),
    still=st.integers(0, 3),
    cut=st.booleans(),
)
def test_the_last_decisions_are_those_of_all(tmp_path_factory, lines, told, still, cut):
    """The last decisions are the end of all, whichever lines are damaged, cut off or not known to the state."""
    folder = Folder(tmp_path_factory.mktemp("run"))
    folder.path.mkdir()
    (folder.path / "history.jsonl").write_text("\n".join(lines) + ("" if cut else "\n"))
    known = {"told": told, "state": {"open": [[{"time": 10 + k}] for k in range(still)]}}
    assert folder.latest(known, 2) == folder.decisions(known)[-2:]


def test_the_last_decisions_need_no_others(tmp_path, monkeypatch):
    """Of a long history that the state knows only the last lines are taken apart."""
    folder = Folder(tmp_path)
    folder.path.mkdir()
    folder.tell({"time": k} for k in range(1000))
    monkeypatch.setattr(Folder, "history", None)
    assert folder.latest({"told": 1000}, 2) == [{"time": 998}, {"time": 999}]
