"""Keeping events in a folder of bounded size, in the lines of Spark's own event log."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import deque
from pathlib import Path
from typing import BinaryIO

from penstock.errors import InputError
from penstock.files import Document
from penstock.telemetry.folders import local
from penstock.telemetry.leftovers import sweep

FILES = 8
"""Into so many files the events of one application are divided that are kept; the oldest goes where room is short."""


class Recorder:
    """Writes events to rolled files, which `penstock inspect` reads.

    Parameters
    ----------
    folder
        Made if it does not exist; several recorders may share it.
    limit
        Bytes of all files of this recorder together, and of those that earlier ones left in the folder.

    Raises
    ------
    InputError
        If the folder is none of this machine or cannot be written, or ``limit`` is no number.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int | float):
            raise InputError(f"expected a number of bytes, got {limit!r}", at="limit")
        self.folder = local(folder)
        self.each = max(limit // FILES, 4096)
        self.application: Document = {}
        self._prefix = _fresh()
        self._number = self._written = 0
        self._file: BinaryIO | None = None
        self._files: deque[Path] = deque()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe = self.folder / f".{self._prefix}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", file=self.folder) from None

    def identify(self, identifier: str, name: str) -> None:
        """Say which application the events are of; it stands at the head of each file, and files are of one only."""
        if self.application:
            if self.application["App ID"] == identifier:
                return
            self.close()
            self._prefix, self._number = _fresh(), 0
        started = int(time.time() * 1000)
        self.application = {
            "Event": "SparkListenerApplicationStart",
            "App Name": name,
            "App ID": identifier,
            "Timestamp": started,
        }

    def write(self, line: bytes) -> None:
        """Append an event, a whole line at once, so that a kill cuts off at most the last one."""
        if self._file is None or self._written + len(line) > self.each:
            self._roll()
        self._append(line)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, line: bytes) -> None:
        if self._file is not None:
            self._file.write(line.rstrip(b"\n") + b"\n")
            self._written += len(line) + 1

    def _roll(self) -> None:
        self.close()
        self._number += 1
        self._written = 0
        path = self.folder / f"{self._prefix}-{self._number:06d}.jsonl"
        self._file = path.open("ab", buffering=0)
        self._files.append(path)
        sizes = [file.stat().st_size if file.exists() else 0 for file in self._files]
        while sum(sizes) > self.each * (FILES - 1):
            sizes.pop(0)
            self._files.popleft().unlink(missing_ok=True)
        # What is yet to come into the new file counts.
        sweep(self.folder, self._prefix, self.each * (FILES - 1))
        if self.application:
            self._append(json.dumps(self.application).encode())


def _fresh() -> str:
    """Return what the names of an application's files begin with."""
    return f"penstock-{int(time.time() * 1000)}-{uuid.uuid4().hex[:6]}"
