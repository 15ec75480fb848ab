"""The numbers by which a run's arrays know hosts, operators with their copies, streams and sinks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from penstock.cluster import Cluster, Placement, copies_of
from penstock.network import Network


def key(*words: object) -> np.uint64:
    """Return 64 bits that belong to these words, on every machine."""
    text = "\0".join(map(str, words)).encode()
    return np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little"))


def mixed(x: int) -> int:
    """Return the hash of 64 bits that the kernel calls ``mix``."""
    low = (1 << 64) - 1
    x = (x + 0x9E3779B97F4A7C15) & low
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & low
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & low
    return x ^ (x >> 31)


@attrs.frozen(eq=False)
class Numbers:
    """What stands behind the numbers of one run.

    Attributes
    ----------
    placed
        The host of each unit: of an operator, or of each of its copies.
    copies
        The units of each operator.
    hosts, units, streams
        Number of each, in order.
    seed
        Of everything random.
    """

    network: Network
    placed: Mapping[str, str]
    copies: Mapping[str, Sequence[str]]
    hosts: Mapping[str, int]
    units: Mapping[str, int]
    streams: Mapping[str, int]
    seed: int

    @classmethod
    def of(cls, network: Network, cluster: Cluster, placement: Mapping[str, str], seed: int) -> Numbers:
        """Check a placement, and number everything in the order of the files.

        Raises
        ------
        InputError
            If the placement does not fit the network and the cluster.
        """
        placed = Placement(placement).check(network.operators, cluster.hosts)
        copies = copies_of(placed)
        units = [copy for name in network.operators for copy in copies[name]]
        return cls(
            network=network,
            placed=placed,
            copies=copies,
            hosts={name: index for index, name in enumerate(cluster.hosts)},
            units={name: index for index, name in enumerate(units)},
            streams={stream.name: index for index, stream in enumerate(network.streams)},
            seed=seed,
        )

    @property
    def replicated(self) -> bool:
        """Whether an operator has several copies."""
        return any(len(copies) > 1 for copies in self.copies.values())
