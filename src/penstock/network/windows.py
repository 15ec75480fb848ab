"""Which windows a stream leads to, so that a drop can leave out whole ones (Tatbul et al., section 3).

A tuple less in a window makes its result wrong; a window less makes the answer a subset of the true one. Both engines
drop by this rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from penstock.errors import InputError
from penstock.network.model import Network, Operator, Stream


def windows_behind(network: Network, stream: Stream) -> set[tuple[float, float]]:
    """Return length and slide (s) of the windows of the first aggregates that a stream leads to.

    An aggregate without a window counts as one of length 0.
    """
    return _windows(_reached(network, stream))


def drops_whole(network: Network, stream: Stream) -> bool:
    """Whether a stream can drop so that every result is right: rows that lead to no windows, or whole windows."""
    return _obstacle(network, stream) is None


def undroppable(network: Network) -> frozenset[str]:
    """Return the names of the streams that cannot drop anything so that every result is right."""
    return frozenset(stream.name for stream in network.streams if not drops_whole(network, stream))


def check_drop(network: Network, stream: Stream, at: str) -> None:
    """Refuse a drop that would leave windows with a part of their rows.

    Raises
    ------
    InputError
        Naming reason and remedy.
    """
    obstacle = _obstacle(network, stream)
    if obstacle is not None:
        why, hint = obstacle
        raise InputError(f"{why}, so that no window can be dropped whole", at=at, hint=hint)


def _obstacle(network: Network, stream: Stream) -> tuple[str, str] | None:
    """Return why a drop on a stream cannot leave out whole windows, and where to drop instead; None if it can."""
    reached = _reached(network, stream)
    if len(_windows(reached)) > 1:
        return "leads to aggregates with different windows", "drop on the streams into the aggregates"
    for operator in (each for each in reached if each.kind == "aggregate" or each.within):
        # A pair has the later of two times: it may be in a later window than one of its rows. The results of a window
        # have one time, and a window over several of these would be left with some.
        if _longest_behind(network, operator) > (0.0 if operator.within else operator.step):
            way = "a join over time" if operator.within else "other windows"
            return f"leads to windows through {way}", f"drop on the streams out of {operator.name!r}"
    return None


def _windows(operators: Iterable[Operator]) -> set[tuple[float, float]]:
    """Return length and step of the windows of those that are aggregates."""
    return {(each.window or 0.0, each.step) for each in operators if each.kind == "aggregate"}


def _longest_behind(network: Network, operator: Operator) -> float:
    """Return the longest window over what an operator puts out (s), infinite behind a join over time.

    And where windows follow in turn: what comes of one result then has several times, as far apart as windows are long.
    """
    behind: list[Operator] = []
    for out in network.outputs(operator.name):
        behind += _reached(network, out)
    aggregates = [each for each in behind if each.kind == "aggregate"]
    if any(_longest_behind(network, each) > 0 for each in aggregates):
        return math.inf
    longest = max((each.window or 0.0 for each in aggregates), default=0.0)
    return math.inf if longest > 0 and any(each.within for each in behind) else longest


def _reached(network: Network, stream: Stream) -> list[Operator]:
    """Return the operators that a stream leads to, up to the first aggregates."""
    found: dict[str, Operator] = {}
    waiting = [stream]
    while waiting:
        name = waiting.pop().reader
        if name in found or name not in network.operators:
            continue
        found[name] = network.operators[name]
        if found[name].kind != "aggregate":
            waiting += network.outputs(name)
    return list(found.values())
