"""How a host decides from its own table: plain numpy, shipped by value to hosts that have nothing of ours.

`penstock.shedding.host_table.HostTable` is the table as a value; it decides by this too, with a compiled search.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # on a host there is nothing of ours
    from penstock.arrays import Array, Numbers
    from penstock.files import Document

    Search = Callable[[Mapping[str, Numbers], Array], int]

FULL = 1 + 1e-9
"""Loads up to here fit (`penstock.shedding.hosts.FITS`)."""


def arrays_of(document: Document) -> dict[str, Numbers]:
    """Return the arrays of a table's document, as `HostTable.document` makes it."""
    return {
        name: np.frombuffer(base64.b64decode(part["data"]), part["type"]).reshape(part["shape"])
        for name, part in document["arrays"].items()
    }


def best_below(a: Mapping[str, Numbers], rates: Array) -> int:
    """Return the row of the best point that is nowhere above the rates, or -1: down the tree of boxes, best first."""
    inner = len(a["most"]) // 2
    best, found, stack = -1.0, -1, [0]
    while stack:
        node = stack.pop()
        if a["most"][node] <= best or (a["low"][node] > rates).any():
            continue
        if node < inner:
            stack += sorted((2 * node + 1, 2 * node + 2), key=lambda child: a["most"][child])
            continue
        first, last = int(a["first"][node]), int(a["last"][node])
        fits = (a["points"][first:last] <= rates).all(axis=1)
        scores = np.where(fits, a["score"][first:last], -1.0)
        row = int(np.argmax(scores))
        if scores[row] > best:
            best, found = float(scores[row]), first + row
    return found


def kept_rates(a: Mapping[str, Numbers], rates: Array, search: Search = best_below) -> Array:
    """Return the rate that each of a host's streams keeps, array (streams,).

    Parameters
    ----------
    a
        The table's arrays: see `HostTable`.
    rates
        Array (inputs,), tuples/s.
    """
    own = a["S"].shape[1]
    keep = np.ones(len(a["cost"]))
    rates = np.maximum(rates, 0.0)
    if (a["loads"] @ rates > FULL).any():
        keep[a["worthless"] > 0] = 0.0
        if (a["useful"] @ rates > FULL).any():
            columns = a["points"].shape[1]
            merged = np.asarray(np.bincount(a["group"], weights=a["factor"] * rates, minlength=columns), float)
            # What a parent sends for a row arrives as that row up to rounding.
            row = search(a, merged * FULL)
            if a["kept"].shape[1]:
                return limited(a, rates[:own], a["kept"][row], None)
            share = np.divide(a["points"][row], merged, out=np.zeros(columns), where=merged > 0)
            rates = rates * np.minimum(1.0, share[a["group"]])
    return limited(a, rates[:own], None, keep)


def limited(a: Mapping[str, Numbers], rates: Array, plan: Array | None, keep: Array | None) -> Array:
    """Return kept rates: at most the plan's, at most a share, and at most what is offered, array (streams,)."""
    y = np.zeros(len(a["cost"]))
    for arc in range(len(y)):
        offered = float(a["G"][arc] @ y + a["S"][arc] @ rates)
        y[arc] = offered if keep is None else keep[arc] * offered
        if plan is not None:
            y[arc] = min(y[arc], plan[arc])
    return y


def shares(
    a: Mapping[str, Numbers], thins: Sequence[Sequence[str]], rates: Array, search: Search = best_below
) -> dict[str, float]:
    """Return the keep fraction of each stream that a host thins, where it is below 1.

    Parameters
    ----------
    thins
        The network's streams that each of the host's stands for.
    rates
        Array (inputs,), tuples/s.
    """
    y = kept_rates(a, rates, search)
    offered = a["G"] @ y + a["S"] @ rates[: a["S"].shape[1]]
    found = np.divide(y, offered, out=np.ones(len(y)), where=offered > 0)
    return {
        name: min(1.0, float(share))
        for names, share in zip(thins, found, strict=True)
        for name in names
        if share < 1 - 1e-12
    }
