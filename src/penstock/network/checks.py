"""What an operator may be, whether a file says so or a program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING

from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock.network.model import Operator

KINDS = ("filter", "map", "union", "join", "aggregate", "delay", "python")

MOST_WINDOWS = 1_000_000
"""Windows that a row may belong to."""


def check_operator(operator: Operator) -> None:
    """Refuse an operator that means nothing; what it reads and who reads it are not looked at.

    Raises
    ------
    InputError
        Naming its key.
    """
    at = f"operators.{operator.name}"
    for key, value, known in (("kind", operator.kind, KINDS), ("emit", operator.emit, ("exact", "chance"))):
        if value not in known:
            raise InputError(f"expected one of {', '.join(known)}, got {value!r}", at=f"{at}.{key}")
    _check_inputs(operator, f"{at}.inputs")
    for key, values in (("cost", operator.cost), ("selectivity", operator.selectivity)):
        if values is None:
            continue
        fits = isinstance(values, tuple | list) and len(values) == len(operator.inputs)
        if not (fits and all(math.isfinite(value) and value >= 0 for value in values)):
            raise InputError(f"expected a finite number >= 0 for each input, got {values}", at=f"{at}.{key}")
    _check_service(operator.service, f"{at}.service")
    _check_windows(operator, at)


def check_route(operator: Operator, readers: Sequence[str]) -> None:
    """Refuse a route that does not share the output among exactly the operator's readers."""
    if operator.route is None:
        return
    at = f"operators.{operator.name}.route"
    if set(operator.route) != set(readers):
        raise InputError(
            f"expected the readers {', '.join(readers) or '(none)'}, got {', '.join(sorted(operator.route))}", at=at
        )
    for share in operator.route.values():
        if not 0 <= share <= 1:
            raise InputError(f"expected shares in 0..1, got {share:g}", at=at)
    if abs(sum(operator.route.values()) - 1) > 1e-9:
        raise InputError(f"expected shares that add up to 1, got {sum(operator.route.values()):g}", at=at)


def _check_inputs(operator: Operator, at: str) -> None:
    kind, count = operator.kind, len(operator.inputs)
    wanted = {"join": "two inputs", "union": "at least one input"}.get(kind, "one input")
    fits = {"join": count == 2, "union": count >= 1}.get(kind, count == 1)
    if not fits:
        raise InputError(f"a {kind} has {wanted}, got {count}", at=at)


def _check_service(text: str, at: str) -> None:
    name, *numbers = text.split(":")
    wanted = {"constant": 0, "exponential": 0, "gamma": 1, "two-point": 2}
    try:
        values = [float(number) for number in numbers]
        fits = len(values) == wanted[name] and all(math.isfinite(value) and value > 0 for value in values)
        fits = fits and (name != "two-point" or values[1] < 1)
    except (KeyError, ValueError):
        fits = False
    if not fits:
        raise InputError(
            f"expected constant, exponential, gamma:SHAPE or two-point:RATIO:PROBABILITY, got {text!r}", at=at
        )


def _check_windows(operator: Operator, at: str) -> None:
    for key, value in (("window", operator.window), ("slide", operator.slide), ("within", operator.within)):
        if value is None:
            continue
        if not (isinstance(value, Real) and math.isfinite(value) and value >= 0):
            raise InputError(f"expected a finite number of seconds >= 0, got {value!r}", at=f"{at}.{key}")
        if key != "within" and round(float(value) * 1e6) < 1:
            raise InputError(f"expected a duration of at least a microsecond, got {value:g} s", at=f"{at}.{key}")
    if operator.slide is not None and operator.window is None:
        raise InputError("a slide needs a window", at=f"{at}.slide")
    if operator.slide is not None and operator.window is not None and operator.slide > operator.window:
        raise InputError("expected a slide of at most the window", at=f"{at}.slide")
    if operator.slide is not None and operator.window is not None and operator.window > MOST_WINDOWS * operator.slide:
        windows = operator.window / operator.slide
        raise InputError(
            f"expected a row in at most {MOST_WINDOWS:,} windows, got {windows:,.0f}", at=f"{at}.slide",
            hint="give a longer slide",
        )  # fmt: skip
    counts = operator.counts
    if counts is not None:
        pair = isinstance(counts, tuple | list) and len(counts) == 2
        if not (pair and all(isinstance(count, Integral) and count >= 1 for count in counts)):
            raise InputError(f"expected two numbers of tuples >= 1, got {counts}", at=f"{at}.window")
    if operator.kind == "join" and (counts is None) == (operator.within is None):
        problem = "has no window" if counts is None else "has both 'within' and 'window'"
        raise InputError(
            f"the join {problem}", at=at, hint='give one of within = "10 seconds" and window = [5, 5] (tuples)'
        )
