"""What a query decides before each batch, where keep fractions follow a plan."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable

import attrs
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.network import Network, Stream
from penstock.network.windows import windows_behind
from penstock.spark.compile import streams
from penstock.spark.compile.deployment import Deployment
from penstock.spark.compile.graph import Graph, drops_into
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.spec import Door, Knobs, Windows
from penstock.spark.shipped.turn import LIMITS, tell


def shares_jvm(session: SparkSession) -> bool:
    """Whether the tasks of a session can read properties of the driver's JVM, and queries may set them."""
    master = str(session.conf.get("spark.master", ""))
    if not master.startswith("local") or master.startswith("local-cluster"):
        return False
    try:
        session.sql("SELECT java_method('java.lang.System', 'getProperty', 'penstock', '')").collect()
    except PySparkException:
        # Servers that many share may refuse it.
        return False
    return True


def tellable(deployment: Deployment, sessions: Iterable[SparkSession]) -> Deployment:
    """Return a deployment that follows plans only where hosts can be told: for rows in real-time mode in their JVM."""
    network, prompt = deployment.network, deployment.real_time
    if not (deployment.live and prompt) or all(map(shares_jvm, sessions)):
        return deployment
    here = {stream.name for stream in network.streams if _decides(network, prompt, stream)}
    return attrs.evolve(deployment, live=deployment.live - here)


def _decides(network: Network, mine: Collection[str], stream: Stream) -> bool:
    """Whether some operators' queries decide what a stream lets through: its reader does, before a sink its writer."""
    return stream.reader in mine or (stream.writer in mine and stream.reader in network.sinks)


def limits_file(folder: Place, query: str) -> Place:
    """Return a new file from which a query reads keep fractions: it is there before Spark hears of it."""
    place = folder / LIMITS / query / f"{secrets.token_hex(8)}.json"
    tell(place, {})
    return place


def knobs_of(deployment: Deployment, graph: Graph) -> Knobs | None:
    """Return what the writer has to decide before each batch."""
    network, live, mine = deployment.network, deployment.live, graph.fragment.operators
    limits, windows = [], {}
    for stream in network.streams:
        if stream.name in live and _decides(network, mine, stream):
            behind = windows_behind(network, stream)
            for length, slide in behind:
                origin = graph.origin(stream)
                windows[stream.name] = Windows(
                    streams.overlapping(length, slide), round(length * 1e6), graph.derives(origin)[0]
                )
            if not behind:
                limits.append(stream.name)
    others: dict[str, tuple[str, ...]] = {}
    home = {name: fragment.name for fragment in deployment.fragments for name in fragment.operators}
    reader = {stream.name: stream.reader for stream in network.streams}
    for name in mine:
        if network.operators[name].kind == "aggregate":
            for way in drops_into(network, network.operators[name], live):
                if reader[way] not in mine:
                    others[home[reader[way]]] = (*others.get(home[reader[way]], ()), way)
    if not (limits or windows or others):
        return None
    doors = doors_of(network, graph.fragment.operators, graph.fragment.host)
    return Knobs(tuple(limits), windows, others, copy=deployment.copy, doors=doors)


def doors_of(network: Network, mine: Collection[str], host: str) -> tuple[Door, ...]:
    """Return through what a query's rows come: for each writer outside it, one of the streams."""
    found: dict[str, Door] = {}
    for name in mine:
        for stream in network.inputs(name):
            if stream.writer in mine:
                continue
            scheduled = stream.writer in network.sources and network.sources[stream.writer].scheduled
            door = Door(f"{stream.writer}@{host}", stream.writer, stream.name, stream.share, scheduled)
            # The fullest stream tells the most.
            if stream.writer not in found or found[stream.writer].share < stream.share:
                found[stream.writer] = door
    return tuple(found.values())
