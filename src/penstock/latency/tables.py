"""The tables that the compiled recursion over micro-batches reads and writes, by address."""

from __future__ import annotations

import numpy as np

FIXED, WAITING, TASKS, COMMIT = range(4)
"""Stages of a batch: its fixed part, waiting for its tasks' turn, the tasks, the commit."""

DONE = 1e-12
"""Seconds of a stage that are as good as none."""

SOON = 1e-6
"""Share of the trigger's interval after which the output of a batch, however short, is visible once input was seen."""

LONGEST = 1e9
"""Seconds (30 years) that a batch takes at most, so that numbers without sense still give numbers."""

ENDED, FULL = range(2)
"""Why the recursion returns: there are no more batches, or no more room for them."""


def _row(whole: str, real: str = "") -> np.dtype[np.void]:
    """Return a record of integers and of real numbers; ``xs`` is one more than the last of what begins at ``x``."""
    return np.dtype([(name, "i8") for name in whole.split()] + [(name, "f8") for name in real.split()])


FIGURE, NUMBER = _row("", "value"), _row("value")

TABLES = {
    # Stimulus time (s), for windows their end, and the segment, by root.
    "points": _row("segment", "time end"),
    "roots": _row("point points edge edges"),
    "edges": _row("point"),
    "sums": FIGURE,
    "work": FIGURE,
    "inlets": _row("root parent weight work position before", "late"),
    "queries": _row(
        "host group inlet own inlets feed feeds water waters announcer announcers other others first last due",
        "start extra",
    ),
    # The last batch of the writer that was taken whole, or -1; likewise of waters.
    "feeds": _row("inlet inlets source writer water taken"),
    "waters": _row("announcer writer minded taken", "late now before"),
    "announcers": _row("behind heard heards", "late told"),
    "heard": NUMBER,
    "affected": NUMBER,
    "hosts": _row("noise noises chance chances working taken", "overhead idle jitter residual"),
    "noise": FIGURE,
    "chance": FIGURE,
    # Batches under way are a list from ``first`` over ``beside``, in the order of their starts.
    "groups": _row("members first", "cores now"),
    "batches": _row(
        "query next stage beside kept_stage kept_beside",
        "start end visible work turn left tasks commit kept_turn kept_left",
    ),
    "upto": NUMBER,
    "said": FIGURE,
}

GLOBALS = np.dtype(
    [(name, "f8") for name in ("trigger", "phase", "reading", "commit")]
    + [(name, "i8") for name in ("progressive", "count", "wide", "voices")]
    + [(name, "i8") for name in TABLES]
    + [(f"size_{name}", "i8") for name in TABLES]
)
