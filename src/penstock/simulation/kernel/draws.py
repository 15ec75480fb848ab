"""Draws of the kernel: hashes of a key and of a tuple's identity, and the service times made of them."""

from __future__ import annotations

import math

import numpy as np

from penstock.simulation.kernel.routine import Hash, routine
from penstock.simulation.state import CONSTANT, EXPONENTIAL, GAMMA

OTHER = np.uint64(0x9E3779B97F4A7C15)
"""Turns a key into that of another draw of the same tuple."""
_B, _C = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_27, _30, _31, _11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)


@routine
def mix(x: Hash) -> Hash:
    """Return a hash of 64 bits (the finaliser of SplitMix64)."""
    x = x + OTHER
    x = (x ^ (x >> _30)) * _B
    x = (x ^ (x >> _27)) * _C
    return x ^ (x >> _31)


@routine
def uniform(key: Hash, identity: Hash) -> float:
    """Return the number in [0, 1) that belongs to a key and an identity."""
    return float(mix(identity ^ key) >> _11) * 1.1102230246251565e-16


@routine
def duration(kind: int, shape: float, share: float, mean: float, key: Hash, identity: Hash) -> float:
    """Return a service time (s) of the given mean: constant, exponential, gamma or two-point."""
    if kind == CONSTANT:
        return mean
    if kind == EXPONENTIAL:
        return -mean * math.log(1.0 - uniform(key, identity))
    if kind != GAMMA:
        value = mean / (share * shape + 1.0 - share)
        return value * shape if uniform(key, identity) < share else value
    # Marsaglia and Tsang (2000); a shape below 1 is drawn at shape + 1 and scaled by a power.
    raised = shape if shape >= 1.0 else shape + 1.0
    d = raised - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    draw = identity
    while True:
        draw = mix(draw ^ key)
        radius = math.sqrt(-2.0 * math.log(1.0 - uniform(key, draw)))
        draw = mix(draw ^ key)
        x = radius * math.cos(2.0 * math.pi * uniform(key, draw))
        draw = mix(draw ^ key)
        u = 1.0 - uniform(key, draw)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
            break
    value = d * v
    if shape < 1.0:
        value *= (1.0 - uniform(key, mix(draw ^ key))) ** (1.0 / shape)
    return mean * value / shape
