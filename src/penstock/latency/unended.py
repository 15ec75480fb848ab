"""Sinks of which an estimate tells nothing, since no window before them ends while rates last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.latency.estimate import Quantiles
from penstock.latency.ways import upstream
from penstock.load import LoadModel


def behind_windows(loads: LoadModel) -> dict[str, frozenset[str]]:
    """Return the sinks behind windows that rows come to, each with the operators before it."""
    network = loads.network
    before, windows = upstream(network), {name for name, each in network.operators.items() if each.window is not None}

    def comes(sink: str) -> bool:
        return bool(loads.arrivals[loads.stream_index[f"{network.sinks[sink].input}->{sink}"]].any())

    ways = {name: before.get(sink.input, frozenset()) for name, sink in network.sinks.items()}
    return {name: way for name, way in ways.items() if way & windows and comes(name)}


def unended(sinks: Mapping[str, Quantiles], loads: LoadModel) -> tuple[str, ...]:
    """Return the sinks that nothing reaches since no window before them ends within the rates.

    Parameters
    ----------
    sinks
        What an estimate tells of each sink.
    loads
        What it is of.
    """
    return tuple(name for name in behind_windows(loads) if not sinks[name].weight)


def note_on(quiet: Sequence[str], duration: float) -> list[str]:
    """Return a note on sinks of which nothing is known under rates of so many seconds; none where there are none."""
    if not quiet:
        return []
    ends = f"no window before {', '.join(quiet)} ends within the rates of {duration:g} s"
    return [
        f"{ends}, for windows wait until late rows have come: latency there is unknown, give longer rates "
        "(--duration, or a file of --rates)"
    ]
