"""The report of a run: measured beside predicted, counts of every stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.cluster import Cluster
from penstock.files import Document
from penstock.latency.estimate import Quantiles
from penstock.load import Statistics
from penstock.network import Network
from penstock.running.prediction import Prediction
from penstock.running.series import series
from penstock.running.speeds import speed_of

if TYPE_CHECKING:
    from penstock.shedding.live import Shedder
    from penstock.spark.run import Outcome

WAITED = (
    "{:.0%} of the rows at sinks had come to their folders or topics before the run began that delivered them; their "
    "latency counts from then, and no prediction is meant for it"
)

FEW = 0.01
"""Share of a run's tuples that may have waited since before it began: else no prediction holds for their latency."""


def describe(network: Network, statistics: Statistics | None = None) -> Document:
    """Return a network as a plain document, for reports and pictures, with how small a cost could be measured."""
    known = {} if statistics is None else statistics.operators
    return {
        "name": network.name,
        "sources": list(network.sources),
        "operators": {
            name: {
                "kind": operator.kind,
                "inputs": list(operator.inputs),
                "cost": operator.cost[0] if operator.cost else None,
                "selectivity": operator.selectivity[0] if operator.selectivity else None,
                **({"resolution": known[name].resolution} if name in known and known[name].resolution else {}),
            }
            for name, operator in network.operators.items()
        },
        "sinks": {name: {"input": sink.input} for name, sink in network.sinks.items()},
    }


def compare(
    network: Network,
    cluster: Cluster,
    placement: Mapping[str, str],
    outcome: Outcome,
    prediction: Prediction | None,
    shedder: Shedder | None = None,
) -> Document:
    """Return the report of a run: measured beside predicted, counts of every stream.

    Parameters
    ----------
    shedder
        The plan table that the run followed, if it did.
    """
    from penstock.spark.run.summary import summary

    document: Document = {
        "network": describe(prediction.model.network, prediction.statistics) if prediction else describe(network),
        **summary(outcome, network, placement, cluster.hosts),
        "predicted": None,
        "model": None,
        "forecast": [],
        "drift": None,
        "drifts": [],
        **({"runs": len(outcome.runs)} if len(outcome.runs) > 1 else {}),
        **({"down": sorted(outcome.down)} if outcome.down else {}),
        **({"waited": waited} if (waited := outcome.waited) > FEW else {}),
        **({"missing": dict(outcome.missing)} if outcome.missing else {}),
    }
    for name, row in document["hosts"].items():
        row |= speed_of(outcome, name, placement, prediction)
    for name, rows in outcome.repeated.items():
        if rows:
            document["sinks"][name]["repeated"] = rows
    if shedder is not None:
        from penstock.shedding.live import described

        document["plan"] = {**described(shedder.taken), "refused": sorted(outcome.refused)}
    if prediction is not None:
        _add_prediction(document, prediction)
        document["error_bar"] = prediction.error.document()
        document["series"] = series(cluster, placement, outcome, prediction)
    if "waited" in document:
        document["notes"] = [*document.get("notes", ()), WAITED.format(waited)]
    return document


def unread(
    gone: Mapping[str, int],
    skipped: Mapping[str, int],
    unfound: Mapping[str, str],
    unremoved: Mapping[str, str],
    held: Mapping[str, Sequence[str]],
) -> list[str]:
    """Return what to say of messages gone before they were read, of files passed over, and of where none was found.

    And of topics between hosts that keep what all have read, and of windows that wait for a source without rows.
    """
    none = "penstock: the source {!r} has found no file at {}{}"
    said = "messages of the topic {!r} were gone before they were read"
    old = "files of the source {!r} were not read: they are a week older than others (Spark's maxFileAge)"
    topics = ", ".join(map(repr, sorted(unremoved)))
    kept = f"penstock: rows that all readers have passed stay in the topics of {topics}"
    return [
        *(f"penstock: {count} {said.format(topic)}" for topic, count in gone.items()),
        *(f"penstock: {count} {old.format(source)}" for source, count in skipped.items()),
        *(none.format(source, path, _hint(path)) for source, path in unfound.items()),
        *(f"penstock: the windows of {name!r} wait for rows of {_and(sources)}" for name, sources in held.items()),
        *([f"{kept}: {'; '.join(sorted({*unremoved.values()}))}"] if unremoved else []),
    ]


def _and(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))


def _hint(path: str) -> str:
    """Return what to say of a path that is a pattern."""
    from penstock.spark.shipped.place import literally

    made = " (to Spark []{}*?\\ make a pattern; write a backslash before those of a name)"
    return "" if literally(path) == path else made


def _add_prediction(document: Document, prediction: Prediction) -> None:
    """Add what was predicted, in all and at each sink, and how far off it may be."""
    document["model"] = "microbatch"
    document["predicted"] = prediction.result.quantiles().figures()
    if prediction.notes:
        document["notes"] = list(prediction.notes)
    for name, (_, latency, weight) in prediction.result.sinks.items():
        document["sinks"][name]["predicted"] = Quantiles.of(latency, weight).figures()
    if prediction.spread is not None:
        document |= prediction.spread.document()
        for name, pairs in prediction.spread.sinks.items():
            document["sinks"][name]["interval"] = {key: list(pair) for key, pair in pairs.items()}
        for row in (document, *document["sinks"].values()):
            # Where nothing was predicted there is nothing to be off.
            if row["predicted"]["max"] is None:
                row["interval"] = dict.fromkeys(row["interval"])
