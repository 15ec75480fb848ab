"""How deep what people write may be nested."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")

DEEPEST = 100
"""No file has more tables within tables; what checks and prints them goes down as deep as they do."""


def nested(document: T) -> T:
    """Return a document that is not nested too deeply.

    Raises
    ------
    RecursionError
        If it is: from dotted keys a parser may make what it could not go down itself.
    """
    level: list[object] = [document]
    for _ in range(DEEPEST):
        lists = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [each for parts in lists for each in parts]
        if not level:
            return document
    raise RecursionError
