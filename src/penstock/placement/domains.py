"""Domains: hosts and connected parts of the network are divided, each domain is placed alone, then exchanged pairwise.

The way to 10,000 hosts: a domain costs what its own size costs, and there are more of them, not larger ones (Xing et
al., section 4.3). Domains that do not overlap are evened out by one exchange that sees all hosts; where each reaches
into the next one, nobody sees more than a domain and its border, and load is handed on along the ring.
"""

from __future__ import annotations

import math

import attrs
import numpy as np

from penstock.errors import Infeasible, InputError
from penstock.native.shipped import code
from penstock.placement.base import TIE, Algorithm, Arrays, Ints
from penstock.placement.distribute import Given, Rules, pairwise
from penstock.placement.kernels import LEAST
from penstock.placement.layout import BY_CORRELATION, ONE_WAY


@attrs.frozen(kw_only=True)
class Domains:
    """Place by another algorithm in domains.

    Attributes
    ----------
    inner
        The algorithm that places each domain.
    count
        How many domains.
    overlap
        Share of the next domain's hosts that a domain evens out its own with, 0..1; 0: one exchange sees all hosts.
    """

    inner: Algorithm
    count: int
    overlap: float = 0.0

    def __attrs_post_init__(self) -> None:
        if self.count < 1:
            raise InputError(f"expected at least 1 domain, got {self.count}", at="--domains")
        if not 0 <= self.overlap <= 1:
            raise InputError(f"expected a share from 0 to 1, got {self.overlap:g}", at="--overlap")

    def __call__(self, arrays: Arrays, rng: np.random.Generator) -> Ints:
        """Return the host number of each operator."""
        n = len(arrays.hosts)
        if self.count > n:
            raise InputError(f"expected at most one domain a host ({n}), got {self.count}", at="--domains")
        domain = _of_hosts(arrays.usable, self.count)
        member = _of_operators(arrays, domain, self.count)
        where = arrays.fixed.copy()
        by_host = [np.flatnonzero(domain == number) for number in range(self.count)]
        order = np.argsort(member, kind="stable")
        edges = np.searchsorted(member[order], np.arange(self.count + 1))
        for number, inside in enumerate(by_host):
            chosen = np.sort(order[edges[number] : edges[number + 1]])
            if len(chosen):
                where[chosen] = inside[self.inner(arrays.subset(chosen, inside), rng)]
        if self.overlap > 0:
            _hand_on(arrays, where, by_host, self.overlap)
        else:
            _exchange(arrays, where)
        _within_quotas(arrays, where)
        return where


def _of_hosts(usable: np.ndarray, count: int) -> Ints:
    """Deal the hosts, by falling capacity, to the domains and back, so that domains are about equal."""
    turn = np.concatenate([np.arange(count), np.arange(count)[::-1]])
    domain = np.empty(len(usable), np.int64)
    domain[np.argsort(-usable, kind="stable")] = np.resize(turn, len(usable))
    return domain


def _of_operators(arrays: Arrays, domain: Ints, count: int) -> Ints:
    """Give each connected part, the heaviest first, to the domain of least share; pinned operators go to their host's.

    A part that is larger than a domain's fair share is divided.
    """
    room = np.bincount(domain, weights=arrays.usable, minlength=count)
    _, part = np.unique(arrays.part, return_inverse=True)
    weight = np.bincount(part, weights=arrays.mean)
    fair = 0.1 * arrays.mean.sum() / count
    # A part heavier than a tenth of a domain would spoil the balance: its operators go one by one.
    single = weight[part] > fair
    unit = np.where(single, len(weight) + np.arange(len(part)), part)
    _, unit = np.unique(unit, return_inverse=True)
    units = int(unit.max()) + 1 if len(unit) else 0
    where = np.full(units, -1, np.int64)
    pinned = arrays.fixed >= 0
    where[unit[pinned]] = domain[arrays.fixed[pinned]]
    load = np.bincount(unit, weights=arrays.mean, minlength=units)
    rank = np.argsort(-load, kind="stable")
    steps = 10 * units * (1 if np.ptp(room) <= TIE * room.max() else count)
    # Domains of equal hosts differ by rounding only: made equal, so that the heap can be used.
    room = np.where(np.abs(room - room[0]) <= TIE * room[0], room[0], room)
    given = where[rank]
    code(LEAST, steps).least_loaded(load[rank], room, given, True)
    where[rank] = given
    member = where[unit]
    member[pinned] = domain[arrays.fixed[pinned]]
    return member


def _exchange(arrays: Arrays, where: Ints) -> None:
    """Even out hosts of different domains: the most loaded host with the least loaded one, and so on, one way."""
    if len(arrays.hosts) * len(where) <= 50_000_000:
        _evened(arrays, where, np.arange(len(arrays.hosts)))


def _hand_on(arrays: Arrays, where: Ints, domains: list[Ints], overlap: float) -> None:
    """Even out each domain and the first hosts of the next, one after the other, until no operator moves.

    Load that one domain has too much of goes once around the ring at most.
    """
    reaches = [
        np.concatenate([own, after[: math.ceil(overlap * len(after))]])
        for own, after in zip(domains, [*domains[1:], domains[0]], strict=True)
    ]
    for _ in domains:
        before = where.copy()
        for hosts in reaches:
            _evened(arrays, where, np.unique(hosts))
        if (where == before).all():
            return


def _evened(arrays: Arrays, where: Ints, hosts: Ints) -> None:
    """Even out some hosts pairwise; ``where`` changes in place."""
    column = np.full(len(arrays.hosts), -1, np.int64)
    column[hosts] = np.arange(len(hosts))
    inside = np.flatnonzero(column[where] >= 0)
    local, load = column[where[inside]], np.ascontiguousarray(arrays.load[inside])
    given = Given(load, arrays.mean[inside], arrays.usable[hosts], arrays.fixed[inside] < 0, local)
    pairwise(given, np.zeros(len(inside)), Rules(BY_CORRELATION, ONE_WAY, 0.1, 0.0, -2.0))
    where[inside] = hosts[local]


def _within_quotas(arrays: Arrays, where: Ints) -> None:
    """Put right what is over a quota; ``where`` changes in place.

    Raises
    ------
    Infeasible
        If that was not found.
    """
    over = arrays.host_mean(where) - arrays.limit * (1 + TIE)
    if (over > 0).any():
        from penstock.placement.repair import repaired

        better = repaired(arrays, where)
        if better is None:
            raise Infeasible("the domains could not be evened out: use fewer domains")
        where[:] = better
