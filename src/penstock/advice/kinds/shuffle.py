"""``shuffle``: partitions and store of a query's state."""

from __future__ import annotations

import math
from collections.abc import Iterator

from penstock.advice.values import Aims, Deployment, Job, Proposal
from penstock.units import human

STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

BYTES, ROWS = 128 * 2**20, 200_000
"""State (bytes) and input rows that one partition bears with ease."""

PART = 0.05
"""Share of a batch that must be saved to be worth a change."""

LARGE = 1_000_000
"""Rows of state from which on a store outside the Java heap is proposed."""


def shuffle(deployment: Deployment, aims: Aims) -> Iterator[Proposal]:
    """Propose fewer shuffle partitions where committing many small ones costs, and RocksDB where state is large.

    Every partition of a stateful operator commits its state in every batch, full or empty. How much a commit gets
    cheaper is known roughly only, so the effect is taken between nothing and the commit's share that goes. Nothing is
    proposed where the partitions, or the store, are not told.
    """
    for name, job in deployment.jobs.items():
        if not job.measured:
            continue
        facts = job.facts
        cores = deployment.drivers[job.driver]
        commit = facts.commit / max(min(cores, facts.partitions), 1.0) if facts.commit else 0.0
        length = job.seconds(job.rate * max(job.trigger, job.overhead))
        wanted = _wanted(job, cores)
        if facts.partitions >= 2 * wanted and commit * (1 - wanted / facts.partitions) >= PART * length:
            saved = commit * (1 - wanted / facts.partitions)
            yield Proposal(
                kind="shuffle",
                query=name,
                setting="spark.sql.shuffle.partitions",
                old=facts.partitions,
                new=float(wanted),
                unit="partitions",
                why=f"each batch commits {facts.partitions:.0f} partitions of state, {human(facts.commit)} of its "
                f"tasks, for {facts.state_rows:,.0f} rows of state",
                after=deployment.having(name, overhead=max(job.overhead - saved, 0.0)),
                least=deployment,
                about=(name,),
                remark="a checkpoint keeps its number of partitions, so the change needs a new checkpoint",
            )
        heap = facts.provider and "RocksDB" not in facts.provider
        if facts.state_rows >= LARGE and heap and commit >= PART * length:
            yield Proposal(
                kind="shuffle",
                query=name,
                setting=STORE,
                old=facts.provider,
                new=ROCKS,
                why=f"its state of {facts.state_rows:,.0f} rows lies on the Java heap, and committing it takes "
                f"{human(facts.commit)} of its tasks a batch",
                after=deployment.having(name, overhead=max(job.overhead - commit / 2, 0.0)),
                least=deployment,
                about=(name,),
                also={"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"},
                remark="a checkpoint keeps its state store, so the change needs a new checkpoint",
            )


def _wanted(job: Job, cores: float) -> int:
    rows = job.rate * max(job.trigger, job.overhead)
    return max(math.ceil(cores), math.ceil(job.facts.state_bytes / BYTES), math.ceil(rows / ROWS), 1)
