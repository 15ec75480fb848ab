"""What all rooms' tests share: the command line in this process, the examples, Spark hosts, hypothesis settings."""

from __future__ import annotations

import importlib
import io
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from penstock.cli.app import main
from penstock.cluster import Cluster, Host, SparkSettings

ROOT = Path(__file__).resolve().parent.parent
# What several rooms' tests use: the broker, and the models' references and cases.
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "latency")]
# Runs of tests say nothing of this machine.
os.environ["PENSTOCK_RECORD"] = ""

# One of them has two slots: there tasks read and write rows.
HOSTS = [Host(name="h1"), Host(name="h2", cores=2), Host(name="h3")]
NIGHTLY = "PENSTOCK_EXAMPLES" in os.environ
# Of few rows, generating code takes a fifth of the time; at night hosts do so, as those of users do.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# Spark keeps a query for an hour after its end: hosts that serve many tests would only collect garbage.
CONF = {"spark.driver.memory": "1g", **({} if NIGHTLY else INTERPRETED)}
CLUSTER = Cluster.of(HOSTS, spark=SparkSettings(trigger=0.6, conf=CONF))

# The same examples every time, so that only a change can fail CI; nightly runs, which want more of them, draw new ones.
settings.register_profile(
    "penstock",
    max_examples=100 if NIGHTLY else 40,
    deadline=None,
    derandomize=not NIGHTLY,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("penstock")


def pytest_configure() -> None:
    """Let a run that is told to end (as by ``timeout``) end what it has started."""
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("told to end"))


class Apart(LoadFileScheduling):
    """Gives files with tests on Spark to all workers but one, which would need hosts of its own for them."""

    def _assign_work_unit(self, node: Any) -> None:
        other = len(self.nodes) > 2 and node is self.nodes[-1]
        first = next((scope for scope in self.workqueue if on_servers(scope) is not other), None)
        if first is not None:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)


@cache
def on_servers(file: str) -> bool:
    """Tell whether some tests of a file need hosts or a broker."""
    return any(mark in (ROOT / file).read_text() for mark in ("mark.spark", "mark.kafka"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Apart | None:
    """Share files out among the workers, where files are what is shared out."""
    return Apart(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests on Spark, and then with files of many tests, so that short ones are left to share out."""
    sizes = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.get_closest_marker("spark") is None, -sizes[item.path]))


@attrs.frozen
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out, parse_constant=_refuse)


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


Penstock = Callable[..., Outcome]


def run(*arguments: object, stdin: bytes = b"") -> Outcome:
    """Run ``penstock`` with these arguments in this process."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv, sys.stdin
    sys.argv = ["penstock", *map(str, arguments)]
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
        code: Any = 0
    except SystemExit as leave:
        code = leave.code or 0
    finally:
        sys.argv, sys.stdin = before
    return Outcome(int(code), out.getvalue(), err.getvalue())


@pytest.fixture
def penstock() -> Penstock:
    """The command line: ``penstock("load", …)`` gives exit code, standard output and standard error."""
    return run


@pytest.fixture
def examples() -> Path:
    """The folder of examples."""
    return ROOT / "examples"


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository, made the current folder."""
    monkeypatch.chdir(ROOT)
    return ROOT


@pytest.fixture(scope="session")
def scripts() -> Any:
    """The module that fetches and runs Kafka."""
    return importlib.import_module("kafka")


@pytest.fixture(scope="session")
def conf() -> dict[str, str]:
    """Settings of Spark for hosts that serve tests."""
    return CONF


@pytest.fixture(scope="session")
def shared(scripts: Any) -> Iterator[tuple[Cluster, Any]]:
    """Three embedded hosts, of which the second does two tasks at a time, and their cluster.

    They know Kafka's connector, if it has been fetched.
    """
    from penstock.spark.hosts import start_hosts
    from penstock.spark.run import speeds

    # Tests ask that delays take time, not how exactly they take what they say.
    speeds.ROWS = 70
    jars = (scripts.connector(),) if scripts.fetched() else ()
    cluster = attrs.evolve(CLUSTER, spark=attrs.evolve(CLUSTER.spark, jars=jars))
    with start_hosts(cluster) as hosts:
        yield cluster, hosts
