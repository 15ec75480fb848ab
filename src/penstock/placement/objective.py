"""What a placement is worth: the four objectives (smaller is better)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import attrs
import numpy as np

from penstock.errors import InputError
from penstock.files import suggest
from penstock.latency.mace import mace_series
from penstock.load import correlation
from penstock.placement.base import TIE, Arrays, Floats, Ints
from penstock.placement.kinds import check_kinds
from penstock.units import pairs


@attrs.frozen
class Weights:
    """Weights of the potential energies of load, correlation and network; only their ratios matter."""

    load: float = 1.0
    correlation: float = 1.0
    network: float = 1.0

    def __attrs_post_init__(self) -> None:
        check_kinds(type(self), attrs.asdict(self))
        for name, value in attrs.asdict(self).items():
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"expected a finite weight of at least 0, got {value}", at=f"--weights {name}")

    @classmethod
    def parse(cls, text: str) -> Weights:
        """Read ``load=100,correlation=1,network=0.001``; what is not named is 1."""
        found = pairs(text, "--weights", "energy=weight", "load=1,correlation=1,network=1")
        names = [field.name for field in attrs.fields(cls)]
        for name in found:
            if name not in names:
                raise InputError(f"{name!r} is no energy", at="--weights", hint=suggest(name, names, "energies"))
        return cls(**found)


def latency(arrays: Arrays, where: Ints) -> float:
    """Return the worst of Mace: max over hosts and periods of CE/C (s)."""
    return float(mace_series(arrays.host_load(where), arrays.capacity, arrays.period).max(initial=0.0))


def latency_bound(arrays: Arrays) -> float:
    """Return a lower bound of the latency of every placement: that of the perfectly divided load (CE is convex)."""
    total, capacity = arrays.load.sum(axis=0, keepdims=True), arrays.capacity.sum()
    return float(mace_series(total, np.array([capacity]), arrays.period).max(initial=0.0))


def balance(arrays: Arrays, where: Ints) -> float:
    """Return the largest mean load of a host as a share of its capacity."""
    return float((arrays.host_mean(where) / arrays.capacity).max(initial=0.0))


def balance_bound(arrays: Arrays) -> float:
    """Return a lower bound of the balance of every placement."""
    count = min(len(arrays.mean), len(arrays.hosts))
    largest = np.sort(arrays.capacity)[::-1]
    # The j largest operators use at most the j largest hosts; all of them at most all hosts.
    each = [arrays.mean[: j + 1].sum() / largest[: j + 1].sum() for j in range(count)]
    return float(max([*each, arrays.mean.sum() / arrays.capacity.sum()]))


def hosts(arrays: Arrays, where: Ints) -> float:
    """Return the number of hosts used; infinite where one of them is over what it may carry."""
    over = arrays.host_mean(where) > arrays.limit * (1 + TIE)
    return math.inf if over.any() else float(len(np.unique(where)))


def hosts_bound(arrays: Arrays) -> float:
    """Return a lower bound of the number of hosts: the fewest, largest ones that hold the sum of all loads."""
    room = np.cumsum(np.sort(arrays.usable)[::-1])
    return float(min(int(np.searchsorted(room * (1 + TIE), arrays.mean.sum())) + 1, len(room)))


def load_potential(load: Floats, usable: Floats, penalty: float = 20.0) -> Floats:
    """Return the potential energy of load: x = load over quota, and 1 + penalty·(x − 1) beyond 1 (Wang et al., 3.2)."""
    x = load / usable
    energy: Floats = np.where(x < 1, x, 1 + penalty * (x - 1))
    return energy


def traffic(arrays: Arrays, where: Ints) -> Floats:
    """Return the mean tuples per second from host to host, array (n, n); a tuple crosses to a host once."""
    flow = np.zeros((len(arrays.hosts), len(arrays.hosts)))
    seen: set[tuple[int, int]] = set()
    rows = zip(arrays.writer, arrays.reader, arrays.rate, arrays.shared, arrays.senders, strict=True)
    for writer, reader, rate, shared, sender in rows:
        start = where[writer] if writer >= 0 else ~writer
        end = where[reader] if reader >= 0 else ~reader
        if start != end:
            # What a copy of an operator sends crosses on its own; a routed stream shares nothing.
            key = (int(sender), int(end))
            if shared and key in seen:
                continue
            seen.add(key)
            flow[start, end] += rate
    return flow


def tension(arrays: Arrays, flow: Floats) -> Floats:
    """Return what each link adds to the potential of network, array (n, n): its delay, times utilisation beyond 1."""
    if arrays.delay is None or arrays.bandwidth is None:
        return np.zeros_like(flow)
    used = flow / arrays.bandwidth
    pull: Floats = arrays.delay * np.where(used <= 1, 1.0, used)
    return pull


def potential(arrays: Arrays, where: Ints, weights: Weights, penalty: float = 20.0) -> float:
    """Return the sum of the potential energies of all operators (Wang et al., section 3.2 and 4).

    Load counts all operators of the host; correlation is with the others on the host, 0 where there is none or no
    variance; network adds each link that an operator sends on once. Delays are in seconds.
    """
    load = load_potential(arrays.host_mean(where), arrays.usable, penalty)
    energy = weights.load * float(load[where].sum())
    if weights.correlation:
        for host in np.unique(where):
            inside = arrays.load[where == host]
            energy += weights.correlation * sum(map(correlation, inside, _others(inside)))
    if weights.network and arrays.delay is not None:
        pull = tension(arrays, traffic(arrays, where))
        used = {
            (int(writer), int(where[writer]), int(where[reader] if reader >= 0 else ~reader))
            for writer, reader in zip(arrays.writer, arrays.reader, strict=True)
            if writer >= 0
        }
        energy += weights.network * sum(float(pull[start, end]) for _, start, end in sorted(used) if start != end)
    return energy


def _others(load: Floats) -> Floats:
    """Return for each row the sum of the others.

    Of the sum of all less the row, rounding would remain where the others are flat.
    """
    before, after = np.zeros_like(load), np.zeros_like(load)
    before[1:] = np.cumsum(load[:-1], axis=0)
    after[:-1] = np.cumsum(load[:0:-1], axis=0)[::-1]
    return before + after


@attrs.frozen
class Row:
    """One objective: its value for a placement, and a lower bound over all placements where one is known."""

    value: Callable[[Arrays, Ints, Weights], float]
    bound: Callable[[Arrays], float] | None = None


OBJECTIVES: Mapping[str, Row] = {
    "latency": Row(lambda arrays, where, _: latency(arrays, where), latency_bound),
    "balance": Row(lambda arrays, where, _: balance(arrays, where), balance_bound),
    "potential": Row(potential),
    "hosts": Row(lambda arrays, where, _: hosts(arrays, where), hosts_bound),
}


def value(arrays: Arrays, where: Ints, name: str, weights: Weights | None = None) -> float:
    """Return the value of an objective by name."""
    return _row(name).value(arrays, where, weights or Weights())


def bound(arrays: Arrays, name: str) -> float | None:
    """Return a lower bound of an objective over all placements, or None where none is known."""
    known = _row(name).bound
    return None if known is None else known(arrays)


def _row(name: str) -> Row:
    if name not in OBJECTIVES:
        raise InputError(f"expected one of {', '.join(OBJECTIVES)}, got {name!r}", at="--objective")
    return OBJECTIVES[name]
