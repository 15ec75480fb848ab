"""A plan table in use during a run: rates of the last period in, keep fractions for the next one out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Ints
from penstock.cluster import Cluster
from penstock.errors import InputError
from penstock.files import Document
from penstock.network import Network
from penstock.shedding.host_table import HostTable
from penstock.shedding.planners import LookUp
from penstock.shedding.program import build_program
from penstock.shedding.tables import PlanTable
from penstock.shedding.trees import restored
from penstock.workload import Rates


@attrs.frozen(kw_only=True, eq=False)
class Shed:
    """Shed by a plan table.

    Attributes
    ----------
    table
        As `penstock.shedding.build_table` made it for the same network, cluster and placement.
    period
        Control period (s): at its end the rates of the sources are measured and looked up; the keep fractions found
        hold during the next one. The first keeps everything.
    cluster
        For which the table was made, if the run has another, whose hosts are at the pace that was measured.
    """

    table: PlanTable
    period: float = 1.0
    cluster: Cluster | None = None

    def __attrs_post_init__(self) -> None:
        if not (math.isfinite(self.period) and self.period > 0):
            raise InputError(f"expected a period > 0 s, got {self.period:g}", at="--control-period")


@attrs.frozen
class Taken:
    """What one look found: measured rates by source (tuples/s), keep fractions by stream, 1 where not named.

    ``outside`` says that the rates were beyond the table's region, which answers with what fits at its border.
    """

    at: float
    rates: Mapping[str, float]
    keep: Mapping[str, float]
    outside: bool


class Shedder:
    """Measures, looks up and remembers; one per run."""

    def __init__(self, plan: Shed, look_up: LookUp) -> None:
        self.plan = plan
        self.taken: list[Taken] = []
        self._look_up = look_up
        self._before: NDArray[np.int64] = np.zeros(len(look_up.program.sources), np.int64)

    @classmethod
    def of(
        cls, plan: Shed, network: Network, cluster: Cluster, placement: Mapping[str, str], rates: Rates | None
    ) -> Shedder:
        """Check that the table was made for this run, and for its rates where they are known.

        Raises
        ------
        InputError
            If it was not.
        """
        program = build_program(network, plan.cluster or cluster, placement)
        try:
            look_up = LookUp(program, plan.table)
        except InputError as error:
            raise InputError(error.problem, at="plan", hint=error.hint) from None
        for name, most in zip(program.sources, plan.table.upto.tolist(), strict=True):
            highest = 0.0 if rates is None else float(rates.of_source(name).max(initial=0.0))
            if highest > most * (1 + 1e-9):
                raise InputError(
                    f"the table covers rates of {name} up to {most:g}, got {highest:g}",
                    at="plan",
                    hint="build it with a larger --upto",
                )
        return cls(plan, look_up)

    def look(self, entered: Ints) -> Mapping[str, float]:
        """Return keep fractions by stream, from how many tuples of each source have entered by the period's end."""
        rates = (entered - self._before) / self.plan.period
        self._before = entered.astype(np.int64)
        return self.answer(rates, (len(self.taken) + 1) * self.plan.period)

    def answer(self, rates: NDArray[np.float64], at: float) -> Mapping[str, float]:
        """Return keep fractions by stream for rates (tuples/s) measured at a time (s), in the order of `sources`."""
        keep = self.plan_of(rates)
        outside = bool((rates > self.plan.table.upto * (1 + 1e-9)).any())
        self.taken.append(Taken(at, dict(zip(self.sources, rates.tolist(), strict=True)), keep, outside))
        return keep

    def plan_of(self, rates: NDArray[np.float64]) -> dict[str, float]:
        """Return keep fractions by stream for rates (tuples/s), and remember nothing."""
        # Beyond the region: what fits at its border fits here too, and the rest is dropped.
        inside = np.minimum(rates, self.plan.table.upto)
        return self._look_up.program.keep(rates, self._look_up.plan(inside))

    def hosts(self) -> dict[str, HostTable]:
        """Return the tables of hosts that decide alone; none where the plan is made for all of them together."""
        table = self.plan.table
        if table.planner != "d-fit":
            return {}
        return restored(self._look_up.program, table.arrays)[0]

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources, in the order of the rates."""
        return self._look_up.program.sources


def described(looks: Sequence[Taken]) -> Document:
    """Return how many looks there were, how many beyond the region, and the keep fractions of the last."""
    last = dict(looks[-1].keep) if looks else {}
    return {"looks": len(looks), "outside": sum(look.outside for look in looks), "keep": last}
