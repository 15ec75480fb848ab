"""Results as bytes, to come back from other machines: data and no code, so that nothing that a host says is run."""

from __future__ import annotations

import io

import msgspec
import numpy as np

from penstock.simulation.result import SimulationResult


def packed(result: SimulationResult) -> bytes:
    """Return a result as MessagePack; its arrays are in numpy's own format."""
    return msgspec.msgpack.encode(result, enc_hook=_saved)


def unpacked(content: bytes) -> SimulationResult:
    """Return the result that `packed` has written.

    Raises
    ------
    msgspec.ValidationError
        If it is something else.
    """
    return msgspec.msgpack.decode(content, type=SimulationResult, dec_hook=_loaded)


def _saved(value: object) -> bytes:
    if not isinstance(value, np.ndarray):
        raise NotImplementedError(f"{type(value).__name__} is no part of a result")
    file = io.BytesIO()
    np.save(file, value, allow_pickle=False)
    return file.getvalue()


def _loaded(_shape: type, content: bytes) -> object:
    return np.load(io.BytesIO(content), allow_pickle=False)
