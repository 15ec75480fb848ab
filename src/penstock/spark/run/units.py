"""Units: what is placed, moved, stopped and fenced as one.

A unit is a streaming query with its checkpoint, its input positions (in the checkpoint) and a generation. It is named
by its first operator and never by its host, so that all that it leaves is found again wherever it runs next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import attrs

from penstock.latency.fragments import Fragment, fragment
from penstock.network import Network
from penstock.spark.compile import Query

if TYPE_CHECKING:
    from penstock.files import Document


@attrs.frozen
class Unit:
    """A query as the run's folder knows it.

    Attributes
    ----------
    fragment
        Its operators and its host.
    saved
        Name of its checkpoint's folder.
    bases
        By log that it writes, the number there of what would be its batch 0, where that is not 0.
    begins
        First batch of a log, or event of a schedule, that it took, where that is not 0.
    """

    fragment: Fragment
    saved: str
    bases: Mapping[str, int] = attrs.field(factory=dict)
    begins: Mapping[str, int] = attrs.field(factory=dict)

    @classmethod
    def new(cls, fragment: Fragment) -> Unit:
        """Return a unit that has not run yet."""
        return cls(fragment, fragment.name)

    @property
    def name(self) -> str:
        """The unit's name."""
        return self.fragment.name

    @property
    def host(self) -> str:
        """Where it runs."""
        return self.fragment.host

    def on(self, host: str) -> Unit:
        """Return the unit on another host."""
        return attrs.evolve(self, fragment=attrs.evolve(self.fragment, host=host))

    def reshaped(self, network: Network) -> Unit:
        """Return the unit in a network that has more to read from it."""
        return attrs.evolve(self, fragment=fragment(network, self.host, self.fragment.operators))

    def document(self) -> Document:
        """Return what the run's folder keeps."""
        part = self.fragment
        return {
            "name": part.name, "host": part.host, "operators": list(part.operators), "cuts": sorted(part.cuts),
            "saved": self.saved, "bases": dict(self.bases), "begins": dict(self.begins),
        }  # fmt: skip

    @classmethod
    def of(cls, document: Document) -> Unit:
        """Return the unit that a run's folder keeps."""
        part = Fragment(
            document["name"], document["host"], tuple(document["operators"]), frozenset(document["cuts"])
        )  # fmt: skip
        return cls(part, document["saved"], document["bases"], document["begins"])


Q = TypeVar("Q", bound=Query)


def stamped(query: Q, unit: Unit, generation: int) -> Q:
    """Return a compiled query that delivers as a generation of a unit."""
    logs = tuple(dataclasses.replace(way, base=unit.bases.get(way.writer, 0)) for way in query.spec.logs)
    spec = dataclasses.replace(query.spec, logs=logs, saved=unit.saved, generation=generation, host=unit.host)
    return attrs.evolve(query, fragment=unit.fragment, spec=spec)
