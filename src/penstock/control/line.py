"""A decision as one line of the history: what was seen and decided, and what came of it."""

from __future__ import annotations

from typing import NotRequired, TypedDict

Move = TypedDict("Move", {"operator": str, "from": str, "to": str})
"""One operator's way from host to host."""


class Seen(TypedDict):
    """An observation in short: tuples/s by source, busy shares by host, latencies and ages in s; None: not known."""

    rates: dict[str, float | None]
    busy: dict[str, float | None]
    waiting: float | None
    behind: float | None
    worst: float | None
    p99: float | None
    delivered: int
    down: list[str]
    moving: list[str]


class Decided(TypedDict, total=False):
    """What a plan changes, as far as it changes anything."""

    moves: list[Move]
    keep: dict[str, float]
    tables: dict[str, str]
    limits: dict[str, float | None]
    triggers: dict[str, float]
    attach: dict[str, str]
    add: list[str]
    retire: list[str]


class Came(TypedDict):
    """What came of a decision: how things stood at ``time``, and how many of its moves were done."""

    time: float
    worst: float | None
    p99: float | None
    waiting: float | None
    busy: float | None
    moved: NotRequired[int]


class Line(TypedDict):
    """A decision, as one line of the history."""

    time: float
    policy: str
    seen: Seen
    decided: Decided
    acted: bool
    refused: list[str]
    why: str
    expected: dict[str, float]
    came: Came | None
