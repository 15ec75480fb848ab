"""Opening the files of event logs: plain, or compressed by one of Spark's codecs, recognised by their first bytes.

Everything is a stream of blocks, so that memory stays bounded whatever the size of a log. A stream that was cut off
(the application still runs, or was killed) gives what is whole in it, and then raises `Truncated`.
"""

from __future__ import annotations

import bz2
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

BLOCK = 4 * 2**20
"""Bytes that are read at a time."""

SIP = 2**18
"""Bytes that are decompressed at a time."""

LARGEST = 64 * 2**20
"""Bytes of one compressed chunk that are still believed; Spark writes chunks of 32 to 64 kB."""


class Readable(Protocol):
    """What can be read from: a file, or what counts what is read from one."""

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes, none at the end."""
        ...


class Truncated(Exception):
    """The stream ends, or breaks, in the middle; the message says how."""


def blocks(file: Readable, size: int = BLOCK) -> Iterator[bytes]:
    """Iterate over the uncompressed bytes of a file, block by block.

    Raises
    ------
    Truncated
        After the last block that could be read, if the stream is cut off or damaged, or compressed by a codec that is
        not known (``lzf``).
    """
    ahead = _Ahead(file)
    opened = next((make for magic, make in _CODECS if ahead.peek(len(magic)) == magic), _plain)
    yield from opened(ahead, size)


class _Ahead:
    """A file whose first bytes can be looked at before they are read; reads are as long as asked, but at the end."""

    def __init__(self, file: Readable) -> None:
        self.file, self.kept = file, b""

    def peek(self, count: int) -> bytes:
        if len(self.kept) < count:
            self.kept += self._whole(count - len(self.kept))
        return self.kept[:count]

    def read(self, count: int = -1) -> bytes:
        if count < 0:
            found, self.kept = self.kept, b""
            return found + self.file.read()
        found, self.kept = self.kept[:count], self.kept[count:]
        return found + self._whole(count - len(found)) if len(found) < count else found

    def _whole(self, count: int) -> bytes:
        parts = []
        while count > 0 and (part := self.file.read(count)):
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def _plain(file: _Ahead, size: int) -> Iterator[bytes]:
    while block := file.read(size):
        yield block


def _stream(name: str) -> Callable[[_Ahead, int], Iterator[bytes]]:
    """Return what reads a codec whose streams may follow each other in a file."""

    def opened(file: _Ahead, size: int) -> Iterator[bytes]:
        begin, errors = _decompressor(name)
        # Of little, because little may become much.
        unpack, packed = None, file.read(SIP)
        while packed:
            unpack = unpack or begin()
            try:
                block = unpack.decompress(packed)
            except errors as error:
                raise Truncated(f"its {name} stream is damaged ({_short(error)})") from None
            if block:
                yield block
            packed = unpack.unused_data if unpack.eof else b""
            if unpack.eof:
                unpack = None
            packed = packed or file.read(SIP)
        if unpack is not None:
            raise Truncated(f"its {name} stream is cut off")

    return opened


class _Decompressor(Protocol):
    """One stream, as it is decompressed."""

    def decompress(self, data: bytes, /) -> bytes: ...

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...


def _decompressor(name: str) -> tuple[Callable[[], _Decompressor], tuple[type[Exception], ...]]:
    """Return what begins to decompress a stream, and the errors of a damaged one."""
    match name:
        case "gzip":
            return partial(zlib.decompressobj, 31), (zlib.error,)
        case "bz2":
            return bz2.BZ2Decompressor, (OSError, ValueError)
        case "zstd":
            if sys.version_info >= (3, 14):
                from compression import zstd
            else:
                from backports import zstd

            return zstd.ZstdDecompressor, (zstd.ZstdError,)
        case _:
            import lz4.frame

            return lz4.frame.LZ4FrameDecompressor, (RuntimeError,)


def _short(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:80]


def _lz4_blocks(file: _Ahead, size: int) -> Iterator[bytes]:
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
                raise Truncated(f"its lz4 stream is damaged ({_short(error)})") from None


def _snappy_chunks(file: _Ahead, size: int) -> Iterator[bytes]:
    """Read the format of snappy-java's ``SnappyOutputStream``, which is that of Spark's ``snappy`` codec."""
    import cramjam

    while start := file.peek(4):
        if start == _SNAPPY[:4]:
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
            raise Truncated(f"its snappy stream is damaged ({_short(error)})") from None


def _unknown(file: _Ahead, size: int) -> Iterator[bytes]:
    raise Truncated("it is compressed by lzf, which penstock does not read: set spark.eventLog.compression.codec=zstd")
    yield b""


_SNAPPY = b"\x82SNAPPY\x00"
_CODECS: tuple[tuple[bytes, Callable[[_Ahead, int], Iterator[bytes]]], ...] = (
    (b"\x28\xb5\x2f\xfd", _stream("zstd")),
    (b"\x1f\x8b", _stream("gzip")),
    (b"\x04\x22\x4d\x18", _stream("lz4")),
    (b"BZh", _stream("bz2")),
    (b"LZ4Block", _lz4_blocks),
    (_SNAPPY, _snappy_chunks),
    (b"ZV", _unknown),
)
