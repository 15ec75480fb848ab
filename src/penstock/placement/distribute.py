"""Distribution by load correlation, compiled: lays the arrays out for the kernel and calls it.

``python -m penstock.placement.distribute`` writes its bitcode anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from penstock.arrays import Array, Bools, Floats, Ints, Numbers, Records
from penstock.native import Kernel
from penstock.placement.layout import BLOCK, FLAT, FULL, GREEDY, IMPROVE, PAIRWISE, RECORD, TIE

KERNEL = Kernel(
    "penstock.placement.correlation_kernel", "distribute", ("pairwise_kernel.py", "layout.py", "../native/views.py")
)


class Given(NamedTuple):
    """What is to be divided: arrays as in `penstock.placement.base.Arrays`; ``where`` changes in place."""

    load: Floats
    mean: Floats
    usable: Floats
    movable: Bools
    where: Ints


class Rules(NamedTuple):
    """How.

    ``mode`` is how operators are chosen: by correlation, by load, by chance (priority). ``step`` is one-way, two-way or
    selective exchange. ``balance`` is the difference of two hosts' shares of load above which they are balanced,
    ``score`` the threshold of the exchange, ``improve`` the correlation of two hosts below which they are improved; -2:
    no improvement step.
    """

    mode: int
    step: int
    balance: float
    score: float
    improve: float


def greedy(given: Given) -> None:
    """Place what has no host: the least loaded host gets the operator of the largest score with it (section 3.4)."""
    arrays = _common(given, None)
    alive = np.flatnonzero(given.where < 0)
    left, n = len(alive), len(given.usable)
    norm = arrays["norm"][alive]
    unit = arrays["series"][alive] / np.where(norm > 0.0, norm, np.inf)[:, None]
    arrays |= {
        "alive": alive, "taken": np.zeros(left, np.uint8), "unit": np.ascontiguousarray(unit.T),
        "rho": np.zeros((n, left)), "total": np.zeros(left), "fresh": np.empty(left),
    }  # fmt: skip
    tie = TIE * max(given.mean.max(initial=0.0), 1e-300) / given.usable.min(initial=1.0)
    _call(_record(GREEDY, arrays, left=left, tie=tie), given, arrays)


def pairwise(given: Given, priority: Array, rules: Rules) -> None:
    """One round of pairwise load distribution (sections 3.3 and 3.3.4)."""
    arrays = _common(given, priority)
    share = np.round(arrays["level"] / arrays["usable"], 11)
    arrays["order"] = np.argsort(-share, kind="stable")
    wide = len(given.mean) + BLOCK
    arrays |= _pair(given, wide)
    numbers = {"mode": rules.mode, "step": rules.step, "wide": wide}
    levels = {"balance": rules.balance, "score": rules.score, "threshold": rules.improve}
    _call(_record(PAIRWISE, arrays, **numbers, **levels), given, arrays)


def improve(given: Given, threshold: float) -> int:
    """Raise the average correlation of all pairs of hosts above a threshold (section 3.4, second step).

    Returns
    -------
    int
        How many pairs were tried.
    """
    arrays = _common(given, None)
    n, k = arrays["host"].shape
    held = np.bincount(given.where, minlength=n)
    arrays["held"] = held.astype(np.int64)
    # A host may grow: there is twice the room of the largest.
    room = max(2 * int(held.max(initial=0)) + 2, 8)
    members = np.zeros((n, room), np.int64)
    order = np.argsort(given.where, kind="stable")
    first = np.cumsum(held) - held
    members[given.where[order], np.arange(len(order)) - first[given.where[order]]] = order
    arrays |= {
        "members": members, "rho": np.empty((n, n)), "seen": np.zeros(n, np.int64), "changed": np.zeros(n, np.int64),
        "unit": np.zeros((n, k)), "across": np.zeros((k, n)), "flat": np.zeros(n, np.uint8),
        "flats": np.zeros(1, np.int64), "least": np.empty(n), "nearest": np.zeros(n, np.int64),
        "stale": np.zeros(n, np.uint8), "fresh": np.empty(n),
        **_pair(given, room + BLOCK),
    }  # fmt: skip
    g = _record(IMPROVE, arrays, room=room, wide=room + BLOCK, threshold=threshold)
    while _call(g, given, arrays) == FULL:
        room = 2 * int(g["need"][0])
        larger = np.zeros((n, room), np.int64)
        larger[:, : arrays["members"].shape[1]] = arrays["members"]
        more = {"members": larger, **_pair(given, room + BLOCK)}
        arrays |= more
        g["room"], g["wide"] = room, room + BLOCK
        _address(g, more)
    return int(g["tried"][0])


def _common(given: Given, priority: Array | None) -> dict[str, Numbers]:
    """Return the arrays of operators and hosts: centred series, their lengths, and what the hosts hold."""
    load = np.asarray(given.load, np.float64)
    series = load - load.mean(axis=1, keepdims=True)
    size = np.einsum("ot,ot->o", series, series)
    series[size <= (FLAT * np.abs(load.mean(axis=1))) ** 2 * load.shape[1]] = 0.0
    there, hosts = np.flatnonzero(given.where >= 0), len(given.usable)

    def held(each: Floats) -> Array:
        return np.bincount(given.where[there], weights=each[there], minlength=hosts).astype(np.float64)

    host, level = np.zeros((hosts, load.shape[1])), held(given.mean)
    for period in range(load.shape[1] if len(there) else 0):
        host[:, period] = held(series[:, period])
    return {
        "series": series, "norm": np.sqrt(np.einsum("ot,ot->o", series, series)),
        "mean": np.ascontiguousarray(given.mean, np.float64),
        "movable": given.movable.astype(np.uint8), "priority": np.zeros(len(load)) if priority is None else priority,
        "host": host, "level": level, "usable": np.ascontiguousarray(given.usable, np.float64),
        "where": np.array(given.where, np.int64),
    }  # fmt: skip


def _pair(given: Given, wide: int) -> dict[str, Numbers]:
    """Return room for a pair of hosts with so many operators."""
    k = given.load.shape[1]
    return {
        "items": np.empty(wide, np.int64), "side": np.empty(wide, np.int64), "two": np.empty((2, k)),
        "levels": np.empty(2), "limits": np.empty(2), "scratch": np.empty((4, wide)), "columns": np.empty((k, wide)),
    }  # fmt: skip


def _record(task: int, arrays: Mapping[str, Numbers], **numbers: float) -> Records:
    """Return the kernel's record."""
    g = np.zeros(1, RECORD)
    (operators, periods), hosts = arrays["series"].shape, len(arrays["usable"])
    sizes = {"task": task, "operators": operators, "periods": periods, "hosts": hosts}
    for name, number in {**sizes, **numbers}.items():
        g[name] = number
    _address(g, arrays)
    return g


def _address(g: Records, arrays: Mapping[str, Numbers]) -> None:
    for name, array in arrays.items():
        g[name] = array.ctypes.data


def _call(g: Records, given: Given, arrays: Mapping[str, Numbers]) -> int:
    """Run the kernel, and give ``where`` back; the arrays live as long as it runs."""
    status = KERNEL.load()(g)
    given.where[:] = arrays["where"]
    return status


if __name__ == "__main__":
    KERNEL.write()
