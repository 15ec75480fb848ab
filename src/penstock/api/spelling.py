"""The names of arguments in messages: those of Python, where the rooms below name the command's options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

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


def _parameter(option: re.Match[str]) -> str:
    return _RENAMED.get(option[1], option[1].replace("-", "_"))
