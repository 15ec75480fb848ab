"""What the load model says, as a document: loads, how they grow with the sources, and the shares of hosts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.cluster import Cluster, Placement
from penstock.files import Document
from penstock.load.model import LoadModel
from penstock.load.series import correlation_matrix, deviation


def load_document(
    model: LoadModel, cluster: Cluster | None = None, placement: Placement | None = None, *, series: bool = False
) -> Document:
    """Return mean, deviation and maximum of all loads, and the coefficients of the sources.

    Parameters
    ----------
    cluster, placement
        With both: also the hosts.
    series
        Whether to add all series, and the correlation of the operators' loads.
    """
    network, sources = model.network, model.rates.sources
    document: Document = {
        "network": network.name,
        "period": model.period,
        "sources": {
            name: {"mean": float(row.mean()), "max": float(row.max()), **({"series": row} if series else {})}
            for name, row in zip(sources, model.rates.values, strict=True)
        },
        "operators": _described(tuple(network.operators), model.load, series),
        "coefficients": {
            name: dict(zip(sources, map(float, row), strict=True))
            for name, row in zip(network.operators, model.coefficients, strict=True)
        },
    }
    if cluster is not None and placement is not None:
        document["hosts"] = host_shares(model, placement, cluster, series=series)
    if series:
        document["correlation"] = {
            name: dict(zip(network.operators, map(float, row), strict=True))
            for name, row in zip(network.operators, correlation_matrix(model.load), strict=True)
        }
    return document


def host_shares(
    model: LoadModel, placement: Placement, cluster: Cluster, *, series: bool = False
) -> dict[str, Document]:
    """Return mean, deviation and maximum of each host's load as a share of its capacity."""
    capacity = np.array([host.capacity for host in cluster.hosts.values()])
    return _described(tuple(cluster.hosts), model.host_load(placement, cluster) / capacity[:, None], series)


def _described(names: Sequence[str], rows: NDArray[np.float64], series: bool) -> dict[str, Document]:
    return {
        name: {
            "mean": float(row.mean()),
            "std": deviation(row),
            "max": float(row.max()),
            **({"series": row} if series else {}),
        }
        for name, row in zip(names, rows, strict=True)
    }
