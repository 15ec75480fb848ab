"""A controller's looks at a simulated engine, one after the other, for tests of single policies."""

from __future__ import annotations

from penstock.control.goals import Goals
from penstock.control.loop import Control
from penstock.control.policies import policies
from penstock.control.state import State


def steered(engine, policy, until, *, goals=None, happen=None):
    """Look every second until a time or the engine's end; return the lines of all decisions, and what was seen.

    ``happen``: events by the time (s) at which they happen.
    """
    control = Control(policies=policies(policy), goals=goals or Goals(), act=True)
    state, flow, looks = State(), None, []
    for k in range(1, until + 1):
        if not engine.wait(float(k)):
            break
        for event in (happen or {}).get(k, ()):
            engine.happen(event)
        turned = control.turn(engine, state, flow)
        state, flow = turned.state, turned.flow
        looks.append(turned.seen)
    return [each.line for each in state.open], looks
