"""What is told of a file system that has no locks."""

from __future__ import annotations

import errno
import os

import pytest

from penstock.control.folder import Folder
from penstock.errors import InputError
from penstock.spark.hosts.kept_file import changing
from penstock.spark.run.folder import owned
from penstock.spark.shipped.place import place_of


@pytest.mark.parametrize(
    ("lock", "named"),
    [
        (lambda folder: Folder(folder).held(), "a --directory"),
        (lambda folder: owned(place_of(str(folder))), "a --directory"),
        (lambda folder: changing(folder / "hosts.json"), "a --file"),
    ],
)
def test_a_file_system_without_locks_is_told_as_one(tmp_path, monkeypatch, lock, named):
    """Where nobody can lock a file nobody is said to have done so, and the message says what to do."""

    def refuse(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", refuse)
    with (
        pytest.raises(InputError, match=rf"{tmp_path}.*: this file system has no locks: .*name {named} elsewhere"),
        lock(tmp_path),
    ):
        raise AssertionError
    assert not Folder(tmp_path).alive
