"""How far event time has come in each query, who says so and who minds it, and who shares cores, in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from penstock.arrays import Array, Bools, Ints
from penstock.latency.fragments import Fragment
from penstock.network import Network, Stream


def ints(values: Iterable[int]) -> Ints:
    """Return whole numbers as an array."""
    return np.array(list(values), np.int64)


def first_of(owners: Iterable[int], count: int) -> Ints:
    """Return where the things of each owner begin, and where the last ends; things are ordered by owner."""
    return np.searchsorted(ints(owners), np.arange(count + 1)).astype(np.int64)


def homes(fragments: Sequence[Fragment]) -> dict[str, int]:
    """Return the query of each operator."""
    return {name: query for query, fragment in enumerate(fragments) for name in fragment.operators}


def outside(stream: Stream, query: int, fragments: Sequence[Fragment], home: Mapping[str, int]) -> bool:
    """Whether a stream reaches an operator of a query through a source or a log."""
    return home.get(stream.writer) != query or stream.name in fragments[query].cuts


def lateness_of(network: Network) -> dict[str, float]:
    """Return by source and operator how late its rows may be (s)."""
    found = {name: source.lateness for name, source in network.sources.items()}
    for name, operator in network.operators.items():
        found[name] = max(found[given] for given in operator.inputs)
    return found


def event_time(
    network: Network, fragments: Sequence[Fragment], feeds: Sequence[tuple[int, str]], late: Mapping[str, float]
) -> dict[str, Ints | Array | Bools]:
    """Return the rows of water and the announcers of `penstock.latency.shape.Shape`; feeds are queries and streams."""
    streams, home = {stream.name: stream for stream in network.streams}, homes(fragments)
    announcers: dict[str, int] = {}
    for fragment in fragments:
        for name in fragment.operators:
            away = [stream for stream in network.outputs(name) if stream.reader in home]
            if any(outside(stream, home[stream.reader], fragments, home) for stream in away):
                announcers[name] = len(announcers)
    water: dict[tuple[int, str], int] = {}
    for query, name in feeds:
        water.setdefault((query, streams[name].writer), len(water))
    rows = list(water)
    derives, behind = _derives(network, fragments, home), _behind(network, fragments, home)
    minded = [
        frozenset[str]().union(*(derives[n] for n in fragment.operators if network.operators[n].stateful))
        for fragment in fragments
    ]
    heard = [[water[home[name], writer] for writer in sorted(derives[name])] for name in announcers]
    return {
        "feed_water": ints(water[query, streams[name].writer] for query, name in feeds),
        "water_first": first_of((query for query, _ in rows), len(fragments)),
        "water_announcer": ints(announcers.get(writer, -1) for _, writer in rows),
        "water_query": ints(home.get(writer, -1) for _, writer in rows),
        "water_late": np.array([late[writer] for _, writer in rows]),
        "water_minded": np.array([writer in minded[query] for query, writer in rows], np.bool_),
        "announcer_first": first_of((home[name] for name in announcers), len(fragments)),
        "announcer_behind": np.array([behind[name] for name in announcers], np.bool_),
        "announcer_late": np.array([late[name] for name in announcers]),
        "heard_first": np.concatenate([[0], np.cumsum([len(row) for row in heard])]).astype(np.int64),
        "heard": ints(w for row in heard for w in row),
    }


def _derives(network: Network, fragments: Sequence[Fragment], home: Mapping[str, int]) -> dict[str, frozenset[str]]:
    """Return from which writers outside its query each operator derives: only these tell its event time."""
    found: dict[str, frozenset[str]] = {}
    for query, fragment in enumerate(fragments):
        for name in fragment.operators:
            given = network.inputs(name)
            far = {stream.writer for stream in given if outside(stream, query, fragments, home)}
            near = [found[stream.writer] for stream in given if not outside(stream, query, fragments, home)]
            found[name] = frozenset(far).union(*near)
    return found


def _behind(network: Network, fragments: Sequence[Fragment], home: Mapping[str, int]) -> dict[str, bool]:
    """Return whether a stateful operator of its query lies before or at each operator."""
    found: dict[str, bool] = {}
    for fragment in fragments:
        for name in fragment.operators:
            operator = network.operators[name]
            near = [given for given in operator.inputs if home.get(given) == home[name]]
            found[name] = operator.stateful or any(found[given] for given in near)
    return found


def groups_of(hosts: Sequence[str], machines: Mapping[str, tuple[Sequence[str], float]]) -> dict[str, Ints | Array]:
    """Return hosts of queries, and the groups of queries that share cores."""
    names = list(dict.fromkeys(hosts))
    machine = {host: f"machine {name}" for name, (members, _) in machines.items() for host in members}
    owner = [machine.get(host, f"host {host}") for host in hosts]
    groups = list(dict.fromkeys(owner))
    cores = {f"machine {name}": float(count) for name, (_, count) in machines.items()}
    members = [[q for q, name in enumerate(owner) if name == group] for group in groups]
    return {
        "host": ints(names.index(host) for host in hosts),
        "group": ints(groups.index(name) for name in owner),
        "member_first": np.concatenate([[0], np.cumsum([len(row) for row in members])]).astype(np.int64),
        "member": ints(q for row in members for q in row),
        "cores": np.array([cores.get(group, 1.0) for group in groups]),
    }
