"""What is one user's, where others may have been before."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from penstock.control.folder import JOURNAL, Folder
from penstock.errors import InputError
from penstock.network.file import parse_network
from penstock.running.workplace import MARK, workplace
from penstock.spark.compile import Deployment
from penstock.spark.hosts.kept_file import changing
from penstock.spark.run.folder import Claim, note, owned
from penstock.spark.shipped.place import Place


def mode(path: Path) -> int:
    """Return the rights of a file or folder."""
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("folder", ["control", "control/requests"])
def test_a_controllers_folder_is_its_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    """A controller does not begin in a folder where another user may write."""
    (tmp_path / "control" / "requests").mkdir(parents=True)
    real, theirs = os.fstat, (tmp_path / folder).stat().st_ino

    def stat(handle: int) -> os.stat_result:
        found = real(handle)
        return os.stat_result((*found[:4], os.getuid() + (found.st_ino == theirs), *found[5:]))

    monkeypatch.setattr(os, "fstat", stat)
    with pytest.raises(InputError, match=f"{folder}: belongs to another user"), Folder(tmp_path).held():
        pass


def test_a_controllers_folder_is_closed(tmp_path: Path) -> None:
    """What others could enter is closed to them, and the token that they may know is none any more."""
    folder = Folder(tmp_path)
    for path in (folder.path, folder.path / "requests"):
        path.mkdir()
        path.chmod(0o777)
    (folder.path / "token").write_text("known")
    with folder.held():
        folder.tell([{"plan": {}}], JOURNAL)
        assert mode(folder.path) == mode(folder.path / "requests") == 0o700
        assert mode(folder.path / "token") == mode(folder.path / JOURNAL) == 0o600
        assert (folder.path / "token").read_text() != "known"


LOCKS: dict[str, Callable[[Path], AbstractContextManager[object]]] = {
    "control/lock": lambda home: Folder(home).held(),
    "lock": lambda home: owned(Place(str(home))),
    "hosts.json.lock": lambda home: changing(home / "hosts.json"),
    MARK: lambda home: workplace(home),
}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_leads_nowhere(tmp_path: Path, name: str) -> None:
    """A link in the place of a lock is not followed, and what it leads to stays as it is."""
    home, theirs = tmp_path / "home", tmp_path / "letter"
    (home / "control").mkdir(parents=True)
    theirs.write_text("dear")
    (home / name).symlink_to(theirs)
    if name == MARK:
        with LOCKS[name](home) as elsewhere:
            assert elsewhere != home
    else:
        with pytest.raises(InputError, match="cannot be written"), LOCKS[name](home):
            pass
    assert theirs.read_text() == "dear"


def test_what_may_hold_passwords_is_its_owners(tmp_path: Path) -> None:
    """What tells of queries that were attached is its owner's, also where a version before has left it to all."""
    network = parse_network({"name": "n", "sources": {"s": {}}})
    deployment = Deployment(network, {}, str(tmp_path))
    note(deployment, Claim("first", (), {}))
    note(deployment, Claim("first", (), {}, network))
    assert mode(tmp_path / "run.json") == 0o600
