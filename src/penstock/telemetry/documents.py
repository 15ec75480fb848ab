"""JSON objects that lie on one line or on many: pretty-printed, in an array, or behind a driver's log message."""

from __future__ import annotations

import re

MARK = b"Streaming query made progress: "
"""What Spark's driver logs in front of a progress report."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}]')
_PIECE = re.compile(rb"[\s{}\[\]:,0-9.+\-truefalsnNIiyE]*")
"""What JSON has outside of its strings: signs, numbers, and the letters of ``true``, ``null``, ``NaN`` and so on."""
_BETWEEN = re.compile(rb"[\s\[\],]*")
_EVENT = re.compile(rb'\s*\{\s*"Event"\s*:')
_LOGGED = re.compile(rb".{0,80}?\b(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")


class Documents:
    """Puts lines together to whole JSON objects, one after the other, whatever array they stand in.

    Attributes
    ----------
    logged
        Whether lines of a log have been seen: its other lines are no damage.
    fault
        Why the last line, or what was open before it, is none; None if it is fine.
    """

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.logged = False
        self.fault: str | None = None
        self._clear()

    def _clear(self) -> None:
        # Bytes, and no list of lines: an object may have one for each bracket.
        self.begun = bytearray()
        self.depth = 0

    def take(self, line: bytes) -> list[bytes]:
        """Return the objects that end in a line."""
        self.fault = None
        if line.startswith(b"{") and (_EVENT.match(line) or (line.count(b'"runId"') == 1 and _ends(line))):
            # Stands for itself, and what was open before it has lost its end.
            self.end()
            return [line]
        if self.depth:
            found = self._scanned(line)
            if found is not None:
                return found
            self.end()
        # Lines of some logs begin with a bracket, too.
        json = line.lstrip().startswith((b"{", b"[", b"]", b"}", b","))
        found = self._scanned(line) if json else None
        return self._logged(line) if found is None else found

    def end(self) -> None:
        """Give up what is open, as at the end of a file."""
        if self.depth:
            self.fault = "cut off"
        self._clear()

    def _logged(self, line: bytes) -> list[bytes]:
        """Return what stands behind a log's message; its other lines tell nothing."""
        _, mark, text = line.partition(MARK)
        if mark:
            self.logged = True
            found = self._scanned(text)
            if found is None:
                self.fault = "it is no JSON"
            return found or []
        self.logged = self.logged or bool(_LOGGED.match(line))
        if not self.logged and line.strip():
            self.fault = "it is no JSON"
        return []

    def _scanned(self, line: bytes) -> list[bytes] | None:
        """Return the objects that end in a line of JSON; None if it is none, and then nothing is open."""
        # JSON has no line breaks within strings, so each line can be looked at by itself.
        if not _PIECE.fullmatch(_STRING.sub(b"", line)) or len(self.begun) + len(line) > self.longest:
            return None
        found, begin, end = [], 0, 0
        for token in _TOKEN.finditer(line):
            if token[0] == b"{":
                if not self.depth:
                    begin = token.start()
                    if not _BETWEEN.fullmatch(line, end, begin):
                        break
                self.depth += 1
            elif token[0] == b"}":
                if not self.depth:
                    break
                self.depth -= 1
                if not self.depth:
                    end = token.end()
                    found.append(bytes(self.begun + line[begin:end]))
                    self._clear()
        if self.depth:
            self.begun += line[begin:] + b"\n"
        elif not _BETWEEN.fullmatch(line, end):
            self.fault = "it is no JSON"
            return found or None
        return found


def _ends(line: bytes) -> bool:
    return line.rstrip().endswith(b"}")


_BORDER = re.compile(rb'\}\s*,(?=\s*\{\s*"id"\s*:)')
"""Between two progress reports; within a string the quote would be escaped."""


def whole(text: bytes) -> tuple[bytes, bytes]:
    """Return the whole objects at the beginning of an array, and the rest: arrays on one line may be of any length.

    Examples
    --------
    >>> whole(b'[{"id": 1}, {"id": 2}, {"id":')
    (b'[{"id": 1}, {"id": 2},', b' {"id":')
    """
    ends = [border.end() for border in _BORDER.finditer(text)]
    return (text[: ends[-1]], text[ends[-1] :]) if ends else (b"", text)
