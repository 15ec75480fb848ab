"""What operators whose inputs differ have served of each: their costs by input are learned by it."""

from __future__ import annotations

import math

import attrs
import numpy as np

from penstock.control.flow import Floats
from penstock.files import Document
from penstock.network import Operator

OLDEST = 128
"""Looks of which it is kept apart what came in them and still waits."""

_MEANS = ("now", "cost", "selectivity")


@attrs.frozen(kw_only=True)
class Mix:
    """Which inputs the tuples of an operator came from, where the network says that inputs differ.

    What is seen is the work of all of them together. What it would be as the network says, with the same mix, tells how
    far off the network is, however the mix changes.

    Attributes
    ----------
    queue
        Tuples by input that have come and were not served yet, look by look, the oldest first.
    now
        Cost (s) that the network gives the tuples served in the last look; nan: not known.
    cost, selectivity
        Means of what the network gives, over the tuples that count in the sums; nan: not known.
    """

    queue: tuple[tuple[float, ...], ...] = ()
    now: float = math.nan
    cost: float = math.nan
    selectivity: float = math.nan

    def after(self, came: Floats, served: float, waiting: float) -> tuple[Mix, Floats]:
        """Return it after one more look, and the tuples of each input that were served, in the order they came.

        Parameters
        ----------
        came
            Tuples by input that were let in.
        served, waiting
            Of all inputs; ``waiting`` is nan where it is not known.
        """
        queue = np.array([*self.queue, came.tolist()])
        taken, queue = _first(queue, served)
        if not math.isnan(waiting):
            queue = _first(queue, queue.sum() - waiting)[1]  # what got lost is served never
        if len(queue) > OLDEST:
            queue = np.concatenate([queue[:-OLDEST].sum(axis=0, keepdims=True), queue[-OLDEST:]])
        return attrs.evolve(self, queue=tuple(map(tuple, queue.tolist()))), taken

    def document(self) -> Document:
        """Return it for the state file."""
        means = {name: None if math.isnan(getattr(self, name)) else getattr(self, name) for name in _MEANS}
        return {**means, "queue": [list(row) for row in self.queue]}

    @classmethod
    def read(cls, document: Document) -> Mix:
        """Return what `document` wrote."""
        means = {name: math.nan if document[name] is None else float(document[name]) for name in _MEANS}
        return cls(**means, queue=tuple(tuple(row) for row in document["queue"]))


def differ(operator: Operator) -> bool:
    """Whether the network gives an operator's inputs different costs or selectivities."""
    return any(given is not None and len(set(given)) > 1 for given in (operator.cost, operator.selectivity))


def _first(queue: Floats, count: float) -> tuple[Floats, Floats]:
    """Return what the first tuples of a queue are, array (inputs,), and the rest, array (looks, inputs)."""
    ends = queue.sum(axis=1).cumsum()
    begins = np.concatenate([[0.0], ends[:-1]])
    share = np.clip((count - begins) / np.maximum(ends - begins, 1e-12), 0.0, 1.0)[:, None]
    rest = queue * (1 - share)
    return (queue * share).sum(axis=0), rest[rest.sum(axis=1) > 1e-6]


def mixed(operator: Operator, mix: Mix, taken: Floats, sums: Floats, fresh: Floats) -> Mix:
    """Return the mix whose means hold what was served, and tried, in one more look.

    Parameters
    ----------
    taken
        Tuples served by input.
    sums, fresh
        Arrays (4,), as in `Knowledge`: those of before, faded, and those of the look.
    """
    if not taken.any():
        return mix
    tried = taken
    if operator.kind == "join":
        # What comes on one side is tried with what the other side's window holds; over time that is as much on both.
        tried = np.ones(2) if operator.counts is None else taken * operator.counts[::-1]
    found = []
    for given, part, late, k in (
        (operator.cost, taken, mix.cost, 0), (operator.selectivity, tried, mix.selectivity, 2)
    ):  # fmt: skip
        mean = math.nan if given is None else float(part @ given / part.sum())
        before, weight = (0.0, fresh[k]) if math.isnan(late) else (late * sums[k], sums[k] + fresh[k])
        found.append(float((before + mean * fresh[k]) / weight) if weight > 0 else late)
    return attrs.evolve(mix, cost=found[0], selectivity=found[1])
