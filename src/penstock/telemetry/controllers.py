"""A controller seen from outside: what it remembers, what it decided, and how it is asked for something.

``DIR/control`` holds ``lock`` (held while a controller runs), ``token`` (who asks for a change shows it),
``state.json``, ``history.jsonl`` (a line a decision), ``requests`` and ``replies``, each file written as a whole.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.errors import EngineError, InputError

PATIENCE = 15.0
"""Seconds after which a controller that does not answer is given up."""


class Controller:
    """The controller of a folder, if there is one.

    Parameters
    ----------
    directory
        Of the network that is controlled.
    """

    def __init__(self, directory: Path) -> None:
        self.directory, self.path = directory, directory / "control"
        self._read = 0

    @property
    def alive(self) -> bool:
        """Whether a controller runs here."""
        try:
            with open(self.path / "lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return False

    def status(self) -> dict[str, Any]:
        """Return how things stand, as the controller wrote it last; empty before it did."""
        try:
            return json.loads((self.path / "state.json").read_bytes()).get("status", {})  # type: ignore[no-any-return]
        except (OSError, ValueError):
            return {}

    def decisions(self) -> list[dict[str, Any]]:
        """Return the decisions that are new since the last call, the oldest first; a line that is not whole waits.

        A history that has become shorter was begun anew: then all of them.
        """
        path = self.path / "history.jsonl"
        try:
            if path.stat().st_size < self._read:
                self._read = 0
            with path.open("rb") as file:
                file.seek(self._read)
                whole = file.read().rpartition(b"\n")[0]
        except (FileNotFoundError, NotADirectoryError):
            return []
        self._read += len(whole) + 1 if whole else 0
        return [row for line in whole.splitlines() if (row := _decision(line)) is not None]

    def ask(self, kind: str, given: Mapping[str, Any], patience: float = PATIENCE) -> dict[str, Any]:
        """Ask the controller for something, and return its answer.

        Parameters
        ----------
        kind
            ``move``, ``drain`` or ``stop``.
        given
            ``operator`` and ``host``; ``dry``: only what it would do.
        patience
            Seconds to wait for the answer.

        Raises
        ------
        InputError
            If no controller runs, or it may not be asked.
        EngineError
            If it does not answer.
        """
        if not self.alive:
            raise InputError("no controller runs here", file=self.directory, hint="start one: penstock control")
        try:
            token = (self.path / "token").read_text().strip()
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file=self.path / "token") from None
        identity = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        self._request(identity, {**given, "kind": kind, "token": token})
        answer, end = self.path / "replies" / f"{identity}.json", time.monotonic() + patience
        while time.monotonic() < end:
            if answer.exists():
                document: dict[str, Any] = json.loads(answer.read_bytes())
                answer.unlink(missing_ok=True)
                return document
            time.sleep(0.02)
        raise EngineError(f"the controller in {self.directory} did not answer within {patience:g} s")

    def _request(self, identity: str, document: Mapping[str, Any]) -> None:
        part = self.path / "requests" / f".{identity}.part"
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            json.dump(document, file)
        part.rename(self.path / "requests" / f"{identity}.json")


def _decision(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("time"), int | float) else None
