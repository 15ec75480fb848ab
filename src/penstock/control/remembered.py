"""What took long to make, and may be asked for again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Remembered(Generic[Value]):
    """The last few values by what they were made from; who asks gets what would be made now.

    Parameters
    ----------
    most
        How many are kept: measured costs go to and fro.
    """

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, Value] = OrderedDict()

    def of(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key, made if it is not there."""
        if key not in self._kept:
            self._kept[key] = make()
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return self._kept[key]
