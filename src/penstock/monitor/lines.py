"""A file of lines that grows: at each look those that are new and whole."""

from __future__ import annotations

import os
from pathlib import Path


class Lines:
    """Reads such a file; one that was begun anew is read from its beginning.

    Parameters
    ----------
    path
        Of the file, which need not be there.

    Attributes
    ----------
    anew
        Whether the file was begun anew since the look before the last.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.anew = False
        self._read = 0
        self._first = b""

    def look(self) -> list[bytes]:
        """Return the lines that are new."""
        self.anew = False
        try:
            with self.path.open("rb") as file:
                first = file.readline()
                if os.fstat(file.fileno()).st_size < self._read or (self._read and first != self._first):
                    self._read, self.anew = 0, True
                self._first = first
                file.seek(self._read)
                whole = file.read().rpartition(b"\n")[0]
        except (FileNotFoundError, NotADirectoryError):
            return []
        self._read += len(whole) + 1 if whole else 0
        return whole.splitlines()
