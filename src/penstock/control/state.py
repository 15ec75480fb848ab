"""What a controller remembers: one value, written to one file, from which it goes on after it was killed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import attrs

from penstock.cluster import Host
from penstock.control.knowledge import Knowledge
from penstock.control.policies.base import Proposal
from penstock.control.settling import Open
from penstock.files import Document, plain
from penstock.network import network_document, read_network_document
from penstock.steering import Applied, Observation, Plan

VERSION = 2

Moved = TypedDict("Moved", {"time": float, "operator": str, "from": str, "to": str})
"""An operator's move that was begun."""


@attrs.frozen(eq=False, kw_only=True)
class State:
    """A controller between two looks.

    Attributes
    ----------
    at
        Time of the last look (s).
    known
        What was learned.
    moved, acted, advised
        When each operator moved last, not counting moves off dead hosts; when each policy last moved something; what
        each policy advised of late, and when.
    draining
        Hosts that are to become empty.
    noted
        What each policy has noted last for itself.
    decisions
        How many there were.
    open
        Decisions of which it is not yet known what came.
    written, fresh
        How many lines the journal has of plans that were applied, and those that it does not have yet: ``time``,
        ``moves`` that were begun, and ``plan`` for engines that are rebuilt by doing everything again.
    """

    at: float = 0.0
    known: Knowledge = attrs.field(factory=Knowledge)
    moved: Mapping[str, float] = attrs.field(factory=dict)
    acted: Mapping[str, float] = attrs.field(factory=dict)
    advised: Mapping[str, Mapping[str, float]] = attrs.field(factory=dict)
    draining: frozenset[str] = frozenset()
    noted: Mapping[str, Document] = attrs.field(factory=dict)
    decisions: int = 0
    open: tuple[Open, ...] = ()
    written: int = 0
    fresh: tuple[Document, ...] = ()

    def after(self, found: Proposal, plan: Plan, applied: Applied, seen: Observation, *, journaled: bool) -> State:
        """Return the state after a proposal was applied, as far as its ``plan`` went."""
        begun = [change for change in applied.begun if change.kind == "move"]
        gone = {change.name for change in applied.begun if change.kind == "retire"}
        moves: tuple[Moved, ...] = tuple(
            {"time": applied.at, "operator": c.name, "from": seen.placement[c.name], "to": c.to}
            for c in begun
            if seen.placement[c.name] != c.to
        )
        # What copies drop says which of them can lead, and begins others anew.
        moving = {"add", "attach", "retire", *(["keep"] if found.policy == "replicate" else [])}
        large = begun or any(change.kind in moving for change in applied.begun)
        again = {"plan": plain(plan_document(plan))} if journaled and applied.begun else {}
        line = {"time": applied.at, "moves": list(moves), **again}
        return attrs.evolve(
            self,
            # An operator that had to leave a dead host need not rest: the host may come back.
            moved={**self.moved, **{c.name: applied.at for c in begun if seen.placement[c.name] not in seen.down}},
            acted={**self.acted, **dict.fromkeys(filter(None, (found.policy, found.course)), applied.at)}
            if large
            else self.acted,
            draining=(self.draining | (set(found.drain) if large else set())) - gone,
            known=attrs.evolve(self.known, promised={**self.known.promised, **found.promised})
            if any(change.kind == "attach" for change in applied.begun)
            else self.known,
            fresh=(*self.fresh, line) if moves or again else self.fresh,
        )

    def document(self) -> Document:
        """Return it for the state file, once nothing is ``fresh``."""
        found = {field.name: getattr(self, field.name) for field in attrs.fields(State) if field.name != "fresh"}
        still = [each.document() for each in self.open]
        known = self.known.document()
        return {**found, "version": VERSION, "known": known, "draining": sorted(self.draining), "open": still}

    @classmethod
    def read(cls, document: Document) -> State:
        """Return what `document` wrote."""
        return cls(
            at=document["at"],
            known=Knowledge.read(document["known"]),
            moved=document["moved"],
            acted=document["acted"],
            advised={name: _advised(given) for name, given in document["advised"].items()},
            draining=frozenset(document["draining"]),
            noted=document.get("noted", {}),
            decisions=document["decisions"],
            open=tuple(map(Open.read, document["open"])),
            **({"fresh": _kept(document)} if "journal" in document else {"written": int(document["written"])}),
        )


def plan_document(plan: Plan) -> Document:
    """Return a plan as a plain document."""
    network = None if plan.network is None else network_document(plan.network)
    return {
        "placement": dict(plan.placement),
        "keep": None if plan.keep is None else dict(plan.keep),
        **({} if plan.tables is None else {"tables": dict(plan.tables)}),
        "limits": dict(plan.limits),
        "triggers": dict(plan.triggers),
        "network": network,
        "add": [attrs.asdict(host, filter=_told) for host in plan.add],
        "retire": list(plan.retire),
    }


def read_plan(document: Document) -> Plan:
    """Return the plan that `plan_document` wrote."""
    network = document["network"]
    return Plan(
        **{
            **document,
            "network": None if network is None else read_network_document(network),
            "add": tuple(_host(host) for host in document["add"]),
            "retire": tuple(document["retire"]),
        }
    )


def _kept(document: Document) -> tuple[Document, ...]:
    """Return the lines of the journal of an earlier version, which kept moves and plans in the state."""
    plans = [{"time": float(row[0]), "moves": [], "plan": row[1]} for row in document["journal"]]
    return {"time": 0.0, "moves": list(document["moves"])}, *plans


def _advised(given: Document | list[Any]) -> Mapping[str, float]:
    """Return what a policy advised of late; earlier versions remembered the last advice only, and its time."""
    return {given[0]: given[1]} if isinstance(given, list) else given


def _told(field: attrs.Attribute[object], value: object) -> bool:
    """Whether a value is to be written: a host without a limit of memory has inf, which JSON does not know."""
    return value != field.default


def _host(document: Document) -> Host:
    """Return the host that a plan's document has; null stands for what is not limited or not given."""
    return Host(**{key: value for key, value in document.items() if value is not None})
