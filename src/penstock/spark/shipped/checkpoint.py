"""What Spark's checkpoint of a query says. Nothing else reads Spark's own files."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.spark.shipped.place import Place

if TYPE_CHECKING:
    from penstock.files import Document


def begun_and_ended(checkpoint: Place) -> tuple[int, int]:
    """Return the last batch that a query has begun, and the last that it has ended; -1 for none."""
    return _last(checkpoint / "offsets"), _last(checkpoint / "commits")


def offsets(checkpoint: Place, batch: int) -> list[Document]:
    """Return what a batch was planned with: Spark's notes, and the offset of each source that says it in JSON.

    Raises
    ------
    FileNotFoundError
        If Spark has removed it, or it is not planned.
    """
    lines = (checkpoint / "offsets" / str(batch)).read().decode().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def own_offsets(lines: Sequence[Document]) -> dict[str, Document]:
    """Return the offsets of logs and scheduled sources, by their names; the others are Spark's own."""
    return {name: line for line in lines[1:] if isinstance(name := line.get("log", line.get("source")), str)}


def topic_offsets(lines: Sequence[Document], topic: str) -> list[dict[str, int]]:
    """Return the offsets of a topic's partitions, for each place in the plan that reads it."""
    # Topics may be called like keys of other offsets.
    return [line[topic] for line in lines[1:] if isinstance(line.get(topic), dict)]


def files_seen(checkpoint: Place, number: int) -> int:
    """Return how many files a query has listed of the source that has a number among those that it reads."""
    return len(files_listed(checkpoint, number))


def files_listed(checkpoint: Place, number: int, since: int = 0) -> list[tuple[str, int, float]]:
    """Return the files that a query has listed of a source: URI, at which offset, and when they came (s since 1970).

    Parameters
    ----------
    number
        Of the source, among those that the query reads.
    since
        Least offset of interest.
    """
    place = checkpoint / "sources" / str(number)
    heads = {name: int(name.partition(".")[0]) for name in place.names() if name[0].isdigit()}
    whole = max((at for name, at in heads.items() if name.endswith(".compact")), default=-1)
    # A compact file holds all that was listed before it.
    kept = [
        name
        for name, at in heads.items()
        if at >= since and (at > whole or (at == whole and name.endswith(".compact")))
    ]
    return [row for name in kept for row in _listed_in(place / name, since)]


def _listed_in(file: Place, since: int) -> Iterator[tuple[str, int, float]]:
    # The newest are last: what was listed before need not be parsed again.
    for line in reversed(file.read().splitlines()):
        if line.startswith(b"{"):
            row = json.loads(line)
            if row["batchId"] < since:
                return
            yield row["path"], row["batchId"], row["timestamp"] / 1000


def read_upto(checkpoint: Place, batch: int, number: int) -> int:
    """Return the offset up to which a batch reads the source with a number, files or a clock; -1 for none.

    Raises
    ------
    FileNotFoundError
        If Spark has removed it, or it is not planned.
    """
    lines = (checkpoint / "offsets" / str(batch)).read().decode().splitlines()[2:]
    line = lines[number] if number < len(lines) else "-"
    if line.isdecimal():
        return int(line)
    return int(json.loads(line)["logOffset"]) if line.startswith("{") else -1


def source_began(checkpoint: Place, number: int) -> float | None:
    """Return when a query has begun to read a source of numbers (s since 1970); None if it has not."""
    try:
        text = (checkpoint / "sources" / str(number) / "0").read().decode().split()[-1]
    except FileNotFoundError:
        return None
    return int(text) / 1000 if text.isdecimal() else None


def watermark(checkpoint: Place, batch: int) -> int | None:
    """Return the watermark (µs) under which a batch runs; None while there is none."""
    millis = offsets(checkpoint, batch)[0].get("batchWatermarkMs", 0)
    return int(millis) * 1000 if millis else None


def forget_commit(checkpoint: Place, batch: int) -> None:
    """Let Spark do its last ended batch again; a batch that it has planned next is planned anew."""
    begun, _ = begun_and_ended(checkpoint)
    for number in range(batch + 1, begun + 1):
        _unlink(checkpoint / "offsets", str(number))
    _unlink(checkpoint / "commits", str(batch))


def forget_batch(checkpoint: Place, batch: int) -> None:
    """Let Spark forget a query's last ended batch: what was in it comes again, in batches as they then are."""
    forget_commit(checkpoint, batch)
    _unlink(checkpoint / "offsets", str(batch))


def clear_unnoted(checkpoint: Place) -> None:
    """Remove what a query has left that has noted no batch: Spark begins the first one only in empty folders.

    A host that died while it wrote its first commit leaves a half-written file there.
    """
    if begun_and_ended(checkpoint) == (-1, -1):
        for name in ("commits", "state"):
            (checkpoint / name).remove()


def border(checkpoint: Place, batch: int, head: str, lines: Sequence[str]) -> None:
    """Write a checkpoint whose last ended batch is a given one.

    Parameters
    ----------
    head
        Spark's notes on the batch, as JSON.
    lines
        The offset of each place in the plan that reads something; ``-`` for none yet.
    """
    _identify(checkpoint)
    for number in range(max(0, batch - 1), batch + 1):
        # Spark also asks for the one before the last.
        (checkpoint / "offsets" / str(number)).replace("\n".join(["v1", head, *lines]).encode())
    until = json.loads(head).get("batchWatermarkMs", 0)
    (checkpoint / "commits" / str(batch)).replace(f'v1\n{{"nextBatchWatermarkMs":{until}}}'.encode())


def branch(checkpoint: Place, target: Place, batch: int) -> None:
    """Write another query's checkpoint, as one is with no more than a batch begun; of batch -1 there is nothing.

    Spark may go on writing in the first one.
    """
    target.remove()
    if batch < 0:
        return
    checkpoint.copy(target)
    for number in range(batch + 1, max(begun_and_ended(target)) + 1):
        _unlink(target / "offsets", str(number))
        _unlink(target / "commits", str(number))
    _unlink(target, "metadata")
    _identify(target)


def _identify(checkpoint: Place) -> None:
    """Let a checkpoint be of a new query."""
    (checkpoint / "metadata").replace(json.dumps({"id": str(uuid.uuid4())}).encode())


def _unlink(folder: Place, name: str) -> None:
    (folder / name).remove()
    (folder / f".{name}.crc").remove()


def _last(folder: Place) -> int:
    return max(folder.numbers(), default=-1)
