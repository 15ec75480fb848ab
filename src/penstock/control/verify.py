"""The verifier: what no plan may do, whoever made it, checked before anything changes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from penstock.cluster import Cluster, base_name
from penstock.control.situation import Situation
from penstock.network import Network
from penstock.steering import Plan
from penstock.units import size_text


def wrong(now: Situation, plan: Plan, *, quotas: bool = True) -> tuple[str, ...]:
    """Return what is wrong with a plan, one sentence each; nothing if it may be applied.

    Parameters
    ----------
    quotas
        Whether no host that gets an operator may have more to do than it can work off, under the keep fractions that
        the plan leaves in force. A plan that leaves every such host with less to do than before is right all the same.
    """
    network = plan.network or now.network
    hosts = {*now.seen.cluster.hosts, *(host.name for host in plan.add)}
    found = [
        f"{name!r} is no operator" for name in plan.placement if name not in now.row and name not in network.operators
    ]
    found += [f"{host!r} is no host" for host in sorted(set(plan.placement.values())) if host not in hosts]
    found += [f"{host!r} is down" for host in sorted(set(plan.placement.values()) & now.seen.down)]
    gained = {host for name, host in plan.placement.items() if now.seen.placement.get(name) != host}
    found += [f"{host!r} does not answer" for host in sorted(gained & now.seen.silent - now.seen.down)]
    found += [
        f"{name!r} is pinned to {pin!r}" for name, pin in network.pins.items() if plan.placement.get(name, pin) != pin
    ]
    homeless = network.operators.keys() - plan.placement.keys() - now.seen.placement.keys()
    found += [f"{name!r} has no host" for name in sorted(homeless)]
    found += [f"{name!r} is moving already" for name in plan.placement if name in now.seen.moving]
    found += _together(now, plan.placement)
    streams = {stream.name for stream in network.streams} if plan.keep else set()
    for name, share in (plan.keep or {}).items():
        writer, _, reader = name.partition("->")
        if f"{writer}->{base_name(reader)}" not in streams:
            found.append(f"{name!r} is no stream")
        elif not 0 <= share <= 1:
            found.append(f"{name!r} keeps {share:g}, expected 0..1")
    moves = {name: host for name, host in plan.placement.items() if name in now.seen.placement}
    alive = [name for name in moves if now.seen.placement[name] not in now.seen.down]
    free, count = now.goals.moves - now.moving(now.seen.moving), now.moving(alive)
    if count > free:
        found.append(f"{count} moves, and {max(free, 0)} may begin now")
    found += _full(now, plan, moves)
    if quotas and moves and not found and now.ready and len(alive) == len(moves):
        found += _crowded(now, plan, moves)
    return tuple(found)


def unfit(network: Network, cluster: Cluster, placement: Mapping[str, str]) -> list[str]:
    """Return what no plan might do of where operators are at first, one sentence each."""
    there: dict[tuple[str, str], str] = {}
    kept, found = Counter[str](), []
    for name, host in sorted(placement.items()):
        kept[host] += int(network.operators[base_name(name)].state or 0)
        if (other := there.setdefault((base_name(name), host), name)) != name:
            found.append(f"the copies {other!r} and {name!r} are both on {host!r} and stop together")
    memory = {name: host.memory for name, host in cluster.hosts.items()}
    full = [host for host in sorted(kept) if kept[host] > memory[host]]
    said = "{} keeps {} of state and has memory for {}"
    return found + [said.format(host, size_text(kept[host]), size_text(memory[host])) for host in full]


def _together(now: Situation, placement: Mapping[str, str]) -> list[str]:
    """Return a sentence for each two copies of an operator that would be on one host and are not now."""
    copies = {base_name(name) for name in now.seen.operators if "#" in name}
    if not copies:
        return []
    after = {**now.seen.placement, **placement}
    found, there = [], dict[tuple[str, str], str]()
    for name in sorted(after):
        base = base_name(name)
        if base in copies:
            other = there.setdefault((base, after[name]), name)
            if other != name and (name in placement or other in placement):
                found.append(f"the copies {other!r} and {name!r} would both be on {after[name]!r}")
    return found


def _full(now: Situation, plan: Plan, moves: Mapping[str, str]) -> list[str]:
    """Return a sentence for each host on which moves would bring more state together than it can hold."""
    memory = {name: host.memory for name, host in now.seen.cluster.hosts.items() if math.isfinite(host.memory)}
    operators = (plan.network or now.network).operators
    kept = dict.fromkeys(sorted(memory.keys() & set(moves.values())), 0.0)
    if not kept:
        return []
    for name, host in {**now.seen.placement, **moves}.items():
        if host in kept:
            kept[host] += operators[base_name(name)].state or 0.0
    said = "{} would keep {} of state and has memory for {}"
    full = [host for host, size in kept.items() if size > memory[host]]
    return [said.format(host, size_text(kept[host]), size_text(memory[host])) for host in full]


def _crowded(now: Situation, plan: Plan, moves: Mapping[str, str]) -> list[str]:
    """Return a sentence for each host that moves fill beyond what it can work off."""
    added = [host.name for host in plan.add]
    if any(host in added for host in moves.values()):
        return []
    keep = now.seen.keep if plan.keep is None else plan.keep
    before = now.host_load(now.where(), keep).mean(axis=1) / now.usable
    after = now.host_load(now.where(moves), keep).mean(axis=1) / now.usable
    return [
        f"{name} would have to do {share:.2f} times what it can work off"
        for name, share, old in zip(now.hosts, after, before, strict=True)
        if name in moves.values() and share > 1 + 1e-9 and share > before.max() - 1e-9 and share > old
    ]
