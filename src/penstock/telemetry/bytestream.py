"""The bytes of a log's file: looked at before they are read, and whole or cut off."""

from __future__ import annotations

from typing import Protocol

LARGEST = 64 * 2**20
"""Bytes of one compressed chunk that are still believed; Spark writes chunks of 32 to 64 kB."""


class Readable(Protocol):
    """What can be read from: a file, or what counts what is read from one."""

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes, none at the end."""
        ...


class Truncated(Exception):
    """The stream ends, or breaks, in the middle; the message says how."""


class Ahead:
    """A file whose first bytes can be looked at before they are read; reads are as long as asked, but at the end."""

    def __init__(self, file: Readable) -> None:
        self.file, self.kept = file, b""

    def peek(self, count: int) -> bytes:
        """Return the next bytes, which stay to be read."""
        if len(self.kept) < count:
            self.kept += self._whole(count - len(self.kept))
        return self.kept[:count]

    def read(self, count: int = -1) -> bytes:
        """Return the next bytes, fewer only at the end; negative: all that are left."""
        if count < 0:
            found, self.kept = self.kept, b""
            return found + self.file.read()
        found, self.kept = self.kept[:count], self.kept[count:]
        return found + self._whole(count - len(found)) if len(found) < count else found

    def _whole(self, count: int) -> bytes:
        parts = []
        while count > 0 and (part := self.file.read(count)):
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def short(error: Exception) -> str:
    """Return the first line of an error, or else its kind."""
    return (str(error).splitlines() or [type(error).__name__])[0][:80]
