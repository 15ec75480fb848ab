"""A network as a plain document, for programs: what is stored and read back is the same network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs

from penstock.files import Document
from penstock.network.model import Growth, Network, Operator, Sink, Source

Row = TypeVar("Row", Source, Operator, Sink)


def network_document(network: Network) -> Document:
    """Return a network as a plain document, every value as it is."""
    return {
        "name": network.name,
        "sources": [attrs.asdict(source) for source in network.sources.values()],
        "operators": [attrs.asdict(operator) for operator in network.operators.values()],
        "sinks": [attrs.asdict(sink) for sink in network.sinks.values()],
    }


def read_network_document(document: Document, file: str | None = None) -> Network:
    """Return the network of a document, which may leave out what is as usual; messages name the ``file``."""

    def row(kind: Callable[..., Row], table: Document) -> Row:
        given: Document = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
        if given.get("growth") is not None:
            given["growth"] = Growth(**given["growth"])
        return kind(**given)

    return Network.of(
        document["name"],
        [row(Source, each) for each in document["sources"]],
        [row(Operator, each) for each in document["operators"]],
        [row(Sink, each) for each in document["sinks"]],
        file,
    )
