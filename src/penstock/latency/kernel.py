"""The hot loop of the pipelined model; `penstock.latency.pipelined.flow_plain` is the same in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def flow(
    work: Any, host: Any, capacity: Any, first: Any, count: Any, inputs: Any, delays: Any, width: float, steps: int
) -> Any:
    """Return when each operator has finished each slice; see `flow_plain`."""
    operators, slices = work.shape
    hosts = capacity.size
    free = np.empty((hosts, steps))
    following = np.empty((hosts, steps + 1), np.int64)
    for h in range(hosts):
        for k in range(steps):
            free[h, k] = capacity[h] * width
        for k in range(steps + 1):
            following[h, k] = k
    done = np.empty((operators, slices))
    begin = np.empty(operators)
    end = np.empty(operators)
    for q in range(slices):
        for o in range(operators):
            start, last = np.inf, 0.0
            for j in range(first[o], first[o] + count[o]):
                i = inputs[j]
                a = q * width if i < 0 else begin[i]
                b = (q + 1) * width if i < 0 else end[i]
                start, last = min(start, a + delays[j]), max(last, b + delays[j])
            h = host[o]
            left = work[o, q]
            if left <= 0.0:
                begin[o], end[o], done[o, q] = start, last, last
                continue
            whole, served, opened = left, 0.0, -1.0
            finish = last
            k = int(start / width + 1e-9)
            while served < whole * (1 - 1e-12):
                # The next step with free capacity, with the path to it shortened.
                root = k
                while root < steps and following[h, root] != root:
                    root = following[h, root]
                while k < root:
                    nearer = following[h, k]
                    following[h, k] = root
                    k = nearer
                k = root
                if k >= steps:
                    finish = np.inf
                    break
                edge = (k + 1) * width
                room = min(free[h, k], capacity[h] * (edge - max(start, k * width)))
                here = whole if edge >= last - 1e-12 else whole * max(0.0, (edge - start) / (last - start))
                part = min(room, here - served)
                if part > 0.0:
                    if opened < 0.0:
                        opened = max(start, edge - free[h, k] / capacity[h])
                    free[h, k] -= part
                    served += part
                    finish = max(last, edge - free[h, k] / capacity[h])
                    if free[h, k] <= 1e-12 * capacity[h] * width:
                        following[h, k] = k + 1
                k += 1
            begin[o] = start if opened < 0.0 else opened
            end[o] = max(finish, last)
            done[o, q] = end[o]
    return done


@njit(cache=True)
def worst(load: Any, capacity: Any, period: float) -> Any:
    """Return each row's largest cumulative excess over capacity; see `penstock.latency.waits.worst_waits_plain`."""
    rows, periods = load.shape
    found = np.zeros(rows)
    # Rows side by side: each row is a chain of dependent steps, eight chains fill the processor.
    for first in range(0, rows, 8):
        last = min(first + 8, rows)
        excess = np.zeros(8)
        most = np.zeros(8)
        for p in range(periods):
            for r in range(first, last):
                value = max(0.0, excess[r - first] + (load[r, p] - capacity[r]) * period)
                excess[r - first] = value
                most[r - first] = max(most[r - first], value)
        for r in range(first, last):
            found[r] = most[r - first] / capacity[r]
    return found
