"""Where runs are unless told otherwise."""

from __future__ import annotations

import os

from penstock.errors import InputError

HOME = ".penstock"
"""The folder of all, in the current one."""

KEPT = f"{HOME}/hosts.json"
"""The file of hosts that outlive penstock."""

SIMULATED = "-simulated"
"""What the name of a simulated controller's folder ends with where a run on Spark has the one of its network."""


def run_folder(named: str | os.PathLike[str] | None, network: str) -> str:
    """Return the folder of a run: the one that is named, or the one of its network in `HOME`.

    Raises
    ------
    InputError
        If no folder can be there, since penstock has a file of this name.
    """
    if named is not None:
        return os.fspath(named)
    folder = os.path.join(HOME, network)
    if folder.casefold() in (KEPT, f"{KEPT}.lock"):
        hint = "name a --directory, or give the network another name"
        raise InputError("penstock keeps a file of this name for its hosts", file=folder, hint=hint)
    return folder
