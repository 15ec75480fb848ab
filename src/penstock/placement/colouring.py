"""Super-operators that exclude each other on hosts, coloured by as few hosts as possible."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.errors import Infeasible
from penstock.placement.base import TIE, Arrays, Ints
from penstock.placement.verify import over_link


class Colouring:
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
            sender=arrays.senders[known],
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
