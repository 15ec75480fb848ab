"""Runs a case on Spark hosts and reads what its sinks have."""

from __future__ import annotations

import datetime
import decimal
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from case import Case, Step, module_name, placed, write_files, write_module
from oracle import Answer, check, expected, rows_of

from penstock.cluster import Cluster
from penstock.network import Network
from penstock.network.file import parse_network
from penstock.spark.hosts import start_hosts
from penstock.spark.run import Engine


def run_step(engine: Engine, network: Network, placement: Mapping[str, str], folder: Path, step: Step) -> bool:
    """Run a network as a step says; return whether the counts of its streams balance."""
    deployment = engine.prepare(network, placement, folder)
    if step.seconds is None:
        return engine.run_once(deployment).balanced(network)
    return engine.run(deployment, seconds=step.seconds).balanced(network)


def oracle_session(engine: Engine) -> Any:
    """Return a session of a host for plain batch queries."""
    session = engine.hosts["h1"].session()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session


SPENT = 40
"""After so many cases hosts make place for new ones: Spark keeps each query for an hour after its end, some 3 MB."""


@contextmanager
def started(cluster: Cluster) -> Iterator[Engine]:
    """Hosts of their own, with a session each."""
    with start_hosts(cluster) as hosts:
        yield Engine(cluster, hosts)


class Lasting:
    """Hosts for any number of cases: given ones first, then others like them.

    Parameters
    ----------
    engine
        On the hosts to begin with.
    again
        Starts others; None: by their cluster.
    """

    def __init__(self, engine: Engine, again: Callable[[], AbstractContextManager[Engine]] | None = None) -> None:
        self.engine, self.session, self._left = engine, oracle_session(engine), SPENT
        self._again = again or partial(started, engine.cluster)
        self._own = ExitStack()

    def differences(self, case: Case, folder: Path) -> list[str]:
        """Run a case in a new folder; return how its sinks differ from the batch answer."""
        if self._left == 0:
            self.close()
            self.engine = self._own.enter_context(self._again())
            self.session, self._left = oracle_session(self.engine), SPENT
        elif self.session.is_stopped:
            # Another test has killed its host, which has been started again.
            self.session = oracle_session(self.engine)
        self._left -= 1
        return differences(self.engine, self.session, case, folder)

    def close(self) -> None:
        """End the hosts that were not given."""
        self._own.close()


def differences(engine: Engine, session: Any, case: Case, folder: Path) -> list[str]:
    """Run a case in a new folder; return how its sinks differ from the batch answer."""
    folder.mkdir(parents=True)
    answers = expected(session, case, folder / "oracle")
    said = []
    with steps_importable(case, folder):
        network = parse_network(placed(case, folder), str(folder / "network.toml"))
        for number, step in enumerate(case.steps):
            write_files(case, folder, step.files)
            try:
                if not run_step(engine, network, case.placement, folder / "run", step):
                    said.append(f"step {number}: counts do not balance")
            except Exception as error:
                return [f"step {number}: {type(error).__name__}: {str(error)[:600]}"]
    return said + check(answers, sink_rows(case, folder, answers))


@contextmanager
def steps_importable(case: Case, folder: Path) -> Iterator[None]:
    """Put the module of a case's python steps beside its network, and forget it afterwards."""
    write_module(case, folder)
    before = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = before
        sys.modules.pop(module_name(case), None)


def sink_rows(case: Case, folder: Path, answers: Mapping[str, Answer]) -> dict[str, Any]:
    """Return the rows of every sink, or a sentence about what is wrong with its columns."""
    found: dict[str, Any] = {}
    for sink, table in case.network["sinks"].items():
        place = folder / table["options"]["path"] if "path" in table.get("options", {}) else folder / "run/sinks" / sink
        paths = sorted(p for p in place.glob("*") if p.is_file() and not p.name.startswith(("_", ".")))
        read = _json if table.get("format") == "json" else _parquet
        found[sink] = read(paths, answers[sink])
    return found


def _parquet(paths: list[Path], answer: Answer) -> Counter[tuple[Any, ...]] | str:
    rows: Counter[tuple[Any, ...]] = Counter()
    for path in paths:
        table = pq.read_table(path)
        if table.column_names != answer.shape.names:
            return f"columns are {table.column_names}, not {answer.shape.names}"
        rows += rows_of(table, coarse=False)
    return rows


def _json(paths: list[Path], answer: Answer) -> Counter[tuple[Any, ...]] | str:
    rows = []
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line, parse_float=decimal.Decimal)
            if not set(row) <= set(answer.shape.names):
                return f"columns are {list(row)}, not {answer.shape.names}"
            rows.append({field.name: _value(row.get(field.name), field.type) for field in answer.shape})
    return rows_of(pa.Table.from_pylist(rows, answer.shape), coarse=True)


def _value(value: Any, kind: pa.DataType) -> Any:
    """Return a value that JSON has as Arrow takes it."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return datetime.datetime.fromisoformat(value)
    if pa.types.is_date(kind):
        return datetime.date.fromisoformat(value)
    if pa.types.is_decimal(kind):
        return decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-kind.scale))
    if pa.types.is_map(kind):
        return [(key, _value(part, kind.item_type)) for key, part in value.items()]
    if pa.types.is_struct(kind):
        return {field.name: _value(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_value(part, kind.value_type) for part in value]
    return float(value) if pa.types.is_floating(kind) else value
