"""The events of one log, and what could not be read of it."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from penstock.telemetry.bytestream import Readable, Truncated
from penstock.telemetry.codecs import BLOCK, blocks
from penstock.telemetry.events import Event, Unreadable, parse
from penstock.telemetry.files import Log

LONGEST = 64 * 2**20
"""Bytes of a line; longer ones are no events and are passed over."""

PATIENCE = 10_000
"""Lines without an event after which a file is taken for no log."""

Report = Callable[[str, float], None]


class Reader:
    """The events of one log; afterwards, what could not be read of it."""

    def __init__(self, log: Log, report: Report) -> None:
        self.log, self.report = log, report
        self.lines = self.bad = self.first_bad = 0
        self.events = 0
        self.why = ""
        self.broken: list[str] = []

    def __iter__(self) -> Iterator[Event]:
        read = 0
        for path in self.log.files:
            try:
                with _opened(path) as file:
                    for batch in self._lines(_Counted(file, lambda count: self.report(self.log.name, read + count))):  # noqa: B023
                        yield from self._events(batch)
                        if self.lines > PATIENCE and not self.events:
                            return
                    read += path.stat().st_size if str(path) != "-" else 0
            except OSError as error:
                self.broken.append(f"{path.name} cannot be read: {error.strerror or error}")

    def _lines(self, file: Readable) -> Iterator[list[bytes]]:
        """Split a file into lines; the last one may be without its end."""
        carry: list[bytes] = []
        length = 0
        try:
            for number, block in enumerate(blocks(file, BLOCK)):
                block = block if number else block.removeprefix(codecs.BOM_UTF8)  # as some editors write
                head, newline, _ = block.partition(b"\n")
                if not newline:
                    length += len(block)
                    carry = [*carry, block] if length <= LONGEST else []
                    continue
                lines = block[len(head) + 1 :].split(b"\n")
                yield [b"".join([*carry, head]) if length <= LONGEST else b"(too long)"]
                carry = [lines.pop()]
                length = len(carry[0])
                yield lines
        except Truncated as cut:
            self.broken.append(str(cut))
        if carry and carry[0]:
            yield [b"".join(carry)]

    def _events(self, lines: list[bytes]) -> Iterator[Event]:
        for line in lines:
            self.lines += 1
            try:
                event = parse(line)
            except Unreadable as error:
                self.refuse(str(error))
                continue
            self.events += 1
            if event is not None:
                yield event

    def refuse(self, why: str) -> None:
        """Count a line that cannot be read."""
        self.bad += 1
        self.first_bad = self.first_bad or self.lines
        self.why = self.why or why

    def warnings(self) -> list[str]:
        """Return what was read in part, a sentence each."""
        told = [f"{self.log.name}: {why}; what lies before is read" for why in self.broken]
        if self.bad == 1 and self.first_bad == self.lines:
            told.append(f"{self.log.name}: its last line is cut off: the application still ran, or was killed")
        elif self.bad:
            told.append(f"{self.log.name}: {self.bad} of {self.lines} lines are damaged, the first is {self.first_bad}")
        return told

    def nothing(self) -> str:
        """Return why nothing was found."""
        if self.broken:
            return self.broken[0]
        if self.lines == 0:
            return "it is empty"
        if self.events == 0:
            return "it is neither an event log of Spark nor JSON lines of streaming progress"
        return "there is no batch of a streaming query in it"


class _Counted:
    """A file that tells how much of it has been read."""

    def __init__(self, file: Readable, told: Callable[[int], None]) -> None:
        self.file, self.told, self.count = file, told, 0

    def read(self, size: int = -1, /) -> bytes:
        block = self.file.read(size)
        self.count += len(block)
        self.told(self.count)
        return block


def _opened(path: Path) -> BinaryIO:
    return sys.stdin.buffer if str(path) == "-" else path.open("rb")
