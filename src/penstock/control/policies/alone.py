"""The policy `d-fit`: every host gets a table of its own, and decides alone from then on what to keep."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.control.basis import Basis
from penstock.control.policies.base import Proposal, counted
from penstock.control.remembered import Remembered
from penstock.control.situation import Situation
from penstock.control.tables import placed, priced
from penstock.errors import InputError
from penstock.shedding.program import build_program
from penstock.shedding.trees import make_tables
from penstock.steering import Plan

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
        fresh = Basis.of(now, now.usable * (1 - self.reserve))
        last = Basis.read(now.noted["d-fit"]) if "d-fit" in now.noted else None
        basis = last if last is not None and last.holds(fresh) else fresh
        try:
            documents, sent = self.tables(now, basis)
        except InputError as error:
            note = attrs.evolve(basis, failed=True).document()
            why = f"hosts cannot decide alone: {error.problem}"
            return Proposal(policy="d-fit", plan=Plan(), why=why, hard=False, note=note)
        if {host: document["id"] for host, document in documents.items()} == dict(now.seen.tables):
            return None
        return Proposal(
            policy="d-fit",
            plan=Plan(tables=documents),
            why=f"{counted(len(documents), 'host')} decide alone, from tables for the costs of now; "
            f"to make them hosts send each other {sent} bytes",
            hard=False,
            note=basis.document(),
        )

    def tables(self, now: Situation, basis: Basis) -> Made:
        """Return the documents of all hosts' tables, and how many bytes hosts send each other to make them.

        Raises
        ------
        InputError
            If there are too many streams, hosts do not form trees, or a table would be too large.
        """
        if (streams := len(now.network.streams)) > MOST:
            raise InputError(f"tables for {streams} streams take too long to make (at most {MOST})")
        cost, selectivity, room, upto = basis.cost, basis.selectivity, basis.room, basis.upto

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
