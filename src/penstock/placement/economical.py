"""Fewest hosts, also with replicas (Xiao et al., sections 2, 3, 5 and 6.1)."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.errors import Infeasible, InputError
from penstock.placement.base import TIE, Arrays, Ints, short
from penstock.placement.verify import over_link


@attrs.frozen(kw_only=True)
class Economical:
    """EOD: operators by falling load, first fit, onto hosts by falling capacity (section 6.1)."""

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator."""
        where = arrays.fixed.copy()
        limit = arrays.limit * (1 + TIE)
        level = np.zeros(len(limit))
        np.add.at(level, where[where >= 0], arrays.mean[where >= 0])
        order = np.argsort(-arrays.usable, kind="stable")
        for operator in np.flatnonzero(where < 0):
            fits = order[level[order] + arrays.mean[operator] <= limit[order]]
            if not len(fits):
                raise _no_room(arrays, (arrays.names[operator],), float(arrays.mean[operator]), level)
            where[operator] = fits[0]
            level[fits[0]] += arrays.mean[operator]
        return where


def _no_room(arrays: Arrays, names: tuple[str, ...], load: float, level: np.ndarray) -> Infeasible:
    room = arrays.usable - level
    host = int(np.argmax(room))
    if arrays.mean.sum() > arrays.usable.sum() * (1 + TIE):
        return short(arrays)
    return Infeasible(
        f"{' and '.join(map(repr, names))} together need {load:.6g} benchmark cores, the host with most room left, "
        f"{arrays.hosts[host]!r}, has {max(room[host], 0.0):.6g}: short by {load - max(room[host], 0.0):.6g}"
    )


@attrs.frozen(kw_only=True)
class Replicated:
    """EFTLBS: super-operators of r copies of r operators that follow one another in load, coloured (Algorithm 1).

    Super-operator j holds copy c of operator j + c, in a circle by falling load; two that share an operator never
    share a host, so the copies of each operator are on r hosts. Loads, and traffic on links, may reach the limit
    exactly (the paper's line 16 accepts and its line 21 refuses equality).

    Attributes
    ----------
    colouring
        ``first-fit`` as in the paper, or ``minimal``: the fewest hosts, by branch and bound, which first fit misses
        from three copies on.
    limit
        Steps of the branch and bound, after which the best colouring found is taken.
    """

    colouring: str = "first-fit"
    limit: int = 200_000

    def __attrs_post_init__(self) -> None:
        if self.colouring not in ("first-fit", "minimal"):
            raise InputError(f"expected first-fit or minimal, got {self.colouring!r}")

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator and copy."""
        _, first = np.unique(arrays.base, return_index=True)
        bases = arrays.base[np.sort(first)]
        count, copies = len(bases), int(np.bincount(arrays.base).max(initial=0))
        if copies > count:
            raise InputError(
                f"expected at most as many copies as operators ({count}), got {copies}",
                at="--replicas",
                hint="a super-operator would hold two copies of one operator",
            )
        if copies > len(arrays.hosts):
            raise Infeasible(
                f"{copies} copies of an operator need {copies} hosts, there are {len(arrays.hosts)}: "
                f"short by {copies - len(arrays.hosts)}"
            )
        row = {
            (int(base), int(name.partition("#")[2] or 1)): index
            for index, (base, name) in enumerate(zip(arrays.base, arrays.names, strict=True))
        }
        groups = [
            np.array([row[int(bases[(j + c) % count]), c + 1] for c in range(copies)], np.int64) for j in range(count)
        ]
        problem = _Colouring(arrays, groups)
        hosts, stuck = problem.first_fit()
        if self.colouring == "minimal":
            hosts = problem.minimal(hosts, copies, self.limit)
        if hosts is None:
            names = tuple(arrays.names[index] for index in groups[stuck])
            load = float(arrays.mean[groups[stuck]].sum())
            if problem.blocked_by_link:
                raise Infeasible(problem.blocked_by_link)
            raise Infeasible(
                f"the super-operator of {' and '.join(map(repr, names))} (load {load:.6g}) fits on none of the "
                f"{len(arrays.hosts)} hosts: each is full or holds a copy of one of them; add a host"
            )
        where = np.empty(len(arrays.names), np.int64)
        for group, host in zip(groups, hosts, strict=True):
            where[group] = host
        return where


class _Colouring:
    """Super-operators, the hosts each may use, and which of them exclude each other."""

    def __init__(self, arrays: Arrays, groups: list[Ints]) -> None:
        self.arrays, self.groups = arrays, groups
        self.load = [float(arrays.mean[group].sum()) for group in groups]
        self.members = [frozenset(arrays.base[group].tolist()) for group in groups]
        self.order = [int(host) for host in np.argsort(-arrays.usable, kind="stable")]
        self.pin = []
        for group in groups:
            pins = sorted({int(host) for host in arrays.fixed[group] if host >= 0})
            if len(pins) > 1:
                names = " and ".join(repr(arrays.names[index]) for index in group)
                raise Infeasible(f"{names} form one super-operator, but are pinned to different hosts")
            self.pin.append(pins[0] if pins else -1)
        self.blocked_by_link = ""

    def fits(self, group: int, host: int, placed: list[int]) -> bool:
        """Whether a super-operator may join a host, given where those before it are (-1: nowhere yet)."""
        if self.pin[group] not in (-1, host):
            return False
        level = self.load[group]
        for other, place in enumerate(placed):
            if place == host:
                if self.members[other] & self.members[group]:
                    return False
                level += self.load[other]
        if level > self.arrays.limit[host] * (1 + TIE):
            return False
        return self.arrays.bandwidth is None or not self._over_link(group, host, placed)

    def _over_link(self, group: int, host: int, placed: list[int]) -> bool:
        arrays = self.arrays
        where = np.full(len(arrays.names), -1, np.int64)
        for other, place in enumerate(placed):
            if place >= 0:
                where[self.groups[other]] = place
        where[self.groups[group]] = host
        ends = [np.where(side >= 0, where[side], ~side) for side in (arrays.writer, arrays.reader)]
        known = (ends[0] >= 0) & (ends[1] >= 0)
        part = attrs.evolve(
            arrays,
            writer=arrays.writer[known],
            reader=arrays.reader[known],
            rate=arrays.rate[known],
            shared=arrays.shared[known],
        )
        wrong = over_link(part, where)
        if wrong:
            self.blocked_by_link = wrong[0]
        return bool(wrong)

    def first_fit(self) -> tuple[list[int] | None, int]:
        """Return the host of each super-operator, or None and the one that fits nowhere."""
        placed = [-1] * len(self.groups)
        for group in sorted(range(len(self.groups)), key=lambda j: (self.pin[j] < 0, j)):
            host = next((host for host in self.order if self.fits(group, host, placed)), None)
            if host is None:
                return None, group
            placed[group] = host
        return placed, -1

    def minimal(self, start: list[int] | None, copies: int, limit: int) -> list[int] | None:
        """Return the colouring with the fewest hosts, no worse than ``start``."""
        best, fewest = start, len(set(start)) if start else len(self.order) + 1
        per_host = max(len(self.groups) // copies, 1)
        room = np.cumsum(np.sort(self.arrays.limit)[::-1])
        floor = max(
            -(-len(self.groups) // per_host), int(np.searchsorted(room * (1 + TIE), sum(self.load))) + 1, copies
        )
        placed = [-1] * len(self.groups)
        steps = 0

        def search(group: int) -> None:
            nonlocal best, fewest, steps
            used = set(placed) - {-1}
            if len(used) >= fewest or fewest <= floor or steps >= limit:
                return
            if group == len(placed):
                best, fewest = placed.copy(), len(used)
                return
            fresh: set[float] = set()
            for host in self.order:
                if host not in used:
                    # Unused hosts of one size are alike, unless links or pins tell them apart.
                    size = float(self.arrays.limit[host])
                    if size in fresh and self.arrays.bandwidth is None and max(self.pin) < 0:
                        continue
                    fresh.add(size)
                if self.fits(group, host, placed):
                    steps += 1
                    placed[group] = host
                    search(group + 1)
                    placed[group] = -1

        search(0)
        return best
