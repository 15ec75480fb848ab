"""Reading placements: from a document, a file or the command line."""

from __future__ import annotations

import os

from penstock.cluster.placement import Placement
from penstock.errors import InputError, locating
from penstock.files import Text, file_of


def parse_placement(document: object) -> Placement:
    """Build a placement from ``{"placement": {"operator": "host"}}``; other keys are ignored."""
    table = document.get("placement") if isinstance(document, dict) else None
    if not isinstance(table, dict):
        raise InputError('expected {"placement": {"operator": "host"}}', at="placement")
    for name, host in table.items():
        if not isinstance(host, str):
            raise InputError(f"expected the name of a host, got {host!r}", at=f"placement.{name}")
    return Placement(table)


def read_placement(given: str | os.PathLike[str]) -> Placement:
    """Read a placement from a JSON file, or inline from ``a=h1,b=h2``.

    Raises
    ------
    InputError
        If it is neither.
    """
    text = str(given)
    if file_of(text) is None:
        hosts: dict[str, str] = {}
        for item in text.split(","):
            name, equals, host = (part.strip() for part in item.partition("="))
            if not (name and equals and host):
                raise InputError(f"expected operator=host, got {item!r}", at="--placement", hint="e.g. a=h1,b=h2")
            if name in hosts:
                raise InputError(f"operator {name!r} is placed twice", at="--placement")
            hosts[name] = host
        return Placement(hosts)
    file = Text(given)
    with locating(file.name):
        return parse_placement(file.json())
