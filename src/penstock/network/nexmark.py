"""The options of Nexmark sources: how many events come, and when."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import attrs

from penstock.errors import InputError
from penstock.files import suggest
from penstock.network.model import Source
from penstock.units import decimal, spoken

LONGEST = 1e7
"""Most seconds that a source's own schedule may take: it has a period for each."""


@attrs.frozen
class Events:
    """What a Nexmark source brings: ``rate`` (tuples/s) for a ``duration`` (s), or what the file ``rates`` says."""

    rate: float
    duration: float
    rates: str | None
    seed: int

    @classmethod
    def of(cls, source: Source) -> Events:
        """Read the options of a source.

        Raises
        ------
        InputError
            Naming the option, what was expected and what came.
        """
        at, given = f"sources.{source.name}.options", source.options
        known = [field.name for field in attrs.fields(cls)]
        for key in given:
            if key not in known:
                raise InputError(f"unknown key {key!r}", at=f"{at}.{key}", hint=suggest(key, known))
            if "rates" in given and key in ("rate", "duration"):
                raise InputError("the file of rates says it", at=f"{at}.{key}", hint="leave one of the two out")
        rate, duration = _number(given.get("rate", "1000"), decimal), _number(given.get("duration", "60"), spoken)
        if not 0 <= rate < math.inf:
            raise InputError(f"expected tuples per second, got {given['rate']!r}", at=f"{at}.rate")
        if not 1 <= duration <= LONGEST:
            problem = f"expected a duration such as '2 minutes', from 1 to {LONGEST:g} s, got {given['duration']!r}"
            raise InputError(problem, at=f"{at}.duration")
        seed = re.fullmatch(r"([-+]?\d+)(\.0)?", given.get("seed", "0"), re.ASCII)
        if seed is None:
            raise InputError(f"expected a whole number, got {given['seed']!r}", at=f"{at}.seed")
        return cls(rate, duration, given.get("rates"), int(seed[1]))


def _number(text: str, read: Callable[[str], float]) -> float:
    try:
        return read(text)
    except (InputError, ValueError):
        return math.nan
