"""WHAT IS SEEN: runs, recorded queries and plans, as documents for faces, with what is expected of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.errors import InputError
from penstock.home import HOME
from penstock.monitor.expected import Question, what_if
from penstock.monitor.view import View
from penstock.telemetry.runs import ABOUT, runs_in

__all__ = ["Question", "View", "open_view", "recent_runs", "what_if"]


def open_view(paths: Sequence[str]) -> View:
    """Return what there is to see at some paths.

    Parameters
    ----------
    paths
        The folder of a run or of a controller, or one with runs below it (the newest is taken); a folder of planning
        files; or event logs and folders of them.

    Raises
    ------
    InputError
        If there is nothing to see, or it is damaged.
    """
    from penstock.monitor.controlled import ControlledView
    from penstock.monitor.log import LogView, PlanView
    from penstock.monitor.run import RunView

    folder = Path(paths[0])
    if not folder.exists():
        raise InputError("no such file or folder", file=folder)
    if len(paths) == 1 and folder.is_dir():
        if (folder / "run.json").exists():
            return _opened(RunView, folder)
        if (folder / "control" / ABOUT).exists():
            return _opened(ControlledView, folder)
        if (folder / "network.toml").exists() and (folder / "placement.json").exists():
            return PlanView(folder)
        runs = runs_in(folder)
        if runs:
            return _opened(RunView, runs[0])
        if any(folder.glob(f"**/control/{ABOUT}")):
            raise InputError("only controllers are below this folder", file=folder, hint="name one run or controller")
    for path in map(Path, paths if len(paths) > 1 else ()):
        if (path / "run.json").exists() or (path / "control" / ABOUT).exists():
            raise InputError("a run or controller is looked at alone", file=path, hint="name one run or controller")
    return LogView(paths)


def _opened(view: Callable[[Path], View], folder: Path) -> View:
    """Return a view of what others write in a folder, once all that it shows could be made of that."""
    try:
        found = view(folder)
        found.look(0.0)
        found.about()
        found.live(0.0)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        hint = "look at it with the version that wrote it, or begin it again"
        raise InputError("is damaged, or of another version of penstock", file=folder, hint=hint) from error
    return found


def recent_runs(home: Path = Path(HOME)) -> list[Path]:
    """Return the folders of runs that tell what is deployed, the one that was begun last first."""
    found = {path / ABOUT: path for path in runs_in(home)}
    found |= {path: path.parent.parent for path in home.glob(f"*/control/{ABOUT}")}
    there = sorted(((path.stat().st_mtime, str(path)) for path in found if path.exists()), reverse=True)
    return [found[Path(name)] for _, name in there]
