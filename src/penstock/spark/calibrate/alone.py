"""The first pass: each operator alone, as batch jobs over sample rows."""

from __future__ import annotations

import time
from collections.abc import Mapping

import attrs
from pyspark.sql import DataFrame

from penstock.load import OperatorStatistics, Statistics
from penstock.network import Network
from penstock.spark.calibrate.bench import Bench
from penstock.spark.calibrate.growth import length_needed, measured_growth
from penstock.spark.calibrate.samples import lengthened
from penstock.spark.calibrate.slope_of import Precision
from penstock.spark.compile.blame import blame
from penstock.spark.compile.sql import computes
from penstock.spark.run import Engine, Report


def calibrate_alone(
    engine: Engine,
    host: str,
    network: Network,
    samples: Mapping[str, DataFrame],
    wish: Precision | None = None,
    *,
    report: Report | None = None,
) -> Statistics:
    """Measure each operator alone on one host.

    Parameters
    ----------
    samples
        Rows of every source, with envelope.
    wish
        How well to measure each operator.

    Returns
    -------
    Statistics
        Cost, selectivity, error and tuples of every operator; those that do the same with the same are measured once.
        Of windows, joins and python steps also how their output grows with the rate, where the sample is
        long enough to tell.
    """
    tell, first = report or (lambda _what, _share: None), alike(network)
    mine, machine = {name: frame for name, frame in samples.items() if first[name] == name}, engine.cluster.hosts[host]
    bench = Bench.of(mine, wish or Precision(), machine.capacity / machine.cores)
    speed = engine.speeds.of(host) if any(map(computes, network.operators.values())) else 1.0
    found: dict[str, OperatorStatistics] = {}
    for number, (name, operator) in enumerate(network.operators.items()):
        if first[name] != name:
            found[name] = found[first[name]]
            continue
        tell(f"calibrating {name}", number / len(network.operators))
        with blame(f"operators.{name}"):
            found[name] = bench.measured(operator, [first[given] for given in operator.inputs], speed)
    for frame in bench.frames.values():
        frame.unpersist()
    need = length_needed(network)
    if need:
        tell("calibrating how outputs grow", 0.95)
        for name, (selectivity, growth) in measured_growth(
            network, lengthened(engine.sessions[host], network, samples, need)
        ).items():
            found[name] = attrs.evolve(found[name], selectivity=selectivity, growth=growth)
    return Statistics(operators=found, measured={"pass": "alone", "host": host, "when": moment()})


def moment() -> str:
    """Return the present, as statistics tell it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def alike(network: Network) -> dict[str, str]:
    """Return for each source and operator the first one that does the same with the same.

    Sources are alike where they make events of their own of one kind, as many of them. A join names its inputs, so that
    it is like no other.
    """
    first: dict[object, str] = {}
    found: dict[str, str] = {}
    for name, source in network.sources.items():
        plain = attrs.evolve(source, name="" if source.scheduled else name, options={}, host=None)
        found[name] = first.setdefault((plain, tuple(sorted(source.options.items()))), name)
    for name, operator in network.operators.items():
        inputs = tuple(found[given] for given in operator.inputs)
        plain_step = attrs.evolve(
            operator, name=name if operator.kind == "join" else "", inputs=inputs, pin=None, route=None
        )
        found[name] = first.setdefault(plain_step, name)
    return found
