"""The policy `provision`: a host more when all have too much to do, one less when the others can do its work."""

from __future__ import annotations

import math

import attrs
import numpy as np

from penstock.cluster import Host
from penstock.control.policies.base import BEYOND, Proposal, calm, counted, evacuated, percent, usual
from penstock.control.policies.joining import joined
from penstock.control.policies.rebalance import Rebalance
from penstock.control.situation import Situation
from penstock.steering import Plan


@attrs.frozen(kw_only=True)
class Provision:
    """Add a spare host, give it work, and let it go again.

    Hosts that are to become empty are none that the load could count on.

    Attributes
    ----------
    add, retire
        Shares of what all hosts can work off: a host joins above the first where something can move to it, and leaves
        if the others stay below the second without it and no more waits than they work off in one look.
    patience
        How long the load must have been so low before a host leaves (s), as far back as rates are known.
    """

    add: float = 0.85
    retire: float = 0.6
    patience: float = 30.0

    def __call__(self, now: Situation, rng: np.random.Generator) -> Proposal | None:
        """Return a host that joins, operators that leave one, or an empty host that goes."""
        room = _staying(now)
        if not room:
            return self._instead(now)
        if not now.ready:
            return None
        need = float(now.load[now.base].sum(axis=0).mean())
        if need > self.add * sum(room.values()):
            return self._more(now, need, rng)
        return self._less(now, need)

    def _more(self, now: Situation, need: float, rng: np.random.Generator) -> Proposal | None:
        fresh, room = _fresh(now), _staying(now)
        if not fresh or now.now - now.acted.get("provision", -np.inf) < now.goals.cool_down:
            return None
        host = fresh[0]
        there = attrs.evolve(joined(now, [host]), goals=attrs.evolve(now.goals, high=self.add))
        leaving = evacuated(there, there.draining)
        if host.name not in {*leaving.values(), *Rebalance().moves(there, rng).values()}:
            return None  # it would stay empty
        have, hosts = sum(room.values()), counted(len(room), "host")
        return Proposal(
            policy="provision",
            plan=Plan(add=(host,)),
            why=f"the load is {percent(need / have)} of what {hosts} can work off: {host.name} joins",
            expected={"load": need / sum(_staying(there).values()), "hosts": float(len(room) + 1)},
        )

    def _instead(self, now: Situation) -> Proposal | None:
        """Let spare hosts join where none is up and stays: as many as the load needs, as far as it is known, or one."""
        need = float(now.load[now.base].sum(axis=0).mean()) if now.ready else 0.0
        joining: list[Host] = []
        have = 0.0
        for host in _fresh(now):
            if joining and need <= self.add * have:
                break
            joining.append(host)
            have = sum(_staying(joined(now, joining)).values())
        if not joining:
            return None
        none = "every host is to become empty" if now.hosts else "no host is up"
        return Proposal(
            policy="provision",
            plan=Plan(add=tuple(joining)),
            why=f"{none}: {', '.join(host.name for host in joining)} {'joins' if len(joining) == 1 else 'join'}",
            expected={"load": need / have, "hosts": float(len(joining))},
        )

    def _less(self, now: Situation, need: float) -> Proposal | None:
        """Let a spare host that is not needed any more become empty; the others keep their peaks below the limit."""
        spares, room = {host.name for host in now.goals.spare}, _staying(now)
        mine = [k for k, name in enumerate(now.hosts) if name in spares and name in room]
        quiet = now.now - now.acted.get("provision", -np.inf) >= self.patience and now.now >= self.patience
        if not mine or not quiet or not calm(now, "provision") or len(room) < 2:
            return None
        last = min(mine, key=lambda k: (float(now.host_load(now.where())[k].mean()), -k))
        left = sum(room.values()) - room[now.hosts[last]]
        most = self.retire * left
        if need > most or self._peak(now) > most or _waiting(now) > most * now.seen.period:
            return None
        moves = evacuated(now, [now.hosts[last]])
        if any(host == now.hosts[last] and name not in moves for name, host in now.seen.placement.items()):
            return None  # it would not become empty
        return Proposal(
            policy="provision",
            plan=Plan(placement=moves, retire=() if moves else (now.hosts[last],)),
            drain=(now.hosts[last],),
            why=f"without {now.hosts[last]} the load is {percent(need / left)} of what the others can work off",
            expected={"worst": now.worst(now.where(moves)), "hosts": float(len(room) - 1)},
            hard=False,
        )

    def _peak(self, now: Situation) -> float:
        """Return the highest load of all operators together in a look of late."""
        rates = now.known.series(now.network, math.ceil(self.patience / now.seen.period))
        return float(now.flow.run(rates, *now.costs, None, now.seen.period)[0][now.base].sum(axis=0).max())


def _waiting(now: Situation) -> float:
    """Return the work that waits beyond what batches leave by nature, in benchmark-core seconds."""
    where = now.where()
    by_nature = BEYOND * usual(now, where) * now.usable
    return float(np.maximum(now.host_backlog(where) - by_nature, 0.0).sum())


def _staying(now: Situation) -> dict[str, float]:
    """Return what each host that is not to become empty can work off."""
    return {name: room for name, room in zip(now.hosts, now.usable.tolist(), strict=True) if name not in now.draining}


def _fresh(now: Situation) -> list[Host]:
    """Return the spare hosts that have not joined."""
    return [host for host in now.goals.spare if host.name not in now.seen.cluster.hosts]
