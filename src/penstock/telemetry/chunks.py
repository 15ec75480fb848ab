"""The chunks of Java's own formats of LZ4 and Snappy, which Spark writes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from penstock.telemetry.bytestream import LARGEST, Ahead, Truncated, short

SNAPPY = b"\x82SNAPPY\x00"
"""What a stream of snappy-java begins with."""


def lz4_blocks(file: Ahead, size: int) -> Iterator[bytes]:
    """Read the format of lz4-java's ``LZ4BlockOutputStream``, which is that of Spark's ``lz4`` codec."""
    import lz4.block

    head = struct.Struct("<8sBiiI")
    while header := file.read(head.size):
        if len(header) < head.size:
            raise Truncated("its lz4 stream is cut off")
        magic, token, packed, plain, _ = head.unpack(header)
        if magic != b"LZ4Block" or not (0 <= packed <= LARGEST and 0 <= plain <= LARGEST):
            raise Truncated("its lz4 stream is damaged")
        body = file.read(packed)
        if len(body) < packed:
            raise Truncated("its lz4 stream is cut off")
        if plain:
            try:
                yield body if token & 0xF0 == 0x10 else lz4.block.decompress(body, uncompressed_size=plain)
            except (lz4.block.LZ4BlockError, ValueError) as error:
                raise Truncated(f"its lz4 stream is damaged ({short(error)})") from None


def snappy_chunks(file: Ahead, size: int) -> Iterator[bytes]:
    """Read the format of snappy-java's ``SnappyOutputStream``, which is that of Spark's ``snappy`` codec."""
    import cramjam

    while start := file.peek(4):
        if start == SNAPPY[:4]:
            file.read(16)
            continue
        if len(start) < 4:
            raise Truncated("its snappy stream is cut off")
        (packed,) = struct.unpack(">i", file.read(4))
        if not 0 < packed <= LARGEST:
            raise Truncated("its snappy stream is damaged")
        body = file.read(packed)
        if len(body) < packed:
            raise Truncated("its snappy stream is cut off")
        try:
            if cramjam.snappy.decompress_raw_len(body) > LARGEST:
                raise Truncated("its snappy stream is damaged")
            yield bytes(cramjam.snappy.decompress_raw(body))
        except cramjam.DecompressionError as error:
            raise Truncated(f"its snappy stream is damaged ({short(error)})") from None
