"""Scenarios: what happens to a running network, written down in a TOML file."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Annotated

import attrs
import msgspec

from penstock.cluster import Cluster
from penstock.errors import InputError, locating
from penstock.files import Document, Text, convert, schema_of, suggest
from penstock.load import Statistics
from penstock.network import Network, read_network
from penstock.sizing.admit import merged
from penstock.steering import Admit, Event, Kill, NewRates, Recover, Slow
from penstock.workload import Rates, read_rates

KINDS = ("kill", "recover", "admit", "rates", "slow")


class SlowRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A host, and the share of its speed that it has."""

    host: str
    factor: Annotated[float, msgspec.Meta(gt=0, le=1000)]


class EventRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One event of a scenario file."""

    at: Annotated[float, msgspec.Meta(ge=0, le=1e9, description="time of the run, in seconds")]
    kill: str | None = None
    recover: str | None = None
    admit: str | None = None
    rates: str | None = None
    slow: SlowRow | None = None


class ScenarioFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scenario file."""

    events: list[EventRow] = []


@attrs.frozen
class Happening:
    """An event and its time (s)."""

    at: float
    event: Event


def read_scenario(
    path: str | os.PathLike[str], network: Network, cluster: Cluster, statistics: Statistics | None = None
) -> tuple[Happening, ...]:
    """Read a scenario and check every event of it, in the order of their times.

    Files that it names are looked for beside it.

    Raises
    ------
    InputError
        Naming file and event; nothing has begun then.
    """
    text = Text(path)
    beside = os.path.dirname(text.name) if os.path.exists(text.name) else ""
    with locating(text.name):
        rows = convert(text.toml(), ScenarioFile, "").events
        order = sorted(range(len(rows)), key=lambda k: rows[k].at)
        found: list[Happening] = []
        whole, down = network, set[str]()
        for k in order:
            at = f"events[{k}]"
            event = _event(rows[k], at, beside, whole, cluster, statistics)
            if isinstance(event, Kill) and event.host in down:
                raise InputError(f"{event.host!r} is down already", at=at)
            if isinstance(event, Recover) and event.host not in down:
                raise InputError(f"{event.host!r} is not down", at=at)
            if isinstance(event, Kill):
                down.add(event.host)
            elif isinstance(event, Recover):
                down.discard(event.host)
            elif isinstance(event, Admit):
                whole = merged(whole, event.network)
            found.append(Happening(rows[k].at, event))
    return tuple(found)


def _event(
    row: EventRow, at: str, beside: str, network: Network, cluster: Cluster, statistics: Statistics | None
) -> Event:
    kinds = [kind for kind in KINDS if getattr(row, kind) is not None]
    if kinds == ["admit", "rates"]:
        kinds = ["admit"]
    if len(kinds) != 1:
        raise InputError(f"expected one of {', '.join(KINDS)}, got {', '.join(kinds) or 'none'}", at=at)
    rates = None if row.rates is None else _rates(os.path.join(beside, row.rates), at)
    if row.admit is not None:
        try:
            new = read_network(os.path.join(beside, row.admit))
        except InputError as error:
            raise InputError(str(error), at=at) from None
        new = new if statistics is None else statistics.of(new).complete(new)
        _check_sources(rates, {**network.sources, **new.sources}, row.rates, at)
        return Admit(new, rates)
    if rates is not None:
        _check_sources(rates, network.sources, row.rates, at)
        return NewRates(rates)
    host = row.kill or row.recover or (row.slow.host if row.slow is not None else "")
    if host not in cluster.hosts:
        raise InputError(f"{host!r} is no host of the cluster", at=at, hint=suggest(host, cluster.hosts, "hosts"))
    if row.slow is not None:
        return Slow(host, row.slow.factor)
    return Kill(host) if row.kill is not None else Recover(host)


def _check_sources(rates: Rates | None, sources: Collection[str], file: str | None, at: str) -> None:
    for name in () if rates is None else rates.sources:
        if name not in sources:
            raise InputError(f"{file}: {name!r} is no source", at=at, hint=suggest(name, sources, "sources"))


def _rates(given: str, at: str) -> Rates:
    try:
        return read_rates(given)
    except InputError as error:
        raise InputError(str(error), at=at) from None


def scenario_schema() -> Document:
    """Return the JSON schema of scenario files."""
    return schema_of(ScenarioFile, "scenario")
