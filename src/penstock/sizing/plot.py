"""The picture of how many hosts each latency bound needs."""

from __future__ import annotations

import os
from collections.abc import Sequence

from penstock.pictures.save import save
from penstock.sizing.provision import Need


def draw_hosts(path: str | os.PathLike[str], rows: Sequence[Need], bound: float) -> None:
    """Draw hosts over bounds, with the certificate below.

    Parameters
    ----------
    path
        The file to write; its ending gives the format.
    rows
        What bounds around that one need.
    bound
        The bound that was asked for (s).
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, NullFormatter

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    known = [(wanted, count, least) for wanted, count, least, _ in rows if count is not None]
    if known:
        x, y, low = zip(*known, strict=True)
        axes.step(x, y, where="post", marker="o", label="hosts")
        axes.step(x, low, where="post", linestyle=":", label="at least")
    axes.axvline(bound, color="grey", linewidth=0.8, label=f"bound {bound:g} s")
    axes.legend()
    axes.set_ylim(0, max((count for _, count, _ in known), default=0) + 1)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(
        title="hosts that each latency bound needs",
        xlabel="latency bound (s)",
        ylabel="hosts",
        xscale="log" if bound > 0 else "linear",
    )
    if bound > 0:
        # The bounds are few and near to each other: each of them as a plain number, none in between.
        axes.set_xticks([need[0] for need in rows], [f"{need[0]:.3g}" for need in rows], rotation=45)
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.3)
    save(figure, path)
