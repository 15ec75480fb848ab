"""Codecs whose streams may follow each other in a file: gzip, bzip2, zstd and LZ4's frames."""

from __future__ import annotations

import bz2
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from penstock.telemetry.bytestream import Ahead, Truncated, short

SIP = 2**18
"""Bytes that are decompressed at a time."""


def stream(name: str) -> Callable[[Ahead, int], Iterator[bytes]]:
    """Return what reads a codec whose streams may follow each other in a file."""

    def opened(file: Ahead, size: int) -> Iterator[bytes]:
        begin, errors = _decompressor(name)
        # Of little, because little may become much.
        unpack, packed = None, file.read(SIP)
        while packed:
            unpack = unpack or begin()
            try:
                block = unpack.decompress(packed)
            except errors as error:
                raise Truncated(f"its {name} stream is damaged ({short(error)})") from None
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
