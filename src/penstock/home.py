"""Where runs are unless told otherwise."""

from __future__ import annotations

import os

HOME = ".penstock"
"""The folder of all, in the current one."""


def run_folder(named: str | os.PathLike[str] | None, network: str) -> str:
    """Return the folder of a run: the one that is named, or the one of its network in `HOME`."""
    return os.path.join(HOME, network) if named is None else os.fspath(named)
