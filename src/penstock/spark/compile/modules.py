"""The modules of users: those beside a network's file, whatever else in this process has their names."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import sys
import sysconfig
import threading
from collections.abc import Iterator
from types import ModuleType

import attrs
from pyspark import cloudpickle

TAKEN = frozenset({*sys.stdlib_module_names, "penstock"})
"""Names of modules that stay what they are for all that users import."""

OF_HOSTS = frozenset({"numpy", "pandas", "pyarrow", "pyspark"})
"""What hosts have of their own."""


@attrs.frozen
class _Loaded:
    """A module, and when its file had changed last."""

    module: ModuleType
    changed: int | None


_loaded: dict[tuple[str, ...], dict[str, _Loaded]] = {}
_lock = threading.RLock()


def user_module(name: str, folder: str | None, *, anew: bool = False) -> ModuleType:
    """Import a module from a folder, else from the current one, else what is installed.

    What it imports from these folders travels to the hosts by value as it does, so that they need none of it. Nobody
    else gets it by its name: networks in other folders have modules of the same names.

    Parameters
    ----------
    anew
        Whether to import it again if a module of these folders has changed since.
    """
    top = name.partition(".")[0]
    here = os.getcwd()
    folders = tuple(dict.fromkeys([folder or here, here]))
    with _lock:
        mine = _loaded.setdefault(folders, {})
        if anew and any(_changed(each.module) != each.changed for each in mine.values()):
            mine.clear()
        if name in mine:
            return mine[name].module
        with _looking(folders, mine):
            module = importlib.import_module(name)
    if name not in mine and top not in OF_HOSTS and getattr(module, "__file__", None):
        cloudpickle.register_pickle_by_value(module)
    return module


@contextlib.contextmanager
def _looking(folders: tuple[str, ...], mine: dict[str, _Loaded]) -> Iterator[None]:
    """Let imports look in folders first; what comes from there is put to ``mine``, and out of Python's table."""
    names = ({each.name for each in pkgutil.iter_modules(folders)} - TAKEN) | {*map(_top, mine)}
    hidden = {name: sys.modules.pop(name) for name in [*sys.modules] if _top(name) in names}
    others = {*map(_top, sys.modules)}
    sys.modules.update({name: each.module for name, each in mine.items()})
    sys.path[:0] = folders
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for folder in folders:
            sys.path.remove(folder)
        for name, module in [*sys.modules.items()]:
            if _top(name) not in others and _is_below(module, folders):
                cloudpickle.register_pickle_by_value(module)
                mine.setdefault(name, _Loaded(module, _changed(module)))
                del sys.modules[name]
        sys.modules.update(hidden)


def _top(name: str) -> str:
    return name.partition(".")[0]


def _is_below(module: ModuleType, folders: tuple[str, ...]) -> bool:
    """Whether a module, or a folder that is a package without a file, lies in folders and is not installed there."""
    places = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", [])]
    installed = ("site-packages", "dist-packages")
    return any(
        place.startswith(tuple(os.path.join(folder, "") for folder in folders))
        and not place.startswith(os.path.join(sysconfig.get_path("stdlib"), ""))
        and not any(part in installed for part in place.split(os.sep))
        for place in places
    )


def _changed(module: ModuleType) -> int | None:
    try:
        return os.stat(module.__file__ or "").st_mtime_ns
    except OSError:
        return None
