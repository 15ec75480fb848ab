"""Independent simulations as one Spark job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Result = TypeVar("Result")


class Job(Protocol[Result]):
    """Work that a seed determines; it can be pickled, and its result comes back as data."""

    def run(self, seed: int) -> Result:
        """Do it."""
        ...

    def packed(self, result: Result) -> bytes:
        """Return a result as data, which says nothing that could be run."""
        ...

    def unpacked(self, content: bytes) -> Result:
        """Return the result that a worker has sent."""
        ...


def fan_out(session: SparkSession, job: Job[Result], seeds: Sequence[int]) -> list[Result]:
    """Run a job, such as a simulation, once per seed, spread over a Spark session's cores.

    Every number is that of `penstock.simulation.repeat`: a run depends on its seed only, not on where it ran. The
    workers need penstock installed. Code goes to them, and only data comes back.

    Parameters
    ----------
    session
        A Spark session (classic or Connect).
    job
        What to run.
    seeds
        One per run.

    Returns
    -------
    list
        The results in the order of the seeds.
    """
    import pyarrow as pa

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            results = [job.packed(job.run(seed)) for seed in batch.column("seed").to_pylist()]
            yield pa.RecordBatch.from_arrays(
                [batch.column("place"), pa.array(results, pa.binary())], names=["place", "result"]
            )

    rows = pa.table({"place": pa.array(range(len(seeds)), pa.int64()), "seed": pa.array(seeds, pa.int64())})
    frame = session.createDataFrame(rows).repartitionByRange(len(seeds), "place")
    found = frame.mapInArrow(run, "place long, result binary").toArrow().sort_by("place")
    return [job.unpacked(content) for content in found.column("result").to_pylist()]
