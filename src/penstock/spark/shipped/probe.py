"""How fast the core is: a short loop, always the same, that every batch does from its beginning to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

STEPS, PIECES = 2000, 3
"""Steps of the loop (some 0.2 ms), and how often it is done; the fastest counts, since others only ever interrupt."""

EVERY, MOST = 0.25, 32
"""Seconds between two looks at the core, and how many looks a batch has at most: long ones have fewer a second."""


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


@contextmanager
def watched() -> Iterator[list[tuple[float, float]]]:
    """Look at the core at the beginning and the end of a piece of work, and every so often between; yield the looks.

    A shared machine may change a core's speed within seconds, so that the ends of a long batch do not tell it.
    """
    looks = [probe()]
    done = threading.Event()

    def watch() -> None:
        every = EVERY
        while not done.wait(every):
            looks.append(probe())
            if len(looks) >= MOST:
                del looks[1::2]
                every *= 2

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield looks
    finally:
        done.set()
        thread.join()
    looks.append(probe())
