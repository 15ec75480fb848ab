"""Each host's feasible input table in use: own input rates in, keep fractions of own streams out.

A `HostTable` is a frozen value that needs nothing but itself: a host decides alone, also when nobody else answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import attrs
import numpy as np

from penstock.arrays import Numbers
from penstock.errors import InputError
from penstock.files import Document
from penstock.shedding import alone
from penstock.shedding.distributed import Made
from penstock.shedding.grid import best_below, indexed
from penstock.shedding.hosts import HostPart, Profile
from penstock.shedding.program import Matrix
from penstock.shedding.tables import packed, unpacked

FORMAT = "penstock host table"
VERSION = 1
ARRAYS = (
    "G", "S", "cost", "loads", "useful", "worthless",
    "group", "factor", "points", "score", "kept", "low", "first", "last", "most",
)  # fmt: skip


@attrs.frozen(eq=False)
class HostTable:
    """One host's table: see the module.

    Attributes
    ----------
    host
        Its name.
    inputs
        What arrives, as ``writer@host``: from the parent's operators, from sources that enter here, and (after them)
        announced: from sources that enter further down.
    streams
        Names of the host's arcs: see `HostPart`.
    thins
        The network's streams that each of them stands for.
    arrays
        ``G``, ``S``, ``cost``: the host's share of the program (see `HostPart`); ``loads``, ``useful``: of the subtree
        (see `Profile`); ``worthless`` streams; ``points``, ``score``, ``kept`` and the index: the rows.
    """

    host: str
    inputs: tuple[str, ...]
    streams: tuple[str, ...]
    thins: tuple[tuple[str, ...], ...]
    arrays: Mapping[str, Numbers]

    @property
    def version(self) -> str:
        """A name for this table; a table that answers otherwise has another."""
        state = hashlib.sha256(
            "\0".join(
                [self.host, *self.inputs, *self.streams, *(name for names in self.thins for name in names)]
            ).encode()
        )
        for name in ARRAYS:
            state.update(np.ascontiguousarray(self.arrays[name]).tobytes())
        return state.hexdigest()[:16]

    def __len__(self) -> int:
        return len(self.arrays["score"])

    def decide(self, rates: Mapping[str, float]) -> dict[str, float]:
        """Return the keep fraction of each stream that the host thins.

        A stream between hosts is thinned by its writer's host, for what that knows of the other one's table, and at the
        other one's door, for what arrives nevertheless: both fractions hold.

        Parameters
        ----------
        rates
            Of every input, in tuples/s, as measured where it arrives; of a source that enters further down, as
            announced by the host there.

        Raises
        ------
        InputError
            If an input has no rate.
        """
        missing = [name for name in self.inputs if name not in rates]
        if missing:
            raise InputError(f"host {self.host} needs the rate of {missing[0]}", at=f"hosts.{self.host}")
        given = np.array([rates[name] for name in self.inputs], float)
        return alone.shares(self.arrays, self.thins, given, best_below)

    def kept(self, rates: Matrix) -> Matrix:
        """Return the rate that each of the host's streams keeps, array (streams,), for input rates (inputs,)."""
        found: Matrix = alone.kept_rates(self.arrays, rates, best_below)
        return found

    def document(self) -> Document:
        """Return the table as plain JSON data; arrays are base64 of little-endian numbers."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "id": self.version,
            "host": self.host,
            "inputs": list(self.inputs),
            "streams": list(self.streams),
            "thins": [list(names) for names in self.thins],
            "arrays": {name: packed(self.arrays[name]) for name in ARRAYS},
        }

    @classmethod
    def of(cls, document: object) -> HostTable:
        """Return the table of a document that `document` made.

        Raises
        ------
        InputError
            If it is none, of another version, or damaged.
        """
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise InputError("expected a host's table")
        if document.get("version") != VERSION:
            raise InputError(f"expected version {VERSION} of a host's table, got {document.get('version')}")
        try:
            arrays = {name: unpacked(document["arrays"][name]) for name in ARRAYS}
            thins = tuple(tuple(names) for names in document["thins"])
            found = cls(str(document["host"]), tuple(document["inputs"]), tuple(document["streams"]), thins, arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the host's table is damaged: {error}") from None
        if found.version != document.get("id"):
            raise InputError("the host's table is damaged: its content is not that of its id")
        return found


def host_table(part: HostPart, profile: Profile, worth: Matrix, made: Made) -> HostTable:
    """Return a host's table ready for use."""
    rows = made.rows
    kept = made.kept if len(made.kept) else np.zeros((len(rows.score), 0))
    arrays = indexed(rows.points, rows.score, {"kept": kept})
    return HostTable(
        part.host, profile.inputs, part.streams, part.thins,
        {
            "G": part.G, "S": part.S, "cost": part.cost, "loads": profile.loads, "useful": profile.useful,
            "worthless": (worth <= 0).astype(np.int64), "group": np.asarray(rows.group, np.int64),
            "factor": rows.factor, **arrays,
        },
    )  # fmt: skip
