"""The compiled recursion; `penstock.advice.recursion` is the same in plain Python."""

from __future__ import annotations

from numba import njit

from penstock.advice.recursion import batches as plain

batches = njit(cache=True)(plain)
