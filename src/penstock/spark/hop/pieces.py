"""The rows of a batch as messages: record batches that brokers take, and what their headers say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.hop import PIECE_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_BYTES = 800_000
"""Bytes of a message before they are compressed, unless a single row has more; brokers take a million unless told."""


def pieces(rows: pa.Table, size: int) -> list[pa.RecordBatch]:
    """Return a table's rows as record batches, none of more bytes than ``size`` unless a single row has more."""
    if rows.num_rows == 0:
        return []
    most = max(1, min(PIECE_ROWS, size * rows.num_rows // max(1, rows.nbytes)))
    parts = rows.combine_chunks().to_batches(max_chunksize=most)
    return [piece for part in parts if part.num_rows for piece in _halved(part, size)]


def _halved(part: pa.RecordBatch, most: int) -> list[pa.RecordBatch]:
    """Return rows as pieces: where large ones are together, the average tells too little."""
    import pyarrow as pa

    size = pa.ipc.get_record_batch_size(part) + part.schema.serialize().size
    if part.num_rows == 1 or size <= most:
        return [part]
    middle = part.num_rows // 2
    return [*_halved(part.slice(0, middle), most), *_halved(part.slice(middle), most)]


def packed(piece: pa.RecordBatch) -> bytes:
    """Return a record batch as bytes."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, piece.schema) as writer:
        writer.write_batch(piece)
    return bytes(sink.getvalue().to_pybytes())


def stimuli(piece: pa.RecordBatch) -> dict[str, int]:
    """Return between which stimulus times (µs) the rows of a record batch lie."""
    import pyarrow.compute as pc

    ends = pc.min_max(piece.column("__stimulus")).as_py()
    return {} if ends["min"] is None else {"stimulus": ends["min"], "latest": ends["max"]}
