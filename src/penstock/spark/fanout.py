"""Independent simulations as one Spark job."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result", covariant=True)


class Job(Protocol[Result]):
    """Work that a seed determines; it and its result can be pickled."""

    def run(self, seed: int) -> Result:
        """Do it."""
        ...


def fan_out(session: Any, job: Job[Result], seeds: Sequence[int]) -> list[Result]:
    """Run a job, such as a simulation, once per seed, spread over a Spark session's cores.

    Every number is that of `penstock.simulation.repeat`: a run depends on its seed only, not on where it ran. The
    workers need penstock installed.

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
    import pandas as pd

    packed = pickle.dumps(job)

    def run(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pickle

        import pandas as pd

        mine = pickle.loads(packed)  # noqa: S301 - our own bytes
        for frame in frames:
            results = [pickle.dumps(mine.run(int(seed))) for seed in frame["seed"]]
            yield pd.DataFrame({"place": frame["place"], "result": results})

    rows = pd.DataFrame({"place": range(len(seeds)), "seed": list(seeds)})
    frame = session.createDataFrame(rows).repartitionByRange(len(seeds), "place")
    found = frame.mapInPandas(run, "place long, result binary").collect()
    return [pickle.loads(row["result"]) for row in sorted(found, key=lambda row: row["place"])]  # noqa: S301
