"""The policy `d-fit`: every host gets a table of its own, and decides alone from then on what to keep."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.control.flow import Floats
from penstock.control.policies.base import Proposal, counted
from penstock.control.remembered import Remembered
from penstock.control.situation import Situation
from penstock.control.tables import placed, priced, rounded
from penstock.errors import InputError
from penstock.shedding.program import build_program
from penstock.shedding.trees import make_tables
from penstock.steering import Plan

STEP = 0.05
"""Costs and selectivities count as changed where they are another multiple of this share away from those given."""

FINE = 0.02
"""The same of what a host can work off."""

Made = tuple[dict[str, dict[str, object]], int]
"""Documents of tables by host, and how many bytes hosts send each other to make them."""

MOST = 500
"""Streams beyond which tables take too long to make between two looks."""


@attrs.frozen(kw_only=True)
class Alone:
    """Distributed feasible input tables (Tatbul et al., sections 6 and 7), made anew when statistics have changed.

    A host looks its table up with its own rates before each batch, and goes on doing so when nobody else answers. This
    policy only says which table it has.

    Attributes
    ----------
    error
        Share of the optimum that the tables may lose.
    reserve
        Share of the capacity that is left free: nothing here works off a backlog.
    made
        Tables of late, and why there were none; they say nothing that the situation does not.
    """

    error: float = 0.02
    reserve: float = 0.03
    made: Remembered[Made | InputError] = attrs.field(factory=Remembered, eq=False, repr=False)

    def __call__(self, now: Situation, rng: np.random.Generator) -> Proposal | None:
        """Return the tables that hosts should have, if they have others."""
        if not now.ready or (now.where() < 0).any():
            return None
        try:
            documents, sent = self.tables(now)
        except InputError as error:
            return Proposal(policy="d-fit", plan=Plan(), why=f"hosts cannot decide alone: {error.problem}", hard=False)
        if {host: document["id"] for host, document in documents.items()} == dict(now.seen.tables):
            return None
        return Proposal(
            policy="d-fit",
            plan=Plan(tables=documents),
            why=f"{counted(len(documents), 'host')} decide alone, from tables for the costs of now; "
            f"to make them hosts send each other {sent} bytes",
            hard=False,
        )

    def tables(self, now: Situation) -> Made:
        """Return the documents of all hosts' tables, and how many bytes hosts send each other to make them.

        Raises
        ------
        InputError
            If there are too many streams, hosts do not form trees, or a table would be too large.
        """
        if (streams := len(now.network.streams)) > MOST:
            raise InputError(f"tables for {streams} streams take too long to make (at most {MOST})")
        cost, selectivity = rounded(now, STEP)
        room = np.exp(np.floor(np.log(now.usable * (1 - self.reserve)) / FINE + 1e-6) * FINE)
        upto = self.upto(now)

        def make() -> Made | InputError:
            cluster = now.cluster(dict(zip(now.hosts, room.tolist(), strict=True)))
            program = build_program(priced(now.flow, cost, selectivity), cluster, now.seen.placement)
            try:
                made = make_tables(program, upto, self.error)
            except InputError as error:
                # That a table is too large takes as long to find out as to make one.
                return error
            return {host: table.document() for host, table in made.hosts.items()}, sum(made.sent.values())

        found = self.made.of((*placed(now), *(row.tobytes() for row in (cost, selectivity, room, upto))), make)
        if isinstance(found, InputError):
            raise found.with_traceback(None)
        return found

    def upto(self, now: Situation) -> Floats:
        """Return the greatest rates that tables are made for, array (sources,): powers of four, so that few are made.

        Beyond them a host takes what fits at the border.
        """
        most = np.maximum(now.rates.max(axis=1), 1.0)
        found: Floats = 4.0 ** (np.floor(np.log(most) / np.log(4.0)) + 2)
        return found
