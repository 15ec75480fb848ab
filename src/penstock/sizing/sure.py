"""Decisions that hold where things cost more than measured: by the upper end of the interval of the latency."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from penstock.errors import Infeasible
from penstock.latency.draws import certain
from penstock.latency.estimate import Estimate
from penstock.latency.intervals import with_interval
from penstock.latency.models import model_of
from penstock.load import LoadModel, Statistics, load_model
from penstock.load.setting import Setting
from penstock.sizing.bounds import Bounds
from penstock.sizing.fleet import Fleet
from penstock.sizing.provision import Provision
from penstock.sizing.search import TIE

STEP, MOST = 1.08, 2.0
"""Factor by which hosts are taken to be slower, once more each time, and at most."""


def drawn(found: Estimate, deployed: Setting, rng: np.random.Generator, *, sure: bool = False) -> Estimate:
    """Return an estimate with its interval, where the statistics know how far off they may be.

    Parameters
    ----------
    found
        The estimate.
    deployed
        What it is of, with its rates.
    rng
        Where chance comes from.
    sure
        Whether a decision depends on it, so that a note has to say where there is none.
    """
    if deployed.rates is None or (not sure and certain(deployed.statistics, deployed.placement.values())):
        return found
    loads = load_model(deployed.network, deployed.rates)
    return with_interval(found, loads, deployed.placement, deployed.cluster, deployed.statistics, rng)


def doubted(found: Provision, loads: LoadModel, fleet: Fleet, rng: np.random.Generator, *, sure: bool) -> Provision:
    """Return an answer of hosts of a fleet, or of slower ones, with the estimate of the fleet's and its interval.

    Where no error is known and ``sure`` does not ask for one, it stays as it is.
    """
    cluster, placement = fleet.called(found.cluster.hosts), found.placement
    known = fleet.statistics(cluster) or Statistics()
    if not sure and certain(known, placement.values()):
        return found
    estimate = model_of(found.estimate.model)(loads, placement, cluster, known)
    estimate = with_interval(estimate, loads, placement, cluster, known, rng)
    return attrs.evolve(found, cluster=cluster, estimate=estimate)


def surely(fleet: Fleet, ask: Callable[[Fleet], Provision]) -> Provision:
    """Find hosts of which the upper end of the interval keeps the bound.

    These are the hosts that the prediction calls enough if all were slower, by as little as it takes.

    Parameters
    ----------
    fleet
        Hosts that may be taken.
    ask
        Provisions from a fleet, with the estimate and the interval of the hosts as they are (`doubted`).

    Returns
    -------
    Provision
        With the lower bounds of the prediction, which hold here all the more.

    Raises
    ------
    Infeasible
        If no number of hosts is enough: by the prediction, or with hosts `MOST` times as slow; or if the latency of a
        sink is not known.
    """
    first = found = ask(fleet)
    if quiet := ", ".join(first.estimate.unended):
        raise Infeasible(
            f"nobody can be sure of {first.bound:g} s, since no window before {quiet} ends within the rates: give "
            "longer rates (--duration, or a file of --rates)",
            hosts=None,
            lower_bound=first.lower_bound,
        )
    bounds, slower = Bounds(first.bound, sure=True), 1.0
    while (over := bounds.excess(found.estimate)) > TIE:
        slower *= STEP
        try:
            if slower > MOST:
                raise Infeasible("no host is that slow")
            found = ask(fleet.slower(slower))
        except Infeasible:
            raise Infeasible(
                f"no number of hosts was found that keeps {first.bound:g} s where costs are higher than measured: "
                f"on {found.hosts} the worst latency may be {first.bound + over:.4g} s; by the prediction alone "
                f"{first.hosts} are enough",
                hosts=None,
                lower_bound=first.lower_bound,
            ) from None
    return attrs.evolve(found, lower_bound=first.lower_bound, lower_price=first.lower_price)
