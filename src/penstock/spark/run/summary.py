"""What came of a run, as ``penstock run`` reports it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from penstock.latency.estimate import Quantiles
from penstock.network import Network
from penstock.spark.run.outcome import Batch, Outcome

if TYPE_CHECKING:
    from penstock.files import Document


def summary(outcome: Outcome, network: Network, placement: Mapping[str, str], hosts: Iterable[str]) -> Document:
    """Return placement, latencies, counts of streams, how busy the hosts were, and whether nothing was lost."""
    return {
        "placement": dict(sorted(placement.items())),
        "latency": Quantiles.of(*outcome.latencies()).figures(),
        "sinks": {name: {"latency": Quantiles.of(*outcome.latencies(name)).figures()} for name in network.sinks},
        "streams": outcome.streams(network),
        "hosts": {name: {"busy": outcome.busy(each)} for name, each in _hosts(outcome, placement, hosts).items()},
        "balanced": outcome.balanced(network),
        "seconds": outcome.seconds,
        **({"gone": dict(outcome.gone)} if outcome.gone else {}),
        **({"skipped": dict(outcome.skipped)} if outcome.skipped else {}),
        **({"unfound": dict(outcome.unfound)} if outcome.unfound else {}),
        **({"held": held} if (held := outcome.held(network)) else {}),
        **({"unremoved": dict(outcome.unremoved)} if outcome.unremoved else {}),
    }


def _hosts(outcome: Outcome, placement: Mapping[str, str], hosts: Iterable[str]) -> dict[str, list[Batch]]:
    """Return the batches of each host, also of those that are gone."""
    batches: dict[str, list[Batch]] = {name: [] for name in hosts}
    for batch in outcome.batches:
        # Queries are named by their first operators; one that was attached later is not placed here.
        host = batch.host or placement.get(batch.query)
        if host is not None:
            batches.setdefault(host, []).append(batch)
    return batches
