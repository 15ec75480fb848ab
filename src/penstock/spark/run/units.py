"""Units: what is placed, moved, stopped and fenced as one.

A unit is a streaming query with its checkpoint, its input positions (in the checkpoint) and a generation. It is named
by its first operator and never by its host, so that all that it leaves is found again wherever it runs next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import attrs

from penstock.cluster import hosts_by_operator
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
    copies
        Hosts by name of the checkpoint, where several copies of it run: host and checkpoint of the unit are then those
        of the copy that leads.
    """

    fragment: Fragment
    saved: str
    bases: Mapping[str, int] = attrs.field(factory=dict)
    begins: Mapping[str, int] = attrs.field(factory=dict)
    copies: Mapping[str, str] = attrs.field(factory=dict)

    @classmethod
    def placed(cls, fragment: Fragment, placement: Mapping[str, str]) -> Unit:
        """Return a unit that has not run yet, with the copies that its operators have in a placement."""
        hosts = hosts_by_operator(placement)[fragment.operators[0]]
        names = [fragment.name, *(f"{fragment.name}#{number}" for number in range(2, len(hosts) + 1))]
        return cls(fragment, fragment.name, copies=dict(zip(names, hosts, strict=True)) if len(hosts) > 1 else {})

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
        copies = {**self.copies, self.saved: host} if self.copies else {}
        return attrs.evolve(self, fragment=attrs.evolve(self.fragment, host=host), copies=copies)

    def led_by(self, copy: str) -> Unit:
        """Return the unit with another copy that leads."""
        return attrs.evolve(self, saved=copy).on(self.copies[copy])

    def having(self, copy: str, host: str) -> Unit:
        """Return the unit with one of its copies on another host."""
        moved = attrs.evolve(self, copies={**self.copies, copy: host})
        return moved.led_by(self.saved)

    @property
    def copy(self) -> str:
        """The copy that leads; empty where there are no copies."""
        return self.saved if self.copies else ""

    @property
    def hosts(self) -> Mapping[str, str]:
        """Where it runs, by name of the checkpoint."""
        return self.copies or {self.saved: self.host}

    @property
    def names(self) -> frozenset[str]:
        """What it and its copies are called where they change."""
        return frozenset((self.name, *map(copy_name, self.copies)))

    @property
    def others(self) -> tuple[str, ...]:
        """The copies that follow."""
        return tuple(name for name in self.copies if name != self.saved)

    def operators(self, copy: str) -> tuple[str, ...]:
        """Return the names of its operators in a copy."""
        number = "".join(copy.partition("#")[1:]) if self.copies else ""
        return tuple(name + number for name in self.fragment.operators)

    @property
    def placement(self) -> dict[str, str]:
        """The hosts of its operators, and of their copies."""
        return {name: host for copy, host in self.hosts.items() for name in self.operators(copy)}

    def reshaped(self, network: Network) -> Unit:
        """Return the unit in a network that has more to read from it."""
        return attrs.evolve(self, fragment=fragment(network, self.host, self.fragment.operators))

    def document(self) -> Document:
        """Return what the run's folder keeps."""
        part = self.fragment
        return {
            "name": part.name, "host": part.host, "operators": list(part.operators), "cuts": sorted(part.cuts),
            "saved": self.saved, "bases": dict(self.bases), "begins": dict(self.begins),
            "copies": dict(self.copies),
        }  # fmt: skip

    @classmethod
    def of(cls, document: Document) -> Unit:
        """Return the unit that a run's folder keeps."""
        part = Fragment(
            document["name"], document["host"], tuple(document["operators"]), frozenset(document["cuts"])
        )  # fmt: skip
        return cls(part, document["saved"], document["bases"], document["begins"], document.get("copies", {}))


def copy_name(copy: str) -> str:
    """Return what a copy of a unit is called beside the unit, whose name the checkpoint of its first copy has."""
    return copy if "#" in copy else f"{copy}#1"


Q = TypeVar("Q", bound=Query)


def stamped(query: Q, unit: Unit, generation: int) -> Q:
    """Return a compiled query that delivers as a generation of a unit."""
    logs = tuple(dataclasses.replace(way, base=unit.bases.get(way.writer, 0)) for way in query.spec.logs)
    spec = dataclasses.replace(query.spec, logs=logs, saved=unit.saved, generation=generation, host=unit.host)
    return attrs.evolve(query, fragment=unit.fragment, spec=spec)
