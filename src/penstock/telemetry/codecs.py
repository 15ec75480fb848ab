"""Opening the files of event logs: plain, or compressed by one of Spark's codecs, recognised by their first bytes.

Everything is a stream of blocks, so that memory stays bounded whatever the size of a log. A stream that was cut off
(the application still runs, or was killed) gives what is whole in it, and then raises `Truncated`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.telemetry.bytestream import Ahead, Readable, Truncated
from penstock.telemetry.chunks import SNAPPY, lz4_blocks, snappy_chunks
from penstock.telemetry.streams import stream

BLOCK = 4 * 2**20
"""Bytes that are read at a time."""


def blocks(file: Readable, size: int = BLOCK) -> Iterator[bytes]:
    """Iterate over the uncompressed bytes of a file, block by block.

    Raises
    ------
    Truncated
        After the last block that could be read, if the stream is cut off or damaged, or compressed by a codec that is
        not known (``lzf``).
    """
    ahead = Ahead(file)
    opened = next((make for magic, make in _CODECS if ahead.peek(len(magic)) == magic), _plain)
    yield from opened(ahead, size)


def _plain(file: Ahead, size: int) -> Iterator[bytes]:
    while block := file.read(size):
        yield block


def _unknown(file: Ahead, size: int) -> Iterator[bytes]:
    raise Truncated("it is compressed by lzf, which penstock does not read: set spark.eventLog.compression.codec=zstd")
    yield b""


_CODECS: tuple[tuple[bytes, Callable[[Ahead, int], Iterator[bytes]]], ...] = (
    (b"\x28\xb5\x2f\xfd", stream("zstd")),
    (b"\x1f\x8b", stream("gzip")),
    (b"\x04\x22\x4d\x18", stream("lz4")),
    (b"BZh", stream("bz2")),
    (b"LZ4Block", lz4_blocks),
    (SNAPPY, snappy_chunks),
    (b"ZV", _unknown),
)
