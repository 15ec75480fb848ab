"""What a run on Spark has left in its folder, read without anything that takes time to import."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.cluster import Placement
from penstock.errors import InputError
from penstock.spark.shipped.place import place_of

if TYPE_CHECKING:
    from penstock.files import Document


def claimed(folder: str) -> Document | None:
    """Return what runs in a folder, if anything does.

    Raises
    ------
    InputError
        If it is no folder, or cannot be reached.
    """
    try:
        document: Document = json.loads((place_of(folder) / "run.json").read())
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        why = str(getattr(error, "strerror", None) or error).partition("\n")[0]
        raise InputError(f"cannot be read: {why}", file=folder, hint="name another --directory") from None
    return document


def placement_of(document: Document) -> Placement:
    """Return the placement that a folder's run has."""
    return Placement(document["placement"])


def hosts_of(document: Document) -> set[str]:
    """Return the hosts on which the units of a folder's run lie, also those that were attached to it."""
    return {host for unit in document.get("units", ()) for host in (unit["host"], *unit.get("copies", {}).values())}
