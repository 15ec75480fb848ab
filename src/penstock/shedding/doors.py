"""What arrives at each host of a running system, and what its hosts then decide, each from its own table."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.cluster import base_name
from penstock.network import Network
from penstock.shedding.host_table import HostTable


def decided(
    network: Network, tables: Mapping[str, HostTable], entered: Mapping[str, float], arrived: Mapping[str, float]
) -> dict[str, float]:
    """Return the keep fractions of all streams that the hosts set, those below 1.

    A stream between hosts is thinned by both; the second sees what the first lets through.

    Parameters
    ----------
    tables
        By host; a host that is not named keeps everything.
    entered, arrived
        Tuples/s by source, and by stream before its drop operator.
    """
    keep: dict[str, float] = {}
    reads = {stream.name: stream.reader for stream in network.streams}
    for table in _downwards(tables):
        rates = {}
        for name in table.inputs:
            writer = name.partition("@")[0]
            if writer in network.sources:
                rates[name] = entered.get(writer, 0.0)
                continue
            own = {stream for names in table.thins for stream in names}
            here = [s for s in own if s.startswith(f"{writer}->") and base_name(reads[s]) in network.operators]
            # A tuple crosses once, however many read it here; the fullest of the streams tells how many.
            rates[name] = max((arrived.get(s, 0.0) * keep.get(s, 1.0) for s in here), default=0.0)
        for stream, share in table.decide(rates).items():
            keep[stream] = keep.get(stream, 1.0) * share
    return keep


def _downwards(tables: Mapping[str, HostTable]) -> list[HostTable]:
    """Return tables, parents before children: who sends to a host decides before it."""
    parent = {
        stream.partition("@")[2]: host
        for host, table in tables.items()
        for stream in table.streams
        if "@" in stream and "->" not in stream
    }

    def depth(host: str) -> int:
        return 1 + depth(parent[host]) if host in parent else 0

    return [tables[host] for host in sorted(tables, key=depth)]
