"""How fast the core is now: a short loop, always the same, that every batch does at its beginning and its end."""

from __future__ import annotations

import time

STEPS, PIECES = 2000, 3
"""Steps of the loop (some 0.2 ms), and how often it is done; the fastest counts, since others only ever interrupt."""


def probe() -> tuple[float, float]:
    """Return the time (s since 1970) and how many steps a second the core does.

    Time that the core does not get is not in it: that shows in what a batch takes. What shows here is a core that works
    but is slower, since its neighbour shares units or caches with it, which CPU time does not tell.
    """
    clock, least, value = time.perf_counter, float("inf"), 1
    for _ in range(PIECES):
        begin = clock()
        for _ in range(STEPS):
            value = (value * 25214903917 + 11) & 281474976710655
        least = min(least, clock() - begin)
    return time.time(), STEPS / least
