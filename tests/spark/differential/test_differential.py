"""Random networks over files give exactly the rows of plain Spark batch queries, wherever and however they run.

A network that differs is made smaller and shown as a file; put into ``kept/``, it is run by every test from then on.
``PENSTOCK_SEED`` is the first seed; ``PENSTOCK_SMALL_NETWORKS`` is how many small networks run beside the kept ones:
so many with folders between hosts, so many with topics, and so many on a cluster;
``PENSTOCK_NETWORKS=500`` runs 500 larger networks instead of 5, and up to 200 with topics between their hosts and as
many on a cluster; ``PENSTOCK_DIFFERENTIAL_KILLS=20`` kills in 20 networks instead of 2, and moves units of as many;
``PENSTOCK_SHRINK`` is for how many seconds a network that differs is made smaller.
"""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from case import Case, dump, load
from killing import differences_after_executors_died, differences_after_kills
from moving import differences_after_moves
from networks import LARGE, SMALL, case
from runner import Lasting, oracle_session
from shrink import shrink, summary

from penstock.cluster import Host
from penstock.spark.hosts import Hosts, start_hosts
from penstock.spark.run import Engine

SEED = int(os.environ.get("PENSTOCK_SEED", "0"))
SMALLER = int(os.environ.get("PENSTOCK_SMALL_NETWORKS", "4"))
NETWORKS = int(os.environ.get("PENSTOCK_NETWORKS", "5"))
SHRINK = float(os.environ.get("PENSTOCK_SHRINK", "120"))
KILLS = int(os.environ.get("PENSTOCK_DIFFERENTIAL_KILLS", "2"))
KEPT = [kept for path in sorted((Path(__file__).parent / "kept").glob("*.json")) for kept in load(path)]

NIGHTLY = (
    "python-twice-apart-1",
    "python-twice-together-1",
    "union-behind-hops-apart-1",
    "union-behind-hops-apart-7",
    "union-behind-hops-views-away-1",
    "union-behind-hops-views-away-7",
    "union-behind-hops-views-away-all",
)
"""Kept networks whose fault others that are kept show as well, with other batches."""

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300 + SHRINK)]

Compare = Callable[[Case], list[str]]


@pytest.fixture(scope="module")
def session(engine: Engine) -> Any:
    """A session for the oracle's queries."""
    return oracle_session(engine)


@pytest.fixture(scope="module")
def hosts(engine: Engine) -> Iterator[Lasting]:
    """Hosts for many networks."""
    lasting = Lasting(engine)
    yield lasting
    lasting.close()


def comparing(hosts: Lasting, folder: Path) -> Compare:
    """Run a case, in a folder of its own; say how it differs."""
    number = itertools.count()
    return lambda tried: hosts.differences(tried, folder / str(next(number)))


@pytest.fixture
def compare(hosts: Lasting, tmp_path: Path) -> Compare:
    """Run a case; say how it differs."""
    return comparing(hosts, tmp_path)


def must_agree(tried: Case, compare: Compare, place: Path) -> None:
    """Fail with a small case if a case differs."""
    said = compare(tried)
    if not said:
        return
    small = shrink(tried, compare, SHRINK)
    text = dump(small)
    kept = place / f"{tried.name}.json"
    kept.write_text(text, encoding="utf-8")
    lines = [f"{tried.name} differs:", *said, f"Smaller {dict(summary(small))}, in {kept}:", *compare(small), text]
    pytest.fail("\n".join(lines), pytrace=False)


@pytest.mark.parametrize(
    "kept", [pytest.param(kept, id=kept.name, marks=[pytest.mark.slow] * (kept.name in NIGHTLY)) for kept in KEPT]
)
def test_kept_cases_agree(kept: Case, compare: Compare) -> None:
    """Networks that once differed have the rows of plain Spark."""
    said = compare(kept)
    if said:
        pytest.fail("\n".join([f"{kept.name} differs:", *said]), pytrace=False)


@pytest.mark.parametrize("seed", range(SEED, SEED + SMALLER))
def test_small_networks_agree(seed: int, compare: Compare, tmp_path: Path) -> None:
    """Every sink of a small random network has exactly the rows of plain Spark."""
    must_agree(case(seed, SMALL), compare, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEED + 25, SEED + 25 + NETWORKS))
def test_large_networks_agree(seed: int, compare: Compare, tmp_path: Path) -> None:
    """Every sink of a larger random network has exactly the rows of plain Spark."""
    must_agree(case(seed, LARGE), compare, tmp_path)


@pytest.fixture(scope="module")
def topic_hosts(topic_engine: Engine) -> Iterator[Lasting]:
    """Hosts for many networks with topics between hosts."""
    lasting = Lasting(topic_engine)
    yield lasting
    lasting.close()


@pytest.fixture
def compare_topics(topic_hosts: Lasting, tmp_path: Path) -> Compare:
    """Run a case with topics between hosts; say how it differs."""
    return comparing(topic_hosts, tmp_path)


@pytest.mark.kafka
@pytest.mark.parametrize("seed", range(SEED, SEED + SMALLER))
def test_small_networks_agree_over_kafka(seed: int, compare_topics: Compare, tmp_path: Path) -> None:
    """Every sink of a small random network has exactly the rows of plain Spark, also with topics between its hosts."""
    must_agree(case(seed, SMALL), compare_topics, tmp_path)


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("seed", range(SEED + 25, SEED + 25 + min(NETWORKS, 200)))
def test_large_networks_agree_over_kafka(seed: int, compare_topics: Compare, tmp_path: Path) -> None:
    """Every sink of a larger random network has exactly the rows of plain Spark, also with topics between its hosts."""
    must_agree(case(seed, LARGE), compare_topics, tmp_path)


Clustered = Callable[[Path, Hosts], AbstractContextManager[Engine]]
"""Starts a cluster in a folder, beside hosts of which it takes the place of the first."""


@pytest.fixture(scope="module")
def clustered(engine: Engine, conf: dict[str, str]) -> Clustered:
    """A standalone cluster in the place of the first of three hosts."""
    scripts: Any = importlib.import_module("cluster")
    young = {"spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
    own = {key: value for key, value in conf.items() if key != "spark.driver.memory"}

    @contextmanager
    def begun(folder: Path, near: Hosts) -> Iterator[Engine]:
        with pytest.MonkeyPatch.context() as patch, scripts.Cluster(folder, conf={**young, **own}) as made:
            patch.setenv("SPARK_TOKEN", made.known["SPARK_TOKEN"])
            far = Host(name="h1", spark=made.known["SPARK_ADDRESS"], token_env="SPARK_TOKEN")  # noqa: S106
            cluster = engine.cluster.having({**engine.cluster.hosts, "h1": far}.values())
            with start_hosts(cluster, names=["h1"]) as there:
                yield Engine(cluster, {**near, **there})

    return begun


@pytest.fixture(scope="module")
def cluster_hosts(engine: Engine, clustered: Clustered, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lasting]:
    """A cluster and two hosts for many networks."""

    def place() -> Path:
        return tmp_path_factory.mktemp("cluster") / "cluster"

    @contextmanager
    def again() -> Iterator[Engine]:
        with start_hosts(engine.cluster, names=["h2", "h3"]) as near, clustered(place(), near) as made:
            yield made

    with clustered(place(), engine.hosts) as made:
        lasting = Lasting(made, again)
        yield lasting
        lasting.close()


@pytest.mark.parametrize("seed", range(SEED, SEED + SMALLER))
def test_small_networks_agree_on_a_cluster(seed: int, cluster_hosts: Lasting, tmp_path: Path) -> None:
    """Every sink of a small random network has exactly the rows of plain Spark, also where executors do the work."""
    must_agree(case(seed, SMALL), comparing(cluster_hosts, tmp_path), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEED + 25, SEED + 25 + min(NETWORKS, 200)))
def test_large_networks_agree_on_a_cluster(seed: int, cluster_hosts: Lasting, tmp_path: Path) -> None:
    """Every sink of a larger random network has exactly the rows of plain Spark, also where executors do the work."""
    must_agree(case(seed, LARGE), comparing(cluster_hosts, tmp_path), tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(SEED, SEED + KILLS))
def test_networks_agree_after_kills(seed: int, session: Any, tmp_path: Path) -> None:
    """Every sink has exactly the rows of plain Spark after penstock or a host was killed twice at random moments."""
    rng = np.random.default_rng(seed)
    said = differences_after_kills(session, case(seed, LARGE), tmp_path / "case", rng, kills=2)
    if said:
        pytest.fail("\n".join([f"seed {seed} differs after kills:", *said]), pytrace=False)


@pytest.fixture(scope="module")
def executors(
    engine: Engine, clustered: Clustered, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Engine, Callable[[], list[psutil.Process]]]]:
    """A cluster and two hosts, and what tells the processes of the cluster's executors."""
    folder = tmp_path_factory.mktemp("cluster") / "cluster"

    def processes() -> list[psutil.Process]:
        servers = [int((folder / f"worker{number}.pid").read_text().split()[0]) for number in (1, 2)]
        return [each for pid in servers for each in psutil.Process(pid).children() if "java" in each.name()]

    with clustered(folder, engine.hosts) as made:
        yield made, processes


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(SEED, SEED + KILLS))
def test_networks_agree_after_executors_died(seed: int, executors: Any, tmp_path: Path) -> None:
    """Every sink has exactly the rows of plain Spark although in each step of a run an executor was killed."""
    engine, processes = executors
    rng = np.random.default_rng(seed)
    said = differences_after_executors_died(engine, case(seed, LARGE), tmp_path / "case", rng, processes)
    if said:
        pytest.fail("\n".join([f"seed {seed} differs after kills:", *said]), pytrace=False)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(SEED, SEED + KILLS))
def test_networks_agree_after_moves(seed: int, engine: Engine, tmp_path: Path) -> None:
    """Every sink has exactly the rows of plain Spark after units were moved and hosts killed while all went on."""
    rng = np.random.default_rng(seed)
    said = differences_after_moves(engine, case(seed, SMALL), tmp_path / "case", rng, changes=4)
    if said:
        pytest.fail("\n".join([f"seed {seed} differs after moves:", *said]), pytrace=False)
