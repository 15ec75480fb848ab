"""Which windows a stream leads to, so that a drop can leave out whole ones (Tatbul et al., section 3).

A tuple less in a window makes its result wrong; a window less makes the answer a subset of the true one. Both engines
drop by this rule.
"""

from __future__ import annotations

from penstock.network.model import Network, Stream


def windows_behind(network: Network, stream: Stream) -> set[tuple[float, float]]:
    """Return length and slide (s) of the windows of the first aggregates that a stream leads to.

    An aggregate without a window counts as one of length 0.
    """
    if stream.reader not in network.operators:
        return set()
    reader = network.operators[stream.reader]
    if reader.kind == "aggregate":
        return {(reader.window or 0.0, reader.step)}
    found: set[tuple[float, float]] = set()
    for out in network.outputs(reader.name):
        found |= windows_behind(network, out)
    return found
