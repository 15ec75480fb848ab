"""Which operators run in Spark's real-time mode: those that it takes, as far as their rows have come that way."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from penstock.cluster import SparkSettings
from penstock.latency.fragments import fragments, makes_rows
from penstock.network import Network, Operator

SOURCE = "kafka"
"""The only format that real-time mode reads and writes."""

SAID = ("topic", "key", "value")
"""Options of a sink that say what its messages are. Others are the writer's, of which a query has only one."""

BROKERS = "kafka.bootstrap.servers"
"""The option of a source that is not on the cluster's Kafka."""

UNBOUNDED = ("maxoffsetspertrigger", "minoffsetspertrigger", "minpartitions")
"""Options of a source, in lower case, that say how much a batch reads."""

REFUSED: Mapping[str, str] = {
    "join": "is a join of two streams",
    "aggregate": "is a window, whose results appear when it closes",
    "python": "is a Python function",
}
"""Kinds that real-time mode does not take, and why."""


def batched(network: Network, settings: SparkSettings) -> dict[str, str]:
    """Return the operators that run in micro-batches, each with the reason, under a cluster's settings.

    Real-time mode reads and writes topics only, and of the operators it takes filters, maps and unions. What stands
    behind a micro-batch gets its rows in batches, and runs in micro-batches itself. Formats count where the network
    could run on Spark at all: where each source names one.
    """
    if settings.mode != "real-time":
        return dict.fromkeys(network.operators, "the cluster's mode is micro-batch")
    runs = all(source.format is not None for source in network.sources.values())
    found: dict[str, str] = {}
    for name, operator in network.operators.items():
        why = _alone(operator) or (_outside(network, name) if runs else None)
        behind = next((given for given in operator.inputs if given in found), None)
        if why is None and behind is not None:
            why = f"reads {behind!r}, which runs in micro-batches"
        if why is not None:
            found[name] = why
    return found


def prompt_operators(network: Network, settings: SparkSettings) -> frozenset[str]:
    """Return the operators that run in real-time mode under a cluster's settings."""
    return frozenset(network.operators) - set(batched(network, settings))


@attrs.frozen
class Mode:
    """How one streaming query runs: ``why`` it runs in micro-batches, None in real-time mode."""

    query: str
    host: str
    operators: tuple[str, ...]
    why: str | None

    @property
    def name(self) -> str:
        """As a cluster file has it."""
        return "real-time" if self.why is None else "micro-batch"

    @property
    def says(self) -> str:
        """The mode in a line."""
        how = "runs in real-time mode" if self.why is None else f"runs in micro-batches: {self.why}"
        return f"query {self.query!r} on {self.host} {how}"


def modes(
    network: Network, placement: Mapping[str, str], settings: SparkSettings, *, once: bool = False
) -> tuple[Mode, ...]:
    """Return how the queries of a placed network run; ``once``: until all that is there now is delivered."""
    slow = batched(network, settings)
    if once:
        slow = dict.fromkeys(network.operators, "real-time mode has no end, as --once asks for")
    found = []
    for part in fragments(network, placement, real_time=frozenset(network.operators) - set(slow)):
        name = next((name for name in part.operators if name in slow), None)
        why = None if name is None else slow[name] if once else f"{name!r} {slow[name]}"
        found.append(Mode(part.name, part.host, part.operators, why))
    return tuple(found)


def _alone(operator: Operator) -> str | None:
    """Return why an operator cannot run in real-time mode wherever it stands."""
    if makes_rows(operator):
        return "makes several rows of one, which a restart could not tell apart"
    return REFUSED.get(operator.kind)


def _outside(network: Network, name: str) -> str | None:
    """Return which end of an operator is no topic."""
    for given in network.operators[name].inputs:
        source = network.sources.get(given)
        if source is not None and source.format != SOURCE:
            return f"reads {given!r}, whose format is {source.format}"
        if source is not None and "subscribe" not in source.options:
            return f"reads {given!r}, which does not name its topics by subscribe"
        for option in () if source is None else source.options:
            if option.lower() == BROKERS:
                return f"reads {given!r}, which names brokers of its own"
            if option.lower() in UNBOUNDED:
                return f"reads {given!r}, which has {option}, a bound that real-time mode does not take"
    for stream in network.outputs(name):
        sink = network.sinks.get(stream.reader)
        if sink is not None and sink.format != SOURCE:
            return f"feeds {sink.name!r}, which is no topic"
        if sink is not None and "topic" not in sink.options:
            return f"feeds {sink.name!r}, whose rows say their topic themselves"
        if sink is not None and set(sink.options) - set(SAID):
            return f"feeds {sink.name!r}, which has settings of its own"
    return None if network.outputs(name) else "feeds nothing"
