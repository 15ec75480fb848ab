"""WHAT IS SEEN: runs, recorded queries and plans, as documents for faces, with what is expected of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.errors import InputError
from penstock.monitor.expected import Question, what_if
from penstock.monitor.view import View
from penstock.telemetry.runs import ABOUT, runs_in

__all__ = ["HOME", "Question", "View", "latest_run", "open_view", "what_if"]

HOME = ".penstock"
"""Folder in which runs are unless told otherwise."""


def open_view(paths: Sequence[str]) -> View:
    """Return what there is to see at some paths.

    Parameters
    ----------
    paths
        The folder of a run or of a controller, or one with runs below it (the newest is taken); a folder of planning
        files; or event logs
        and folders of them.

    Raises
    ------
    InputError
        If there is nothing to see.
    """
    from penstock.monitor.controlled import ControlledView
    from penstock.monitor.log import LogView, PlanView
    from penstock.monitor.run import RunView

    folder = Path(paths[0])
    if not folder.exists():
        raise InputError("no such file or folder", file=folder)
    if len(paths) == 1 and folder.is_dir():
        if (folder / "run.json").exists():
            return RunView(folder)
        if (folder / "control" / ABOUT).exists():
            return ControlledView(folder)
        if (folder / "network.toml").exists() and (folder / "placement.json").exists():
            return PlanView(folder)
        runs = runs_in(folder)
        if runs:
            return RunView(runs[0])
    return LogView(paths)


def latest_run(home: Path = Path(HOME)) -> Path | None:
    """Return the folder of the run that was begun last; None before there was one that tells what is deployed."""
    found = {path / ABOUT: path for path in runs_in(home)}
    found |= {path: path.parent.parent for path in home.glob(f"*/control/{ABOUT}")}
    there = sorted((path.stat().st_mtime, str(path)) for path in found if path.exists())
    return found[Path(there[-1][1])] if there else None
