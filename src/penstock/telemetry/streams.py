"""Codecs whose streams may follow each other in a file: gzip, bzip2, zstd and LZ4's frames."""

from __future__ import annotations

import bz2
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from penstock.telemetry.bytestream import Ahead, Truncated, short

SIP = 2**18
"""Compressed bytes that are read at a time."""


def stream(name: str) -> Callable[[Ahead, int], Iterator[bytes]]:
    """Return what reads a codec whose streams may follow each other in a file."""

    def opened(file: Ahead, size: int) -> Iterator[bytes]:
        begin, errors = _decompressor(name)
        unpack, packed, block = None, file.read(SIP), b""
        # Little may become much: what is full may not be all.
        while packed or (unpack is not None and len(block) == size):
            unpack = unpack or begin()
            try:
                block = unpack.decompress(packed, size)
            except errors as error:
                raise Truncated(f"its {name} stream is damaged ({short(error)})") from None
            if block:
                yield block
            packed = b""
            if unpack.eof:
                packed, unpack = unpack.unused_data, None
            if unpack is None or len(block) < size:
                packed = packed or file.read(SIP)
        if unpack is not None:
            raise Truncated(f"its {name} stream is cut off")

    return opened


class _Decompressor(Protocol):
    """One stream, as it is decompressed, so much at a time; what was not used of the data is kept."""

    def decompress(self, data: bytes, max_length: int) -> bytes: ...

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...


class _Gzip:
    """One stream of gzip, whose own decompressor leaves it to others to keep what was not used."""

    def __init__(self) -> None:
        self._unpack = zlib.decompressobj(31)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._unpack.decompress(self._unpack.unconsumed_tail + data, max_length)

    @property
    def eof(self) -> bool:
        return self._unpack.eof

    @property
    def unused_data(self) -> bytes:
        return self._unpack.unused_data


def _decompressor(name: str) -> tuple[Callable[[], _Decompressor], tuple[type[Exception], ...]]:
    """Return what begins to decompress a stream, and the errors of a damaged one."""
    match name:
        case "gzip":
            return _Gzip, (zlib.error,)
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
