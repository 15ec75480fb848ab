"""The events of one log, and what could not be read of it."""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from penstock.telemetry.bytestream import Readable, Truncated
from penstock.telemetry.codecs import BLOCK, blocks
from penstock.telemetry.documents import Documents, whole
from penstock.telemetry.events import KIND, Event, Unreadable, parse
from penstock.telemetry.files import Log

LONGEST = 64 * 2**20
"""Bytes of a line; longer ones are no events and are passed over."""
TOO_LONG = b"(too long)"
"""What stands for such a line."""

PATIENCE = 10_000
"""Lines without an event after which a file is taken for no log."""

RAN = "did a query run, and not with the continuous trigger, which reports no batch?"
ENABLED = f"was spark.eventLog.enabled set? {RAN}"
DUMPS = "in Python, json.dumps(query.lastProgress, default=str) writes it"

_JSON = re.compile(rb"\s*[\[{]")
_REPR = re.compile(rb"[\s\[]*\{\s*'")
"""What a Python dict begins with where it was printed and not written as JSON."""

Report = Callable[[str, float], None]


class Reader:
    """The events of one log; afterwards, what could not be read of it."""

    def __init__(self, log: Log, report: Report) -> None:
        self.log, self.report = log, report
        self.lines = self.bad = self.first_bad = 0
        self.events = 0
        self.why = ""
        self.begin = b""
        self.documents = Documents(LONGEST)
        self.broken: list[str] = []

    def __iter__(self) -> Iterator[Event]:
        read = 0
        for path in self.log.files:
            try:
                with _opened(path) as file:
                    for batch in self._lines(_Counted(file, lambda count: self.report(self.log.name, read + count))):  # noqa: B023
                        yield from self._events(batch)
                        if self.lines > PATIENCE and not (self.events or self.documents.logged):
                            return
                    self.documents.end()
                    self._heed()
                    read += path.stat().st_size if str(path) != "-" else 0
            except OSError as error:
                self.broken.append(f"{path.name} cannot be read: {error.strerror or error}")

    def _lines(self, file: Readable) -> Iterator[list[bytes]]:
        """Split a file into lines; the last one may be without its end."""
        carry: list[bytes] = []
        length, array = 0, False
        try:
            for number, block in enumerate(blocks(file, BLOCK)):
                block = block if number else block.removeprefix(codecs.BOM_UTF8)  # as some editors write
                head, newline, _ = block.partition(b"\n")
                if not newline:
                    length += len(block)
                    carry = [*carry, block] if length <= LONGEST else []
                    if array := array or b"".join(carry).lstrip().startswith(b"["):
                        done, rest = whole(b"".join(carry))
                        carry, length = [rest], len(rest)
                        yield [done] if done else []
                    continue
                lines = block[len(head) + 1 :].split(b"\n")
                yield [b"".join([*carry, head]) if length <= LONGEST else TOO_LONG]
                carry = [lines.pop()]
                length, array = len(carry[0]), False
                yield lines
        except Truncated as cut:
            self.broken.append(str(cut))
        if length > LONGEST:
            yield [TOO_LONG]
        elif carry and carry[0]:
            yield [b"".join(carry)]

    def _events(self, lines: list[bytes]) -> Iterator[Event]:
        for line in lines:
            self.lines += 1
            self.begin = self.begin or line.lstrip()[:80]
            if line.startswith(KIND) and not self.documents.depth:
                texts = [line]
            else:
                texts = self.documents.take(line)
                self._heed()
            for text in texts:
                try:
                    event = parse(text)
                except Unreadable as error:
                    self.refuse(str(error))
                    continue
                self.events += 1
                if event is not None:
                    yield event

    def _heed(self) -> None:
        """Count what was no JSON; once a driver's log is seen to be one, its lines before that are no damage."""
        if self.documents.logged and not self.events:
            self.bad = self.first_bad = 0
        if self.documents.fault is not None:
            self.refuse(self.documents.fault)
            self.documents.fault = None

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

    def nothing(self) -> tuple[str, str]:
        """Return why nothing was found, and what to do about it."""
        if self.broken:
            return self.broken[0], ENABLED
        if self.lines == 0:
            return "it is empty", ENABLED
        if self.lines == 1 and self.begin == TOO_LONG:
            return f"its only line is longer than {LONGEST >> 20} MB", ENABLED
        if self.events == 0:
            return self._foreign()
        json = _JSON.match(self.begin) and not self.begin.startswith(KIND)
        return "there is no batch of a streaming query in it", RAN if json else ENABLED

    def _foreign(self) -> tuple[str, str]:
        if _REPR.match(self.begin):
            return "expected JSON, got Python's print of a progress report", DUMPS
        if _JSON.match(self.begin) and not self.begin.startswith(KIND):
            return f"expected progress of a streaming query as JSON ({self.why})", DUMPS
        if self.documents.logged:
            return (
                "it is a log without a line 'Streaming query made progress: {…}'",
                "Spark logs them at level INFO; or give an event log",
            )
        return "it is neither an event log of Spark nor JSON of streaming progress", ENABLED


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
