"""Where the files of a network's sources and sinks are: relative paths follow the folder in which penstock starts."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import attrs

from penstock.errors import InputError
from penstock.network import Network, Sink, Source
from penstock.spark.shipped.deliver import is_folder
from penstock.spark.shipped.place import LOCAL, Place, absolute, place_of, scheme_of

Part = TypeVar("Part", Source, Sink)


def paths_of(network: Network) -> dict[str, str]:
    """Return the folders of sources and sinks as URIs, by their keys in the network's file; see `uri_of`."""
    return {
        f"{table}.{name}.options.path": uri_of(part)
        for table, parts in (("sources", network.sources), ("sinks", network.sinks))
        for name, part in parts.items()
        if _has_files(part)
    }


def uri_of(part: Source | Sink) -> str:
    """Return a folder's URI: of a source a pattern, as Spark reads it, of a sink its name."""
    path = part.options["path"]
    try:
        return place_of(path).uri if isinstance(part, Sink) and scheme_of(path) in LOCAL else absolute(path)
    except ValueError as error:
        table = "sinks" if isinstance(part, Sink) else "sources"
        raise InputError(str(error), at=f"{table}.{part.name}.options.path") from None


def named(folder: str) -> Place:
    """Return the place of a run's folder.

    Raises
    ------
    InputError
        If nothing can be there.
    """
    try:
        return place_of(folder)
    except ValueError as error:
        raise InputError(str(error), file=folder, hint="name another folder") from None


def settled(network: Network, but: Collection[str] = ()) -> Network:
    """Return a network that means the same in every folder; sources called as in ``but`` are left as they are."""
    sources = [part if part.name in but else _settled(part) for part in network.sources.values()]
    sinks = [_settled(part) for part in network.sinks.values()]
    return Network.of(network.name, sources, network.operators.values(), sinks, network.file)


def _settled(part: Part) -> Part:
    if not _has_files(part):
        return part
    return attrs.evolve(part, options={**part.options, "path": uri_of(part)})


def _has_files(part: Source | Sink) -> bool:
    return is_folder(part.format, part.options)
