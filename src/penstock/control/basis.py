"""What hosts' tables were made from, and whether that still holds."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.control.flow import Floats
from penstock.control.situation import Situation
from penstock.files import Document

STEP, LARGE = 0.05, 1.0
"""Share by which a cost or selectivity has changed; and where no table could be made, for a time `PATIENCE`."""

NOISE = 4.0
"""Standard errors by which it has changed besides: each of so many could leave its table behind by chance."""

SURER = 1.5
"""Factor on standard errors of now beyond which those of then are no reason to wait for more."""

FINE = 0.02
"""The share for what a host can work off."""

PATIENCE = 60.0
"""How long (s) it takes for what could not be made to be tried again, if nothing has changed much."""

ARRAYS = ("cost", "selectivity", "cost_error", "selectivity_error", "room", "upto")


@attrs.frozen(eq=False, kw_only=True)
class Basis:
    """What tables are made from.

    Attributes
    ----------
    at
        When (s).
    placement, hosts
        Host of each operator, and the hosts that were up.
    cost, selectivity, cost_error, selectivity_error
        Of every input, arrays (inputs,), and their standard errors as shares of them.
    room
        What each host may work off, array (hosts,), benchmark cores.
    upto
        The greatest rates that they are made for, array (sources,).
    failed
        Whether none could be made.
    """

    at: float
    placement: dict[str, str]
    hosts: tuple[str, ...]
    cost: Floats
    selectivity: Floats
    cost_error: Floats
    selectivity_error: Floats
    room: Floats
    upto: Floats
    failed: bool = False

    @classmethod
    def of(cls, now: Situation, room: Floats) -> Basis:
        """Return that of a moment. Rates are rounded up to powers of four, so that few tables are made.

        Beyond them a host takes what fits at the border.
        """
        upto = 4.0 ** (np.floor(np.log(np.maximum(now.rates.max(axis=1), 1.0)) / np.log(4.0)) + 2)
        (cost, selectivity), (cost_error, selectivity_error) = now.costs, now.known.errors(now.flow)
        return cls(
            at=now.now, placement=dict(now.seen.placement), hosts=now.hosts, cost=cost, selectivity=selectivity,
            cost_error=cost_error, selectivity_error=selectivity_error, room=room, upto=upto,
        )  # fmt: skip

    def holds(self, fresh: Basis) -> bool:
        """Return whether it still does, although that of this moment is ``fresh``: chance alone makes no new tables."""
        if (self.placement, self.hosts) != (fresh.placement, fresh.hosts):
            return False
        waits = self.failed and fresh.at - self.at < PATIENCE
        if (self.failed and not waits) or _left(self.room, fresh.room, LARGE if waits else FINE):
            return False
        for name in ("cost", "selectivity"):
            then, error = getattr(self, f"{name}_error"), getattr(fresh, f"{name}_error")
            chance = np.where(then > SURER * error, 0.0, NOISE * error)
            if _left(getattr(self, name), getattr(fresh, name), np.maximum(LARGE if waits else STEP, chance)):
                return False
        # Rates that go to and fro at a power of four have the greater one.
        return bool(((fresh.upto <= self.upto) & (self.upto <= 4 * fresh.upto)).all())

    def document(self) -> Document:
        """Return it for the state file."""
        return {**attrs.asdict(self), **{name: getattr(self, name).tolist() for name in ARRAYS}}

    @classmethod
    def read(cls, document: Document) -> Basis:
        """Return what `document` wrote."""
        arrays = {name: np.array(document[name], float) for name in ARRAYS}
        return cls(**{**document, **arrays, "hosts": tuple(document["hosts"])})


def _left(old: Floats, new: Floats, share: Floats | float) -> bool:
    """Whether any of some values has left its old one by more than a share of that."""
    return bool((np.abs(new - old) > share * old + 1e-12).any())
