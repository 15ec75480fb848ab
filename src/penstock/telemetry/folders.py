"""Folders of this machine, by path or URI."""

from __future__ import annotations

import os
import re
from pathlib import Path

from penstock.errors import InputError


def local(folder: str | os.PathLike[str]) -> Path:
    """Return the folder that a path names, or a URI of a local one.

    Raises
    ------
    InputError
        If it is a URI of something else.
    """
    text = os.fspath(folder)
    uri = re.fullmatch(r"([A-Za-z][\w+.-]+):(?=/)(//[^/]*)?(/.*)?", text)
    if uri is None:
        return Path(folder)
    if uri[1].lower() != "file" or uri[2] not in (None, "//", "//localhost") or uri[3] is None:
        raise InputError("events are written to local folders only", file=text, hint="name a path, or file:///…")
    return Path(uri[3])
