"""Arguments in Python: their names in messages, where the rooms below name the command's options, and their kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from penstock.errors import InputError

_OPTION = re.compile(r"--([a-z][a-z0-9_-]*)")

_RENAMED = {"objective": "measure", "weight": "weights"}
"""Parameters that are called other than their options."""


@contextmanager
def naming_parameters() -> Iterator[None]:
    """Name parameters, and no options, in the input errors of a block or of a function that this decorates."""
    try:
        yield
    except InputError as error:
        error.problem = _OPTION.sub(_parameter, error.problem)
        error.at, error.hint = (text and _OPTION.sub(_parameter, text) for text in (error.at, error.hint))
        raise


def generator(seed: int) -> np.random.Generator:
    """Return where the chance of a seed comes from."""
    return np.random.default_rng(whole_seed(seed))


def whole_seed(seed: int) -> int:
    """Return a seed that is one."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"expected a whole number >= 0, got {seed!r}", at="seed")
    return int(seed)


def numbers(given: Mapping[str, float], at: str) -> dict[str, float]:
    """Return numbers by name; ``at`` is the argument that holds them."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise InputError(f"expected a number for {name!r}, got {value!r}", at=at)
    return {name: float(value) for name, value in given.items()}


def _parameter(option: re.Match[str]) -> str:
    return _RENAMED.get(option[1], option[1].replace("-", "_"))
