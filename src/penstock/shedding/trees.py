"""Letting the hosts of a placed network make their tables, again after changes, and keeping what they sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Numbers
from penstock.shedding.distributed import Made, make_rows
from penstock.shedding.grid import TooLarge
from penstock.shedding.host_table import ARRAYS, HostTable, host_table
from penstock.shedding.hosts import (
    HostPart,
    Limits,
    Profile,
    child_limits,
    host_parts,
    profile_of,
    root_limits,
    worth_of,
)
from penstock.shedding.messages import Rows, changed, decoded, difference, encoded
from penstock.shedding.program import Matrix, Program
from penstock.shedding.shapes import again, check_index, check_range, check_shapes, damaged, same

MOST_ROUNDS = 8
TAIL = 0.2
"""Share of the error that pays for rates below the smallest of the grids."""


HOST = {
    "loads": ("f", "hosts", "inputs"), "useful": ("f", "hosts", "inputs"), "worthless": ("i", "arcs"),
    "group": ("i", "inputs"), "factor": ("f", "inputs"), "kept": ("f", "points", "kept"),
}  # fmt: skip
"""Arrays of a host's table, besides the index and what is the program's."""


@attrs.frozen(eq=False)
class Tables:
    """The tables of all hosts, and what was sent to make them.

    Attributes
    ----------
    hosts
        By name, parents before children.
    sent
        Bytes that each host sent to its parent.
    parts, profiles, limits, made
        What each host had when it made its table, and the rows.
    known
        The rows of each host as its parent knows them.
    """

    hosts: Mapping[str, HostTable]
    sent: Mapping[str, int]
    parts: Mapping[str, HostPart]
    profiles: Mapping[str, Profile]
    limits: Mapping[str, Limits]
    made: Mapping[str, Made]
    known: Mapping[str, Rows]


def make_tables(
    program: Program, upto: Matrix, error: float, before: Tables | None = None, allowed: float = 0.0
) -> Tables:
    """Let every host make its table.

    Parameters
    ----------
    upto
        Array (sources,): greatest rates (tuples/s).
    error
        Share of the optimum that may be lost.
    before
        Tables of the same hosts before costs or selectivities changed: a host whose own streams, limits and children's
        rows are as they were sends nothing, the others send changes where that is shorter (section 8.2.5).
    allowed
        Difference of scores up to which a change is not sent; it adds to the error.

    Raises
    ------
    InputError
        If the hosts do not form trees (see `host_parts`), or a table is too large.
    """
    parts = host_parts(program)
    profiles = _profiles(parts)
    most = dict(zip(program.sources, np.asarray(upto, float).tolist(), strict=True))
    found = Tables({}, {}, parts, profiles, {}, {}, {})
    for root in [host for host, part in parts.items() if part.parent is None]:
        rounds = before.made[root].rows.rounds if before and root in before.made else 1.0
        sent: dict[str, int] = {}
        for _ in range(MOST_ROUNDS):
            spread = -np.expm1(np.log1p(-(1 - TAIL) * error) / rounds)
            limits = root_limits(profiles[root], most, float(spread), TAIL * error)
            if before and root in before.limits:
                limits = _steady(before.limits[root], limits)
            tree = _tree(found, _limits(root, parts, profiles, limits), before, allowed)
            # Hosts that must begin again with finer grids send again.
            sent = {host: count + sent.get(host, 0) for host, count in tree.sent.items()}
            used = tree.made[root].rows.rounds
            if used <= rounds:
                break
            rounds = used
        else:
            raise TooLarge(f"the tables of the hosts below {root} need ever finer grids")
        found = attrs.evolve(
            found,
            hosts={**found.hosts, **tree.hosts}, sent={**found.sent, **sent}, limits={**found.limits, **tree.limits},
            made={**found.made, **tree.made}, known={**found.known, **tree.known},
        )  # fmt: skip
    return found


def _profiles(parts: Mapping[str, HostPart]) -> dict[str, Profile]:
    """Return what each host tells its parent first, children before parents."""
    profiles: dict[str, Profile] = {}
    for host in reversed(list(parts)):
        profiles[host] = profile_of(parts[host], profiles)
    return profiles


def _limits(
    root: str, parts: Mapping[str, HostPart], profiles: Mapping[str, Profile], first: Limits
) -> dict[str, Limits]:
    """Return what each host of a tree is told, parents before children."""
    limits, order = {root: first}, [root]
    for host in order:
        for child in parts[host].children:
            limits[child] = child_limits(parts[host], limits[host], profiles[child], profiles[host].inputs)
            order.append(child)
    return limits


def _steady(old: Limits, new: Limits) -> Limits:
    """Keep the grids as they were where they still are fine enough."""
    if new.least >= old.least and new.grids <= old.grids and new.spread >= old.spread:
        return attrs.evolve(new, least=old.least, grids=old.grids, spread=old.spread)
    return new


def _tree(now: Tables, limits: Mapping[str, Limits], before: Tables | None, allowed: float) -> Tables:
    """Make the tables of one tree, children before parents."""
    parts, profiles = now.parts, now.profiles
    hosts: dict[str, HostTable] = {}
    sent: dict[str, int] = {}
    made: dict[str, Made] = {}
    known: dict[str, Rows] = {}
    for host in reversed(list(limits)):
        part, profile = parts[host], profiles[host]
        old = before if before is not None and host in before.made else None
        children = all(old is not None and known[child] is old.known[child] for child in part.children)
        same = old is not None and children and _alike(
            (part, profile, limits[host]), (old.parts[host], old.profiles[host], old.limits[host])
        )  # fmt: skip
        made[host] = old.made[host] if old and same else make_rows(part, profile, limits[host], profiles, known)
        hosts[host] = host_table(part, profile, worth_of(part, profiles), made[host])
        if part.parent is None:
            sent[host] = 0
        elif old and same:
            sent[host], known[host] = 0, old.known[host]
        else:
            sent[host], known[host] = _sent(made[host].rows, profile, old.known[host] if old else None, allowed)
            sent[host] += len(encoded(profile))
    ordered = {host: hosts[host] for host in limits}
    return attrs.evolve(now, hosts=ordered, sent=sent, limits=limits, made=made, known=known)


def _alike(now: Sequence[HostPart | Profile | Limits], before: Sequence[HostPart | Profile | Limits]) -> bool:
    """Whether values with arrays are equal."""
    pairs = [
        (getattr(one, field.name), getattr(other, field.name))
        for one, other in zip(now, before, strict=True)
        for field in attrs.fields(type(one))
    ]
    return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a is b or a == b for a, b in pairs)


def _sent(rows: Rows, profile: Profile, old: Rows | None, allowed: float) -> tuple[int, Rows]:
    """Return how many bytes tell the parent the rows, and the rows as it knows them then."""
    message = encoded(rows)
    if old is not None and _same_columns(old, rows):
        first = [int(np.flatnonzero(rows.group == g)[0]) for g in range(rows.points.shape[1])]
        load, worth = profile.useful[:, first] / rows.factor[first], profile.worth[first] / rows.factor[first]
        delta = difference(old, rows, allowed, load, worth)
        change = encoded(delta)
        if len(change) < len(message):
            return len(change), changed(old, delta)
    received: Any = decoded(message)
    return len(message), received


def _same_columns(old: Rows, new: Rows) -> bool:
    """Whether two tables have the same columns."""
    return (
        old.inputs == new.inputs
        and old.points.shape[1] == new.points.shape[1]
        and np.array_equal(old.factor, new.factor)
        and np.array_equal(old.group, new.group)
    )


def _check(table: HostTable, part: HostPart) -> None:
    """Refuse a host's table that is damaged, or of another placement."""
    arrays = table.arrays
    if any(not same(arrays[name], getattr(part, name)) for name in ("G", "S", "cost")):
        raise again(f"was made for another placement: what host {part.host} does is not in it")
    sizes = check_index(arrays, **check_shapes(arrays, HOST, inputs=len(table.inputs), arcs=len(part.arcs)))
    check_range(arrays, "group", 0, sizes["columns"])
    if sizes["kept"] not in (0, sizes["arcs"]):
        raise damaged("kept")


def kept_rates(
    program: Program, hosts: Mapping[str, HostTable], arcs: Mapping[str, NDArray[np.int64]], rates: Matrix
) -> Matrix:
    """Let each host decide, parents first, on what then arrives; return kept rates of all arcs, array (arcs,).

    Parameters
    ----------
    arcs
        For each host the numbers of its arcs in the program, -1 for what is sent to a child.
    rates
        Array (sources,).
    """
    y = program.flow(rates)
    source = dict(zip(program.sources, rates.tolist(), strict=True))
    arriving: dict[str, float] = {}
    for host, table in hosts.items():
        given = [arriving[name] if name in arriving else source[name.partition("@")[0]] for name in table.inputs]
        kept = table.kept(np.array(given))
        own = arcs[host] >= 0
        y[arcs[host][own]] = kept[own]
        arriving |= {name: float(rate) for name, rate, here in zip(table.streams, kept, own, strict=True) if not here}
    return y


def stored(tables: Tables) -> dict[str, Numbers]:
    """Return all tables, and what was sent, as arrays to save: ``host/name``."""
    arrays = {f"{host}/{name}": table.arrays[name] for host, table in tables.hosts.items() for name in ARRAYS}
    return arrays | {f"{host}/sent": np.array([count]) for host, count in tables.sent.items()}


def restored(
    program: Program, arrays: Mapping[str, Numbers]
) -> tuple[dict[str, HostTable], dict[str, NDArray[np.int64]]]:
    """Return the tables of the hosts of a program from what `stored` made, and the numbers of their arcs.

    Raises
    ------
    KeyError
        If an array is missing.
    """
    parts = host_parts(program)
    profiles = _profiles(parts)
    tables = {
        host: HostTable(
            host, profiles[host].inputs, part.streams, part.thins, {name: arrays[f"{host}/{name}"] for name in ARRAYS}
        )
        for host, part in parts.items()
    }
    for host, table in tables.items():
        _check(table, parts[host])
    return tables, {host: part.arcs for host, part in parts.items()}
