"""Fewest hosts, also with replicas (Xiao et al., sections 2, 3, 5 and 6.1)."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.errors import Infeasible, InputError
from penstock.placement.base import TIE, Arrays, Ints
from penstock.placement.colouring import Colouring


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
            # Whoever asked packs anew what first fit leaves over.
            host = fits[0] if len(fits) else int(np.argmax(arrays.usable - level))
            where[operator] = host
            level[host] += arrays.mean[operator]
        return where


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
        if self.limit < 1:
            raise InputError(f"expected at least 1 step, got {self.limit}", at="--limit")

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
        hosts = None
        # Copies that stay may be on different hosts, or leave no room beside them: then each goes by itself.
        for most in (1, 0) if (arrays.fixed >= 0).any() else (1,):
            groups = [part for group in groups for part in _parts(arrays, group, most)]
            problem = Colouring(arrays, groups)
            hosts, stuck = problem.first_fit()
            if self.colouring == "minimal":
                hosts = problem.minimal(hosts, copies, self.limit)
            if hosts is not None:
                break
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


def _parts(arrays: Arrays, group: Ints, most: int) -> list[Ints]:
    """Return a super-operator, or its copies one by one where they have to stay on more than so many hosts."""
    hosts = set(arrays.fixed[group].tolist()) - {-1}
    return [group] if len(hosts) <= most else list(group[:, None])
