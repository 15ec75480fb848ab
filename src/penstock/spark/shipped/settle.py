"""All files of a batch or none: what is going to be shown is written down first, and shown after a kill."""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.spark.shipped.deliver import Delivery, is_folder, noted, written_in
from penstock.spark.shipped.gate import committing, owner_of
from penstock.spark.shipped.place import Place, place_of
from penstock.spark.shipped.spec import WriterSpec

if TYPE_CHECKING:
    from penstock.files import Document

INTENTS = "intents"


def intent_of(folder: Place, query: str, batch: int) -> Place:
    """Return the place of what a batch is about to show."""
    return folder / INTENTS / query / f"{batch:012d}.json"


@contextlib.contextmanager
def intend(spec: WriterSpec, batch: int, delivered: Sequence[Delivery], manifest: Document) -> Iterator[None]:
    """Write down which files a batch shows, while it shows them; nothing where there are none."""
    if not any(delivery.moves for delivery in delivered):
        yield
        return
    for delivery in delivered:
        delivery.begin()
    said = {
        "moves": [[file.uri, target.uri] for delivery in delivered for file, target in delivery.moves],
        "notes": [delivery.note.uri for delivery in delivered if delivery.moves],
        "left": [place.uri for delivery in delivered for place in delivery.left],
        "manifest": manifest,
    }
    intent = intent_of(spec.folder, spec.query, batch)
    intent.replace(json.dumps(said).encode())
    yield
    intent.remove()


def settle(spec: WriterSpec, batch: int, manifest: Place, *, computed: bool = False) -> None:
    """Show what is left of a batch that was cut off while it was shown, and remove what no batch will show.

    ``computed``: this generation has computed the batch already, so that its own files stay.

    Raises
    ------
    Fenced
        If another generation of the unit delivers: what is left is its own to show.
    """
    with committing(spec.folder, spec.query, spec.generation):
        if not manifest.exists():
            try:
                said = json.loads(intent_of(spec.folder, spec.query, batch).read())
            except FileNotFoundError:
                pass
            else:
                _finish(said, manifest)
        (spec.folder / INTENTS / spec.query).remove()
        _clear(spec, spec.generation - computed)


def _clear(spec: WriterSpec, last: int) -> None:
    """Remove what generations up to the last one have prepared: later ones may be at work, as are those that follow."""
    following = {*owner_of(spec.folder, spec.query)["following"].values()}
    for number in spec.asides.numbers():
        if number <= last and number not in following:
            (spec.asides / str(number)).remove()
    for way in spec.sinks:
        if is_folder(way.format, way.options):
            folder = place_of(way.options["path"])
            for name in folder.names():
                generation = written_in(way, name)
                if generation is not None and generation <= last and generation not in following:
                    (folder / name).remove()


def _finish(said: Document, manifest: Place) -> None:
    for file, target in said["moves"]:
        # Those that were moved before are not there any more.
        if place_of(file).exists():
            place_of(file).move(place_of(target))
        elif not place_of(target).exists():
            # A query that goes on without it would lose rows, and one that does the batch again may repeat some.
            raise RuntimeError(f"neither {target} nor {file} is there: if you took one away, put it back")
    for name in said["notes"]:
        _restamp(place_of(name))
    manifest.publish(json.dumps({**said["manifest"], "visible": time.time()}).encode())
    for name in said["left"]:
        place_of(name).remove()


def _restamp(note: Place) -> None:
    """Note rows as visible from now on."""
    import numpy as np

    note.replace(noted(np.load(io.BytesIO(note.read()))[1:]))
