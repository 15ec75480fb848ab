"""What a network may have, but is probably a mistake."""

from __future__ import annotations

import re

from penstock.errors import InputError
from penstock.network.model import Network
from penstock.network.sql import QUOTED

CHANGING = ("filter", "join", "aggregate", "python")
"""Kinds whose operators put out more or fewer rows than come in."""

_UNORDERED = re.compile(
    r"(?<!\w)(?<!\b(?:sort_array|array_sort)\()(first|last|first_value|last_value|any_value|collect_list|array_agg)\s*\(",
    re.IGNORECASE,
)


def doubts(network: Network) -> list[InputError]:
    """Return what is probably a mistake, in the order of the operators, with words and places as errors have them."""
    found = []
    for operator in network.operators.values():
        at = f"operators.{operator.name}"
        if not network.outputs(operator.name):
            found.append(InputError("nothing reads it", at=at))
        # Not an error: an experiment of the papers multiplies rows with filters.
        if operator.kind == "filter" and max(operator.selectivity or (0.0,)) > 1:
            problem = f"a filter lets each row through once at most, got {max(operator.selectivity or ()):g}"
            found.append(InputError(problem, at=f"{at}.selectivity", hint="a map or python step can put out more"))
        text = QUOTED.sub("", operator.select or "") if operator.kind == "aggregate" else ""
        for name in dict.fromkeys(_UNORDERED.findall(text.lower())):
            hint = "sort_array(…)" if name in ("collect_list", "array_agg") else "min_by(…, at), or max_by(…, at)"
            problem = f"{name}() follows the order of rows, which differs with hosts and cores, and after a kill"
            found.append(InputError(problem, at=f"{at}.select", hint=hint))
    return found


def assumed_selectivities(network: Network) -> tuple[str, ...]:
    """Return the operators that drop or multiply rows, and of which nobody knows how many: 1 is assumed."""
    return tuple(o.name for o in network.operators.values() if o.kind in CHANGING and o.selectivity is None)
