"""Plan selection: networks and placements ranked by the latency that a model predicts (section IX-A)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from penstock.cluster import Placement
from penstock.errors import Infeasible
from penstock.files import Document
from penstock.latency.estimate import Estimate
from penstock.load import LoadModel, load_model
from penstock.network import Network
from penstock.sizing.joins import rewritings
from penstock.sizing.search import TIE
from penstock.workload import Rates

NO_SERIES: dict[str, Any] = {"series": np.zeros(0), "excess": {}, "links": {}, "sinks": {}, "episodes": ()}
"""What a ranking does not need of an estimate."""


@attrs.frozen(eq=False, kw_only=True)
class Candidate:
    """A placed network, and what a model says of it.

    Attributes
    ----------
    network
        The network as it was given: its file.
    given
        The placement as it was given, or the algorithm that made it.
    order
        Rows of operators in an order that differs from the network's.
    made
        The network with its operators in that order.
    placement
        Where the operators run.
    estimate
        Of the latency, without its series: of a thousand candidates these would fill the memory.
    load
        Mean load of all operators (benchmark cores): breaks ties.
    simulated
        Worst latency that the simulator measured (s), if it was asked.
    """

    network: str
    given: str
    order: tuple[tuple[str, ...], ...] = ()
    made: Network
    placement: Placement
    estimate: Estimate
    load: float
    simulated: float | None = None

    def document(self) -> Document:
        """Return an entry of ``ranking``."""
        found = self.estimate
        return {
            "placement": dict(self.placement),
            **{key: value for key, value in found.total.by_key().items() if key != "p50"},
            "bottleneck": found.bottleneck,
            "load": self.load,
            "error": found.error.relative,
            "network": self.network,
            "given": self.given,
            "order": [list(row) for row in self.order],
            **found.interval(),
            **({} if self.simulated is None else {"simulated": self.simulated}),
        }


def compared(
    networks: Iterable[tuple[str, Network]],
    rates: Rates,
    choose: Callable[[Network], Sequence[tuple[str, Placement]]],
    estimate: Callable[[LoadModel, Placement], Estimate],
    *,
    reorder: bool = False,
    measure: Callable[[Network, Placement], float] | None = None,
) -> Iterator[Candidate | Infeasible]:
    """Iterate over the candidates: networks, their legal reorderings if asked for, and placements of each.

    In the place of one that no placement was found for there is the reason.

    Parameters
    ----------
    networks
        With how each was given.
    choose
        Gives the placements of a network, with how each was given.
    estimate
        The latency model.
    reorder
        Whether to try the legal orders of filters and maps that commute, and filters on either side of joins, too.
    measure
        Gives the worst latency (s) of a placed network by simulation.
    """
    for given, network in networks:
        for order, made in rewritings(network) if reorder else [((), network)]:
            loads = load_model(made, rates)
            try:
                chosen = choose(made)
            except Infeasible as error:
                yield error
                continue
            for label, placement in chosen:
                yield Candidate(
                    network=given,
                    given=label,
                    order=order,
                    made=made,
                    placement=placement,
                    estimate=attrs.evolve(estimate(loads, placement), **NO_SERIES),
                    load=float(loads.mean_load.sum()),
                    simulated=None if measure is None else measure(made, placement),
                )


def ranked(candidates: Iterable[Candidate | Infeasible]) -> tuple[list[Candidate], list[Infeasible]]:
    """Return candidates by worst latency, then mean latency, then load, and why others are none.

    What ties stays in the given order.

    Raises
    ------
    Infeasible
        If there is no candidate.
    """
    every = list(candidates)
    found = [each for each in every if isinstance(each, Candidate)]
    unfit = [each for each in every if isinstance(each, Infeasible)]
    if unfit and not found:
        raise unfit[0]

    def key(candidate: Candidate) -> tuple[float, float, float]:
        total = candidate.estimate.total
        return tuple(round(value / TIE) * TIE for value in (total.worst, total.mean, candidate.load))  # type: ignore[return-value]

    return sorted(found, key=key), unfit


def with_intervals(ranking: Sequence[Candidate], refine: Callable[[Candidate], Estimate]) -> list[Candidate]:
    """Return the ranking in which the first two have the whole estimates that ``refine`` makes, with intervals."""
    return [attrs.evolve(candidate, estimate=refine(candidate)) for candidate in ranking[:2]] + list(ranking[2:])


def certain(ranking: Sequence[Candidate]) -> bool:
    """Whether the best is better than the second by more than they may be off.

    The intervals of their worst latencies say it where they were drawn, else both error bars.
    """
    if len(ranking) < 2:
        return True
    first, second = (candidate.estimate for candidate in ranking[:2])
    if first.spread is not None and second.spread is not None and first.spread.draws and second.spread.draws:
        return first.spread.total["worst"][1] < second.spread.total["worst"][0]
    bars = sum(found.error.relative * found.total.worst for found in (first, second))
    return second.total.worst - first.total.worst > bars
