"""Standard shapes of clusters, for tests and experiments."""

from __future__ import annotations

import numpy as np

from penstock.cluster.model import Cluster, Host, Link


def drawn(
    hosts: int, alpha: tuple[float, float], draw: np.random.Generator, link: Link | None = None, quotas: bool = False,
    most: int = 0,
) -> Cluster:  # fmt: skip
    """Return hosts of capacity 1/alpha, and links of capacity U(4, 10k) tuples and delay U(1, 500) ms each way.

    These are the clusters of Wang et al. (section 5.2).

    Parameters
    ----------
    alpha
        Bounds of what is drawn evenly for each host.
    link
        All links, instead.
    quotas
        Whether quotas are drawn from U(0, 1); else all are 1.
    most
        How many are drawn, of which the first are taken, so that clusters of different size have them in common.
    """
    names = [f"h{k + 1:02d}" for k in range(max(hosts, most))]
    made = [
        Host(name=name, capacity=1 / float(draw.uniform(*alpha)), quota=1 - float(draw.random()) if quotas else 1.0)
        for name in names
    ]
    if link is not None:
        return Cluster.of(made[:hosts], link)
    links = {}
    for start in names:
        for end in names:
            if start != end:
                delay = float(draw.uniform(1e-3, 0.5))
                links[start, end] = Link(delay, float(draw.uniform(4, 10_000)) / delay)
    inside = set(names[:hosts])
    return Cluster.of(made[:hosts], links={pair: each for pair, each in links.items() if inside.issuperset(pair)})
