"""A rehearsal: what policies need is compiled before a run begins."""

from __future__ import annotations

import pytest

from penstock.control.loop import Control
from penstock.control.policies import POLICIES, policies
from penstock.control.rehearsal import rehearse


@pytest.mark.parametrize("name", ["shed", "rebalance", "d-fit", "cheapest"])
def test_policies_decide_in_a_rehearsal(name: str) -> None:
    """An overloaded host beside an empty one makes a policy decide, so that what it calls has been called once."""
    assert rehearse(Control(policies=policies(name), act=True)) > 0


def test_every_policy_can_be_rehearsed() -> None:
    """No policy fails in a rehearsal, whether or not there is anything for it to do."""
    for name in POLICIES:
        rehearse(Control(policies=policies(name)))
