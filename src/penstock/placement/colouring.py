"""Super-operators that exclude each other on hosts, coloured by as few hosts as possible."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from penstock.placement.base import TIE, Arrays, Ints
from penstock.placement.repair import resources
from penstock.placement.verify import over_link


class Colouring:
    """Super-operators, the hosts each may use, and which of them exclude each other.

    While they are put on hosts, ``placed`` has the host of each (-1: nowhere yet), ``need`` what each host carries of
    each resource, and ``held`` the operators of which they have copies.
    """

    def __init__(self, arrays: Arrays, groups: list[Ints]) -> None:
        self.arrays, self.groups = arrays, groups
        needs, limit = resources(arrays)
        self.needs: list[list[float]] = [needs[group].sum(axis=0).tolist() for group in groups]
        self.limit: list[list[float]] = limit.tolist()
        self.members = [frozenset(arrays.base[group].tolist()) for group in groups]
        self.order = [int(host) for host in np.argsort(-arrays.usable, kind="stable")]
        self.pin = [int(arrays.fixed[group].max()) for group in groups]
        self.placed = [-1] * len(groups)
        self.need = [[0.0] * len(each) for each in self.limit]
        self.held: list[set[int]] = [set() for _ in self.order]
        self.blocked_by_link = ""

    def fits(self, group: int, host: int) -> bool:
        """Whether a super-operator may join a host, given where those before it are."""
        if self.pin[group] not in (-1, host) or not self.held[host].isdisjoint(self.members[group]):
            return False
        need, limit = self.need[host], self.limit[host]
        if any(need[r] + more > limit[r] for r, more in enumerate(self.needs[group])):
            return False
        return self.arrays.bandwidth is None or not self._over_link(group, host)

    def put(self, group: int, host: int) -> None:
        """Put a super-operator on a host, or away from its own (-1)."""
        before, self.placed[group] = self.placed[group], host
        if before >= 0:
            self.need[before] = [now - own for now, own in zip(self.need[before], self.needs[group], strict=True)]
            self.held[before] -= self.members[group]
        if host >= 0:
            self.need[host] = [now + own for now, own in zip(self.need[host], self.needs[group], strict=True)]
            self.held[host] |= self.members[group]

    def _over_link(self, group: int, host: int) -> bool:
        arrays = self.arrays
        where = np.full(len(arrays.names), -1, np.int64)
        for other, place in enumerate(self.placed):
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
        for group in sorted(range(len(self.groups)), key=lambda j: (self.pin[j] < 0, j)):
            host = next((host for host in self.order if self.fits(group, host)), None)
            if host is None:
                return None, group
            self.put(group, host)
        return self.placed.copy(), -1

    def minimal(self, start: list[int] | None, copies: int, limit: int) -> list[int] | None:
        """Return the colouring with the fewest hosts, no worse than ``start``: the best of so many steps."""
        for group in range(len(self.groups)):
            self.put(group, -1)
        best, fewest = start, len(set(start)) if start else len(self.order) + 1
        floor = self._floor(copies)
        steps, trying = 0, [self._hosts(0)]
        while trying and fewest > floor and steps < limit:
            group = len(trying) - 1
            self.put(group, -1)
            host = next(trying[-1], None)
            if host is None:
                trying.pop()
                continue
            steps += 1
            self.put(group, host)
            used = sum(map(bool, self.held))
            if used >= fewest:
                continue
            if len(trying) < len(self.groups):
                trying.append(self._hosts(len(trying)))
            else:
                best, fewest = self.placed.copy(), used
        return best

    def _floor(self, copies: int) -> int:
        """Return a number of hosts that no colouring is below."""
        per_host = len(self.groups) // copies if all(len(each) == copies for each in self.members) else 0
        room = np.cumsum(np.sort(self.arrays.limit)[::-1])
        load = sum(need[0] for need in self.needs)
        by_load = int(np.searchsorted(room * (1 + TIE), load)) + 1
        return max(-(-len(self.groups) // per_host) if per_host else 1, by_load, copies)

    def _hosts(self, group: int) -> Iterator[int]:
        """Iterate over the hosts that a super-operator fits on, given those before it."""
        fresh: set[tuple[float, ...]] = set()
        alike = self.arrays.bandwidth is None and max(self.pin) < 0
        for host in self.order:
            # Unused hosts of one size are alike, unless links or pins tell them apart.
            if not self.held[host] and alike:
                if (size := tuple(self.limit[host])) in fresh:
                    continue
                fresh.add(size)
            if self.fits(group, host):
                yield host
