"""The policy `throttle`: batches that are long enough for their overhead, and short enough for the latency bound."""

from __future__ import annotations

import attrs
import numpy as np

from penstock.control.policies.base import Proposal, percent
from penstock.control.situation import Situation
from penstock.steering import Plan


@attrs.frozen(kw_only=True)
class Throttle:
    """Triggers and read limits from the measured overhead and load of each host.

    A host whose batches have overhead o and load r per capacity keeps up only with a trigger of at least o / (1 - r).
    After a stall everything that waits would come in one batch, and nothing of it would be visible before its end; a
    limit on what is read makes that several batches.

    Attributes
    ----------
    margin
        Factor on the least trigger that keeps up.
    longest
        Share of the latency bound that a batch may take.
    """

    margin: float = 1.25
    longest: float = 0.5

    def __call__(self, now: Situation, rng: np.random.Generator) -> Proposal | None:
        """Return triggers that keep up, and limits where a stall is being worked off."""
        if not now.ready or not now.seen.triggers:
            return None
        most = self.longest * now.goals.bound
        triggers, words = {}, []
        load = now.host_load(now.where()).mean(axis=1)
        for name, mine in zip(now.hosts, load, strict=True):
            seen, host = now.seen.hosts.get(name), now.seen.cluster.hosts[name]
            if seen is None or not seen.overhead or name not in now.seen.triggers:
                continue
            share = mine / (host.usable * (1.0 if seen.speed is None else seen.speed))
            step = now.seen.triggers[name]
            least = self.margin * seen.overhead / max(1 - share, 1e-3)
            if least > step * 1.1 and step < most * 0.99:
                triggers[name] = float(min(least, most))
                words.append(
                    f"{name}: {seen.overhead:.3g} s a batch and {percent(share)} work need {least:.3g} s, "
                    f"not {step:.3g} s"
                )
        limits = self._limits(now, most)
        if limits:
            words.append("what waits is read in parts" if any(limits.values()) else "nothing waits any more")
        if not triggers and not limits:
            return None
        return Proposal(
            policy="throttle",
            plan=Plan(triggers=triggers, limits=limits),
            why="; ".join(words),
            expected={"worst": now.worst()},
            hard=False,
        )

    def _limits(self, now: Situation, most: float) -> dict[str, float | None]:
        """Return the most tuples/s to read of each source, while what waits would make batches longer than allowed."""
        where = now.where()
        behind = float((now.host_backlog(where) / now.usable).max(initial=0.0))
        if now.seen.limits:
            return dict.fromkeys(now.seen.limits) if behind < 0.1 * most else {}
        if behind <= most:
            return {}
        load, rates = now.host_load(where)[:, -1], now.rates[:, -1]
        room = float((now.usable / np.maximum(load, 1e-12)).min())
        return {
            name: float(rate * room)
            for name, rate in zip(now.network.sources, rates, strict=True)
            if rate > 0 and now.network.sources[name].format is not None
        }
