"""DECIDE while it runs: one file and one row per policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.control.policies.alone import Alone
from penstock.control.policies.base import Policy, Proposal
from penstock.control.policies.cheapest import Cheapest
from penstock.control.policies.provision import Provision
from penstock.control.policies.rebalance import Rebalance
from penstock.control.policies.replicate import Replicate
from penstock.control.policies.shed import Shed
from penstock.control.policies.throttle import Throttle
from penstock.errors import InputError
from penstock.files import suggest

__all__ = ["POLICIES", "Policy", "Proposal", "policies"]

POLICIES: Mapping[str, Callable[[], Policy]] = {
    "replicate": Replicate,
    "shed": Shed,
    "d-fit": Alone,
    "rebalance": Rebalance,
    "rebalance-two-way": lambda: Rebalance(by="two-way"),
    "rebalance-exchange": lambda: Rebalance(by="exchange"),
    "rebalance-potential": lambda: Rebalance(by="potential", theta=0.5),
    "provision": Provision,
    "throttle": Throttle,
    "cheapest": Cheapest,
}
"""The names on the command line; who comes first in ``--policy`` decides first."""


def policies(names: str) -> tuple[Policy, ...]:
    """Return the policies of a list such as ``shed,rebalance``; ``admit`` answers what is asked, and is always there.

    An empty list only watches.

    Raises
    ------
    InputError
        If there is no such policy, one is named twice, or two of them would undo what the other does.
    """
    found, chosen = [], []
    wanted = [name for part in names.split(",") if (name := part.strip())]
    shed = Shed(leaving="replicate" in wanted)
    special: dict[str, Policy] = {"shed": shed, "cheapest": Cheapest(shed=shed)}
    for name in wanted:
        if wanted.count(name) > 1:
            raise InputError(f"{name!r} is named twice", at="--policy")
        if name == "admit":
            continue
        if name not in POLICIES:
            known = ("admit", *POLICIES)
            raise InputError(f"{name!r} is no policy", at="--policy", hint=suggest(name, known, "policies"))
        found.append(special.get(name) or POLICIES[name]())
        chosen.append(name)
    both = [name for name in chosen if name in ("shed", "cheapest")]
    if "d-fit" in chosen and both:
        raise InputError(
            f"d-fit leaves it to the hosts what to keep, and {both[0]} tells them",
            at="--policy",
            hint="name one of them",
        )
    return tuple(found)
