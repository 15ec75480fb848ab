"""Which windows drops leave out whole, against results that are computed one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from penstock.network import Network, Operator, Sink, Source
from penstock.network.windows import drops_whole

TIMES = np.arange(0, 30, 0.5)
EARLIER = 1e-6
"""Seconds before its end at which the result of a window is."""

Rows = list[tuple[float, object]]


def results(rows: Rows, length: int, step: int) -> dict[float, Rows]:
    """Return the rows of each window by its begin."""
    found: dict[float, Rows] = {}
    for time, row in rows:
        begin = time // step * step
        while begin > time - length:
            found.setdefault(begin, []).append((time, row))
            begin -= step
    return found


def last(windows: list[tuple[int, int]], kept: set[float]) -> dict[float, Rows]:
    """Return the last of several windows over each other, where only some of the first ones are kept."""
    found = results([(time, time) for time in TIMES.tolist()], *windows[0])
    found = {begin: rows for begin, rows in found.items() if begin in kept}
    for (length, _), after in itertools.pairwise(windows):
        found = results([(begin + length - EARLIER, sorted(rows)) for begin, rows in found.items()], *after)
    return found


@pytest.mark.parametrize("seed", range(300))
def test_windows_that_are_left_are_right(seed: int) -> None:
    """Where a stream may drop, whatever windows are left out, those over their results are whole or not there."""
    rng = np.random.default_rng(seed)
    windows = []
    for _ in range(int(rng.integers(1, 4))):
        length = int(rng.choice([1, 2, 3, 4, 6]))
        windows.append((length, int(rng.choice([step for step in (1, 2, 3, length) if length % step == 0]))))
    operators = []
    for k, (length, step) in enumerate(windows):
        given = (f"w{k - 1}" if k else "s",)
        operators.append(
            Operator(name=f"w{k}", kind="aggregate", inputs=given, window=float(length), slide=float(step))
        )
    network = Network.of("n", [Source(name="s")], operators, [Sink(name="out", input=operators[-1].name)])
    first = [*results([(time, time) for time in TIMES.tolist()], *windows[0])]
    full = last(windows, {*first})
    wrong = False
    for _ in range(6):
        kept = {begin for begin in first if rng.random() < 0.5}
        wrong |= any(full[begin] != rows for begin, rows in last(windows, kept).items())
    assert not (wrong and drops_whole(network, network.outputs("s")[0]))
    # It may drop in front of a window alone, and of one over the results of a single one.
    if len(windows) == 1 or (len(windows) == 2 and windows[1][0] <= windows[0][1]):
        assert drops_whole(network, network.outputs("s")[0])
