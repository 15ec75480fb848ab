"""What hosts of a tree send each other, in bytes: profiles and rows to the parent, limits to the children.

A message is one line of JSON (words and the shapes of arrays) and the arrays as little-endian numbers, so that a row of
a table takes 8 bytes an input and 8 for its score.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import attrs
import numpy as np
from numpy.typing import NDArray

from penstock.arrays import Numbers
from penstock.errors import InputError
from penstock.files import Document
from penstock.shedding.hosts import FITS, Limits, Profile
from penstock.shedding.program import Matrix


@attrs.frozen(eq=False)
class Rows:
    """A host's feasible input table as its parent gets it: without local plans (section 6.3).

    Attributes
    ----------
    host
        Who sends it.
    inputs
        Of the host; inputs that differ only in scale are one column.
    group, factor
        Arrays (inputs,): the column of each input, and what a tuple of it counts there.
    points
        Array (rows, columns): rates that the host's subtree takes (tuples/s).
    score
        Array (rows,): what the subtree delivers then.
    small
        Array (columns,): an optimal rate below it may be answered with 0.
    rounds
        The table is within (1 - spread) ** rounds of the optimum.
    """

    host: str
    inputs: tuple[str, ...]
    group: NDArray[np.int64]
    factor: Matrix
    points: Matrix
    score: Matrix
    small: Matrix
    rounds: float

    @property
    def version(self) -> str:
        """A name for these rows; other rows have another."""
        return hashlib.sha256(encoded(self)).hexdigest()[:16]


@attrs.frozen(eq=False)
class Delta:
    """What changed in a table since a version that the parent knows (section 8.2.5).

    Attributes
    ----------
    host, base, version
        Who sends it, the version that it changes, and the host's own new one.
    gone
        Array (rows,): positions, in the version changed, of rows that do not hold any more.
    points, score
        Arrays (rows, columns), (rows,): new rows.
    worth
        Array (columns,): score per tuple where nothing is dropped, when it changed for all rows; else empty.
    small
        Array (columns,), as in `Rows`.
    rounds
        As in `Rows`.
    """

    host: str
    base: str
    version: str
    gone: NDArray[np.int64]
    points: Matrix
    score: Matrix
    worth: Matrix
    small: Matrix
    rounds: float


Message = Profile | Limits | Rows | Delta
KINDS: dict[str, type[Message]] = {"profile": Profile, "limits": Limits, "rows": Rows, "delta": Delta}


def encoded(message: Message) -> bytes:
    """Return a message as bytes."""
    kind = next(name for name, made in KINDS.items() if isinstance(message, made))
    words: Document = {"kind": kind}
    arrays: list[tuple[str, Numbers]] = []
    for field in attrs.fields(type(message)):
        value = getattr(message, field.name)
        if isinstance(value, np.ndarray):
            array = np.ascontiguousarray(value, "<i8" if value.dtype.kind == "i" else "<f8")
            arrays.append((field.name, array))
        else:
            words[field.name] = value
    words["arrays"] = [[name, array.dtype.str, list(array.shape)] for name, array in arrays]
    return json.dumps(words).encode() + b"\n" + b"".join(array.tobytes() for _, array in arrays)


def decoded(data: bytes) -> Message:
    """Return the message of some bytes.

    Raises
    ------
    InputError
        If they are not one.
    """
    line, _, rest = data.partition(b"\n")
    try:
        words = json.loads(line)
        make: Callable[..., Message] = KINDS[words.pop("kind")]
        arrays, at = {}, 0
        for name, kind, shape in words.pop("arrays"):
            if kind not in ("<f8", "<i8"):
                raise ValueError(kind)
            count = int(np.prod(shape))
            arrays[name] = np.frombuffer(rest, kind, count, at).reshape(shape)
            at += 8 * count
        names = {name: tuple(value) if isinstance(value, list) else value for name, value in words.items()}
        return make(**names, **arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"not a message between hosts: {error}") from None


def difference(old: Rows, new: Rows, allowed: float, load: Matrix, worth: Matrix) -> Delta:
    """Return what a parent that knows ``old`` must be sent.

    A new row need not be sent where the parent knows one that still holds, is nowhere above it, and reaches its score
    within the allowed difference. An old row still holds where its rates fit without drops, or, if rows come with local
    plans, where what it promises is delivered within the allowed difference.

    Parameters
    ----------
    allowed
        Relative difference of scores, 0 for none.
    load, worth
        Arrays (hosts, columns), (columns,): of the subtree now, per tuple, when nothing is dropped. Where all rows are
        without drops, sending ``worth`` renews the scores of the old ones.
    """
    linear = bool(np.allclose(new.points @ worth, new.score, rtol=1e-9, atol=0))
    if linear:
        known = old.points @ worth
        stays = np.asarray((old.points @ load.T <= FITS).all(axis=1))
    else:
        known = old.score
        stays = known * (1 - allowed) <= best_scores(new.points, new.score, old.points) * (1 + 1e-9)
    best = best_scores(old.points[stays], known[stays], new.points)
    sent = best < (1 - allowed) * new.score * (1 - 1e-12)
    renewed = linear and not np.allclose(known[stays], old.score[stays], rtol=1e-12, atol=0)
    return Delta(
        new.host, old.version, new.version, np.flatnonzero(~stays), new.points[sent], new.score[sent],
        worth if renewed else np.zeros(0), new.small, max(old.rounds, new.rounds),
    )  # fmt: skip


def best_scores(points: Matrix, score: Matrix, at: Matrix) -> Matrix:
    """Return for each point of ``at`` the best score of a row nowhere above it, -1 where there is none."""
    from penstock.shedding.grid import best_below, indexed

    if not len(points):
        return np.full(len(at), -1.0)
    arrays = indexed(points, score, {})
    rows = [best_below(arrays, np.ascontiguousarray(point * (1 + 1e-12))) for point in at]
    return np.array([arrays["score"][row] if row >= 0 else -1.0 for row in rows])


def changed(known: Rows, delta: Delta) -> Rows:
    """Return what a parent knows after a delta.

    Raises
    ------
    InputError
        If the delta changes another version.
    """
    if delta.host != known.host or delta.base != known.version:
        raise InputError(
            f"the change is of version {delta.base} of host {delta.host}, but {known.version} of {known.host} is known",
            hint="ask for the whole table",
        )
    stays = np.ones(len(known.score), bool)
    stays[delta.gone] = False
    points = known.points[stays]
    score = points @ delta.worth if len(delta.worth) else known.score[stays]
    return attrs.evolve(
        known,
        points=np.concatenate([points, delta.points]),
        score=np.concatenate([score, delta.score]),
        small=delta.small,
        rounds=delta.rounds,
    )
