"""Kernels, compiled where it pays and interpreted where numba would take longer to load than the work takes."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., object])

LIMIT = 400_000
"""Innermost steps below which a kernel is interpreted (at most about a tenth of a second)."""

INNER = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of kernels that make no arrays and that are called by compiled code or by address: without counting
references, and without a way in from Python, they compile in half of the time."""

_interpreting = False
_always = False


def njit(**options: Any) -> Callable[[Function], Function]:
    """Return numba's ``njit``, or in an interpreted kernel a decorator that does nothing."""
    if _interpreting:
        return lambda function: function
    import numba

    compiled: Callable[[Function], Function] = numba.njit(**options)
    return compiled


@contextmanager
def compiling() -> Iterator[None]:
    """Compile every kernel that is used inside, or load what was compiled before."""
    global _always
    before, _always = _always, True
    try:
        yield
    finally:
        _always = before


def kernel(full: str, steps: float) -> ModuleType:
    """Return a kernel module by its full name, compiled if about so many innermost steps are ahead.

    The choice depends on the size alone, so that the same problem gives the same bytes in every process.
    """
    return importlib.import_module(full) if many(steps) else plain(full, "interpreted")


def many(steps: float) -> bool:
    """Whether about so many innermost steps are worth compiled code."""
    return steps > LIMIT or _always


def plain(full: str, use: str) -> ModuleType:
    """Return a kernel module that is not compiled: for each use a module of its own."""
    global _interpreting
    name = f"{full}#{use}"
    if name not in sys.modules:
        found = importlib.util.find_spec(full)
        if found is None or found.origin is None:
            raise ImportError(f"no kernel {full}")
        spec = importlib.util.spec_from_file_location(name, found.origin)
        if spec is None or spec.loader is None:
            raise ImportError(f"no kernel {full}")
        module = importlib.util.module_from_spec(spec)
        before, _interpreting = _interpreting, True
        try:
            spec.loader.exec_module(module)
        finally:
            _interpreting = before
        sys.modules[name] = module
    return sys.modules[name]
