"""What of a network the answers on Spark depend on."""

from __future__ import annotations

import attrs

from penstock.files import Document
from penstock.network.model import Network, Operator, Sink, Source

HOW = frozenset(
    (
        "failondataloss", "fetchoffset.numretries", "fetchoffset.retryintervalms", "groupidprefix",
        "ignoremissingfiles", "kafkaconsumer.polltimeoutms", "maxbytespertrigger", "maxcachedfiles", "maxfileage",
        "maxfilespertrigger", "maxoffsetspertrigger", "maxrecordsperpartition", "maxtriggerdelay",
        "minoffsetspertrigger", "minpartitions",
    )
)  # fmt: skip
"""Options of sources and sinks, in small letters, that say how they are read and written, and not what."""

MODELLED = ("arrivals", "cost", "emit", "folder", "growth", "host", "pin", "selectivity", "service", "state", "weight")
"""What the models ask, who decides, or where modules lie; of a delay, the selectivity says which rows leave."""


def meaning(network: Network) -> str:
    """Return a text that is the same for two networks that give the same answers, without what they cost."""
    tables = (network.sources, network.operators, network.sinks)
    return "\n".join([network.name, *(str(meant(part)) for table in tables for part in table.values())])


def meant(part: Source | Operator | Sink) -> Document:
    """Return what of a part of a network answers depend on."""
    told: Document = attrs.asdict(part)
    found = {key: value for key, value in told.items() if key not in MODELLED}
    if isinstance(part, Operator) and part.kind == "delay":
        found["selectivity"] = min(1.0, *(part.selectivity or (1.0,)))
    if "options" in found:
        found["options"] = {key: value for key, value in sorted(found["options"].items()) if not _only_how(key)}
    return found


def reading(network: Network) -> dict[str, dict[str, str]]:
    """Return the options of sources that say how they are read, in small letters, without those of clients."""
    found = {
        name: {option.lower(): value for option, value in sorted(source.options.items()) if option.lower() in HOW}
        for name, source in network.sources.items()
    }
    return {name: options for name, options in found.items() if options}


def _only_how(option: str) -> bool:
    name = option.lower()
    return name in HOW or name.startswith("kafka.")
