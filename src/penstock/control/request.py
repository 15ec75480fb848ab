"""What a controller is asked for, checked, and the fingerprint by which it knows its own work again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

import attrs

from penstock.cluster import Cluster
from penstock.control.goals import Prices
from penstock.control.loop import Control
from penstock.control.scenario import Happening, read_scenario
from penstock.errors import InputError, locating
from penstock.files import Document, file_of, plain, suggest
from penstock.load import Statistics
from penstock.network import Network, meaning, network_document
from penstock.simulation.splice import periods
from penstock.steering import Admit, NewRates, Slow
from penstock.units import pairs
from penstock.workload import Rates, read_rates


def scenario_of(
    path: str | None, network: Network, cluster: Cluster, known: Statistics, engine: str
) -> tuple[Happening, ...]:
    """Read a scenario, if there is one.

    Raises
    ------
    InputError
        If the file is wrong, or the engine cannot let happen what it asks for.
    """
    happenings = () if path is None else read_scenario(path, network, cluster, known)
    for each in happenings if engine == "spark" else ():
        if isinstance(each.event, Slow | NewRates) or (isinstance(each.event, Admit) and each.event.rates is not None):
            raise InputError(
                f"what is to happen at {each.at:g} s cannot be made to happen on Spark", file=path,
                hint="rates come from the sources there; try it with --engine simulation",
            )  # fmt: skip
    return happenings


def apart_of(names: str | None, network: Network) -> tuple[str, ...]:
    """Return the operators that run in queries of their own: those named, or all that keep state."""
    if names is None:
        return tuple(name for name, operator in network.operators.items() if operator.stateful)
    if names == "all":
        return tuple(network.operators)
    apart = tuple(filter(None, (name.strip() for name in names.split(","))))
    for name in apart:
        if name not in network.operators:
            raise InputError(
                f"{name!r} is no operator", at="--apart", hint=suggest(name, network.operators, "operators")
            )
    return apart


def control_rates(
    text: str | None, network: Network, scenario: Iterable[Happening], duration: float, period: float
) -> Rates | None:
    """Read the rates of the network's sources, and of those that a scenario attaches where they are given."""
    if text is None:
        return None
    rates = read_rates(text, duration, period)
    more = {name for each in scenario if isinstance(each.event, Admit) for name in each.event.network.sources}
    with locating(file_of(text)):
        rates.check({*network.sources, *(more & set(rates.sources))})
    return rates


def expecting(
    scenario: Iterable[Happening], network: Network, rates: Rates, seconds: float | None = None
) -> tuple[Happening, ...]:
    """Return a scenario whose queries know the highest rates of sources that only ``rates`` names.

    Parameters
    ----------
    seconds
        How long the simulator runs; None: as long as there are rates.

    Raises
    ------
    InputError
        If a query brings a source of which nothing says at what rate it arrives, or rates begin at a time, or have
        periods, that the simulator cannot follow.
    """
    found, running, given = tuple(scenario), set(network.sources), set(rates.sources)
    period, end = rates.period, rates.duration if seconds is None else seconds
    for each in found:
        if isinstance(each.event, NewRates | Admit) and (later := each.event.rates) is not None:
            given |= set(later.sources)
            if each.at <= end:
                try:
                    period, _ = periods(period, later.period, each.at, end)
                except InputError as error:
                    raise InputError(error.problem, at=f"rates that begin at {each.at:.10g} s") from None
    told: list[Happening] = []
    for each in found:
        if isinstance(each.event, Admit):
            new = each.event.network.sources.keys() - running
            if missing := sorted(new - given):
                raise InputError(
                    f"{missing[0]!r}, which comes at {each.at:g} s, has no rates", hint="give the event rates as well"
                )
            most = {name: float(rates.of_source(name).max()) for name in sorted(new & set(rates.sources))}
            each = attrs.evolve(each, event=attrs.evolve(each.event, most=most))
            running |= new
        told.append(each)
    return tuple(told)


def read_prices(text: str | None) -> Prices:
    """Read ``value=1e-4,late=5e-5,hour=1,move=0.01``; what is not named keeps its price."""
    table = {} if text is None else pairs(text, "--prices", "price=number", "value=1e-4,late=5e-5")
    names = [field.name for field in attrs.fields(Prices)]
    for name in table:
        if name not in names:
            raise InputError(f"{name!r} has no price", at="--prices", hint=suggest(name, names, "prices"))
    return Prices(**table)


def _as_in_a_file(network: Network) -> str:
    """Return all that a network's file says; where that lies may change."""
    document = network_document(network)
    for operator in document["operators"]:
        del operator["folder"]
    return json.dumps(document, sort_keys=True)


def identity_of(control: Control, network: Network, rates: Rates | None, *, priced: bool = True) -> Document:
    """Return what a controller must be asked for again to go on with its work: what it controls, and to what end.

    It is as a file has it, so that it is equal to what was read from one. ``priced``: what runs costs what the network
    says, as in the simulator; elsewhere other costs are the same network better known.
    """
    what = _as_in_a_file(network) if priced else meaning(network)
    identity: Document = {
        "network": _digest(what),
        "rates": None if rates is None else _digest(_rows(rates)),
        "goals": attrs.asdict(control.goals),
        "act": control.act,
        "every": control.every,
        "seed": control.seed,
    }
    return {key: plain(value) for key, value in identity.items()}


def identity_of_setting(happenings: Iterable[Happening], cluster: Cluster | None) -> Document:
    """Return what besides a controller must be as it was to go on: what happens, and on which hosts.

    ``cluster``: None where what runs says itself where, and costs may become better known, as on Spark.
    """
    rows = [_happening(each, priced=cluster is not None) for each in happenings]
    found: Document = {"events": _digest("\n".join(rows))} if rows else {}
    if cluster is not None:
        hosts = [attrs.evolve(host, spark=None, token_env=None) for host in cluster.hosts.values()]
        links = sorted(cluster.links.items())
        found["cluster"] = _digest(f"{hosts} {cluster.default_link} {links} {sorted(cluster.machines.items())}")
    return found


def _happening(each: Happening, *, priced: bool) -> str:
    """Return all that a scenario says of an event."""
    event = each.event
    told = [f"{each.at} {type(event).__name__}"]
    if isinstance(event, Admit):
        told.append(_as_in_a_file(event.network) if priced else meaning(event.network))
    if isinstance(event, Admit | NewRates):
        told.append("" if event.rates is None else _rows(event.rates))
    else:
        told.append(str(event))
    return " ".join(told)


def _rows(rates: Rates) -> str:
    return f"{rates.period} {rates.sources} {rates.values.tolist()}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
