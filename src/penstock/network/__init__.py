"""WHAT runs: the acyclic graph of sources, operators and sinks, as data."""

from penstock.network.file import read_network
from penstock.network.meaning import meaning, reading
from penstock.network.model import Network, Operator, Sink, Source, Stream
from penstock.network.shapes import chain, chains, hybrid, tree
from penstock.network.stored import network_document, read_network_document

__all__ = [
    "Network",
    "Operator",
    "Sink",
    "Source",
    "Stream",
    "chain",
    "chains",
    "hybrid",
    "meaning",
    "network_document",
    "read_network",
    "read_network_document",
    "reading",
    "tree",
]
