"""What is wanted of what runs, how much may change at a time, and what things cost."""

from __future__ import annotations

import attrs

from penstock.cluster import Host


@attrs.frozen(kw_only=True)
class Prices:
    """What things cost, in one currency.

    Attributes
    ----------
    value
        Of one tuple of weight 1 at a sink that does not arrive.
    late
        Of one tuple of weight 1 that arrives later than the latency bound.
    hour
        Factor on the hosts' own price per hour.
    move
        Of one move, besides the lateness that it causes.
    """

    value: float = 1e-4
    late: float = 5e-5
    hour: float = 1.0
    move: float = 0.01


@attrs.frozen(kw_only=True)
class Goals:
    """What is wanted, and how much may change at a time.

    Attributes
    ----------
    bound
        Latency that no tuple should exceed (s).
    horizon
        How far ahead a decision looks (s).
    high, low
        Shares of the usable capacity: above the first a host has too much to do, up to the second it is given more.
    moves
        How many operators may be moving at a time; those of dead hosts are not counted.
    cool_down, rest
        Time (s) between two decisions that move without need, and for which an operator that has moved stays.
    pause
        How long a moving operator is expected to start nothing (s).
    spare
        Hosts that may be added.
    prices
        What things cost.
    """

    bound: float = 5.0
    horizon: float = 30.0
    high: float = 0.9
    low: float = 0.75
    moves: int = 4
    cool_down: float = 10.0
    rest: float = 60.0
    pause: float = 0.5
    spare: tuple[Host, ...] = ()
    prices: Prices = attrs.field(factory=Prices)
