"""The decisions of a controller, as they come: those of which it is known what came, and those that are still open."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from penstock.control.folder import decision_in
from penstock.files import Document
from penstock.monitor.lines import Lines

MOST = 5_000
"""Decisions that are remembered."""


class Decisions:
    """Reads a controller's history, and at each look only the lines that are new and whole.

    Parameters
    ----------
    folder
        ``DIR/control`` of the controller.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._settled: list[Document] = []
        self._open: list[Document] = []
        self._history = Lines(folder / "history.jsonl")
        self._lines = 0
        self._told: int | None = None
        self._seen = 0
        self.count = 0
        """Decisions there were, also those that are forgotten."""

    def look(self) -> list[Document] | None:
        """Return all decisions, the oldest first; None if nothing is new."""
        before = self._told, self._open
        fresh = self._fresh()
        self._unsettled()
        if not fresh and (self._told, self._open) == before:
            return None
        self._settled = [*self._settled, *fresh][-MOST:]
        # Of a decision that settles just now the history knows before the state does.
        early = 0 if self._told is None else max(self._lines - self._told, 0)
        self.count = self._lines - early + len(self._open)
        return [*self._settled[: len(self._settled) - early], *self._open]

    def _fresh(self) -> list[Document]:
        lines = self._history.look()
        if self._history.anew:
            self._lines, self._settled = 0, []
        fresh = [row for line in lines if (row := decision_in(line)) is not None]
        self._lines += len(fresh)
        return fresh

    def _unsettled(self) -> None:
        path = self.folder / "state.json"
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            when = path.stat().st_mtime_ns
            if when != self._seen:
                known = json.loads(path.read_bytes())
                self._open, self._told = [row[0] for row in known["state"]["open"]], known.get("told")
                self._seen = when
