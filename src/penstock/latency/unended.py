"""Sinks of which an estimate tells nothing, since no window before them ends while rates last."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.latency.estimate import Quantiles
from penstock.latency.ways import upstream
from penstock.load import LoadModel


def unended(sinks: Mapping[str, Quantiles], loads: LoadModel) -> list[str]:
    """Return a note on sinks that nothing reaches since no window before them ends within the rates.

    Parameters
    ----------
    sinks
        What an estimate tells of each sink.
    loads
        What it is of.
    """
    network = loads.network
    before, windows = upstream(network), {name for name, each in network.operators.items() if each.window is not None}

    def comes(sink: str) -> bool:
        return bool(loads.arrivals[loads.stream_index[f"{network.sinks[sink].input}->{sink}"]].any())

    quiet = [
        name
        for name, row in sinks.items()
        if not row.weight
        and comes(name)
        and ({network.sinks[name].input, *before.get(network.sinks[name].input, ())} & windows)
    ]
    if not quiet:
        return []
    ends = f"no window before {', '.join(quiet)} ends within the rates of {loads.rates.duration:g} s"
    return [f"{ends}, for windows wait until late rows have come: latency there is unknown, give longer rates"]
