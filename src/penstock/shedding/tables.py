"""Plan tables: built once, saved, looked up by rates.

A table is a frozen value: arrays and a few words. It is made for one placed network (its fingerprint says which) and
one region of source rates, and answers with the kept rate of every arc of the `Program`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping

import attrs
import numpy as np

from penstock.arrays import Numbers
from penstock.errors import InputError
from penstock.files import Document, Text, plain, shortened, write_json
from penstock.shedding.program import Matrix, Program
from penstock.shedding.shapes import again

VERSION = 1
FORMAT = "penstock plan table"
WITHOUT_PLACES = 32
"""Digits of a fingerprint that do not depend on where operators are that cost nothing: all that older tables have."""


@attrs.frozen(eq=False)
class PlanTable:
    """What a planner built.

    Attributes
    ----------
    planner
        Its name on the command line.
    fingerprint
        Of the placed network; see `fingerprint`.
    upto
        Array (sources,): the greatest rates that the table answers (tuples/s).
    error
        Promised: score >= (1 - error) · optimum.
    entries
        Rows, cells or points: the size of the table.
    arrays
        What the planner's look-up reads.
    left
        Array (hosts,): share of their usable capacity that its plans may fill, as of `Program`; None: all of it.
    """

    planner: str
    fingerprint: str
    upto: Matrix
    error: float
    entries: int
    arrays: Mapping[str, Numbers]
    left: Matrix | None = None

    @classmethod
    def of(
        cls, program: Program, planner: str, upto: Matrix, error: float, entries: int, arrays: Mapping[str, Numbers]
    ) -> PlanTable:
        """Return a table that was made for a program."""
        left = program.left if (program.left != 1).any() else None
        return cls(planner, fingerprint(program), np.asarray(upto, float), error, entries, arrays, left)

    def check(self, program: Program) -> Program:
        """Return the program of what runs, its hosts filled as far as the table's plans may fill them.

        What batches leave of hosts is in the table: whoever follows it needs no statistics.

        Raises
        ------
        InputError
            If it belongs to another network, cluster or placement, or has not a number for each source.
        """
        if self.left is not None and self.left.shape == program.left.shape and (program.left == 1).all():
            program = program.leaving(self.left)
        if len(self.fingerprint) < WITHOUT_PLACES or not fingerprint(program).startswith(self.fingerprint):
            raise again("was made for another network, cluster, placement or other costs")
        if self.upto.shape != (len(program.sources),) or np.isnan(self.upto).any():
            raise again(f"is damaged: expected {len(program.sources)} numbers in 'upto'")
        return program

    def within(self, rates: Matrix, sources: tuple[str, ...]) -> None:
        """Refuse rates that the table does not cover."""
        for name, rate, most in zip(sources, rates, self.upto, strict=True):
            if rate > most * (1 + 1e-12):
                raise InputError(
                    f"the table covers rates up to {most:g}, got {rate:g}",
                    at=f"--at {name}",
                    hint="build it with a larger --upto",
                )


def fingerprint(program: Program) -> str:
    """Return a hash of everything a plan depends on: names, costs, selectivities, weights, hosts, placement."""
    state = hashlib.sha256()
    for words in (program.sources, program.streams, program.resources):
        state.update("\0".join(words).encode() + b"\1")
    for array in (program.G, program.S, program.K, program.limit, program.weight):
        state.update(np.ascontiguousarray(array).tobytes())
    state.update(repr(program.products).encode())
    begin = state.hexdigest()[:WITHOUT_PLACES]
    # What costs nothing is in no row, but hosts have tables of their own, which depend on who reads where.
    state.update(repr(sorted(program.places.items())).encode())
    return begin + state.hexdigest()[:16]


def packed(array: Numbers) -> Document:
    """Return an array as JSON data: base64 of little-endian numbers, with type and shape."""
    kind = array.dtype.newbyteorder("<")
    data = base64.b64encode(np.ascontiguousarray(array, kind).tobytes()).decode()
    return {"type": kind.str, "shape": list(array.shape), "data": data}


def unpacked(part: Document) -> Numbers:
    """Return the array of JSON data.

    Raises
    ------
    ValueError
        If it is of another type, or a number is not finite.
    """
    kind = np.dtype(part["type"])
    if kind.str not in ("<f8", "<i8", "|i1"):
        raise ValueError(f"arrays of type {kind.str}")
    array = np.frombuffer(base64.b64decode(part["data"], validate=True), kind).reshape(part["shape"])
    if not np.all(np.isfinite(array)):
        raise ValueError("a number is not finite")
    return array


def save_table(table: PlanTable, path: str | os.PathLike[str]) -> None:
    """Write a table as JSON; arrays are base64 of little-endian numbers."""
    arrays = {name: packed(array) for name, array in table.arrays.items()}
    document = {
        "format": FORMAT,
        "version": VERSION,
        "planner": table.planner,
        "fingerprint": table.fingerprint,
        "upto": table.upto,
        "error": table.error,
        "entries": table.entries,
        "arrays": arrays,
        **({} if table.left is None else {"left": table.left}),
    }
    write_json(path, document | {"hash": _hash(document)})


def _hash(document: Document) -> str:
    """Return a hash of all that a table's document says; of what it may say in several ways, in one."""
    said = {name: value for name, value in document.items() if name != "hash"}
    return hashlib.sha256(json.dumps(plain(said), sort_keys=True).encode()).hexdigest()[:32]


def read_table(path: str | os.PathLike[str]) -> PlanTable:
    """Read a table.

    Raises
    ------
    InputError
        If the file is no plan table, of another version, or damaged.
    """
    file = Text(path)
    document = file.json()
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError("expected a plan table as --save writes it", file=file.name)
    if document.get("version") != VERSION:
        raise InputError(
            f"expected version {VERSION} of the plan table, got {shortened(document.get('version'))}", file=file.name
        )
    # Tables from before there was a hash have none.
    if "hash" in document and document["hash"] != _hash(document):
        raise again("is damaged: its content is not that of its hash", file.name)
    try:
        arrays = {name: unpacked(part) for name, part in document["arrays"].items()}
        upto = np.array(document["upto"], float)
        left = None if document.get("left") is None else np.array(document["left"], float)
        return PlanTable(
            str(document["planner"]),
            str(document["fingerprint"]),
            upto,
            float(document["error"]),
            int(document["entries"]),
            arrays,
            left,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise again(f"is damaged: {shortened(str(error))}", file.name) from None
