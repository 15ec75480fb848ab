"""Windows whose rows wait, since an input that their watermark follows has had no row yet."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.latency.ways import upstream
from penstock.network import Network


def held_back(network: Network, arrived: Mapping[str, int]) -> dict[str, list[str]]:
    """Return, by operator whose windows hold rows, the sources with event time that they wait for.

    Parameters
    ----------
    arrived
        Rows by stream.
    """
    silent = {
        name: {stream.reader for stream in network.outputs(name)}
        for name, source in network.sources.items()
        if source.time is not None and not any(arrived.get(stream.name) for stream in network.outputs(name))
    }
    found = {}
    for name, above in upstream(network).items():
        rows = sum(arrived.get(stream.name, 0) for stream in network.inputs(name))
        waits = sorted(source for source, readers in silent.items() if readers & above)
        if network.operators[name].window and rows and waits:
            found[name] = waits
    return found
