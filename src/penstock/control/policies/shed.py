"""The policy `shed`: what exceeds the capacity is dropped where it costs least, from one look to the next."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.control.flow import Floats
from penstock.control.policies.base import Proposal
from penstock.control.situation import Situation
from penstock.network.windows import windows_behind
from penstock.shedding.optimum import Solver
from penstock.shedding.program import Program, build_program
from penstock.steering import Plan

LARGEST = 2_000
"""Streams beyond which the linear program is too slow for a decision every period."""


@attrs.frozen(kw_only=True)
class Shed:
    """Keep fractions of the greatest score that every host can work off (Tatbul et al., section 3).

    The capacity of a host is what it can work off (quota, speed and batch overhead as measured), less what it needs to
    work off its backlog within the latency bound. Costs and selectivities are those of late, so the program is built
    anew when they change.

    Attributes
    ----------
    drain
        Share of the latency bound within which a backlog is to be worked off.
    least
        Changes of keep fractions below this are not worth one.
    buffer
        Share of the latency bound that may wait at a host while something is dropped.
    reserve
        Share of the capacity that is left free, since rates are those of the period before.
    """

    drain: float = 0.5
    least: float = 0.01
    buffer: float = 0.1
    reserve: float = 0.0

    def __call__(self, now: Situation, rng: np.random.Generator) -> Proposal | None:
        """Return keep fractions for the rates of the last period."""
        if not now.ready or len(now.network.streams) > LARGEST:
            return None
        rates, where = now.rates[:, -1], now.where()
        if (where < 0).any():
            return None  # `replicate` first: a program needs a host for every operator
        load = now.host_load(where)[:, -1]
        spare, bound = now.usable * (1 - self.reserve), now.goals.bound
        # A little that waits keeps a host from standing idle when chance drops more than was meant.
        excess = now.host_backlog(where) / spare - self.buffer * bound
        room = spare * np.clip(1 - excess / (self.drain * bound), 0.05, None)
        if not now.seen.keep and bool((load <= room).all()):
            return None
        keep, program = optimal(now, rates, room)
        different = {*keep, *now.seen.keep}
        if all(abs(keep.get(name, 1.0) - now.seen.keep.get(name, 1.0)) < self.least for name in different):
            return None
        full, kept = (program.score(program.flow(rates, shares)) for shares in ({}, keep))
        over = [f"{name} {share:.2f}" for name, share in zip(now.hosts, load / spare, strict=True) if share > 1]
        why = (
            f"load over capacity: {', '.join(over)}; keep what is worth most"
            if over
            else ("work off the backlog" if keep else "everything fits again: keep all")
        )
        return Proposal(
            policy="shed",
            plan=Plan(keep=keep),
            why=why,
            expected={
                "worst": now.worst(where, keep), "otherwise": now.worst(where), "score": kept, "full": full,
            },
        )  # fmt: skip


def optimal(now: Situation, rates: Floats, room: Floats) -> tuple[dict[str, float], Program]:
    """Return the keep fractions of the optimum for given rates and room (benchmark cores) of each host.

    Streams that lead to different windows cannot drop whole ones, so nothing is dropped there; if the optimum wants to,
    the program is solved again without them.
    """
    cluster = now.cluster(dict(zip(now.hosts, room.tolist(), strict=True)))
    network = now.priced()
    program = build_program(network, cluster, now.seen.placement)
    keep = {name: share for name, share in program.keep(rates, Solver(program).solve(rates)).items() if share < 1}
    fixed = {stream.name for stream in network.streams if len(windows_behind(network, stream)) > 1}
    return {name: share for name, share in keep.items() if name not in fixed}, program
