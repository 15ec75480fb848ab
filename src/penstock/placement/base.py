"""What every placement algorithm reads and gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import attrs
import numpy as np

from penstock.cluster import Cluster, Placement
from penstock.load import LoadModel


@attrs.frozen(eq=False)
class Problem:
    """A placement problem: which operators, on which hosts, from where.

    Attributes
    ----------
    model
        The load model.
    cluster
        Hosts, quotas and links.
    previous
        The placement that is to be improved, or None.
    pins
        Hosts that operators must stay on.
    """

    model: LoadModel
    cluster: Cluster
    previous: Placement | None = None
    pins: Mapping[str, str] = attrs.field(factory=dict)


class Algorithm(Protocol):
    """Decides a placement; a pure function of the problem and the generator's seed."""

    def __call__(self, problem: Problem, rng: np.random.Generator) -> Placement:
        """Return a placement of every operator.

        Raises
        ------
        Infeasible
            Naming the host or link that is short, and by how much.
        """
        ...
