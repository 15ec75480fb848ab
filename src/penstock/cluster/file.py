"""Cluster files (TOML) and their schema."""

from __future__ import annotations

import math
import os
from typing import Annotated, Literal

import msgspec

from penstock.cluster.model import Cluster, Host, Link, SparkSettings
from penstock.errors import InputError
from penstock.files import Document, Text, convert, schema_of
from penstock.units import seconds, size

Option = str | int | float | bool

LEAST = 5.0
"""Shortest interval (s) between checkpoints in real-time mode that Spark takes."""


class HostTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[hosts.NAME]``: one host."""

    capacity: Annotated[float, msgspec.Meta(gt=0, description="benchmark cores")] = 1.0
    quota: Annotated[float, msgspec.Meta(gt=0, le=1, description="share of the capacity that we may use")] = 1.0
    cores: Annotated[int, msgspec.Meta(ge=1, description="tuples served at a time")] = 1
    spark: (
        Annotated[str, msgspec.Meta(description="endpoint sc://host:port of a running Spark Connect server")] | None
    ) = None
    token_env: Annotated[str, msgspec.Meta(description="environment variable with the endpoint's token")] | None = None
    price: Annotated[float, msgspec.Meta(ge=0, description="cost per hour")] = 1.0
    memory: Annotated[str | float, msgspec.Meta(description="bytes of state that operators may keep, '4g'")] | None = (
        None
    )
    machine: Annotated[str, msgspec.Meta(description="machine whose cores it shares with other hosts")] | None = None


class MachineTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[machines.NAME]``: a machine whose cores several hosts share."""

    cores: Annotated[int, msgspec.Meta(ge=1, description="hosts that can work at once")]


class LinkTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[links."a->b"]``: one link."""

    delay: Annotated[float, msgspec.Meta(ge=0, description="seconds")] | None = None
    bandwidth: Annotated[float, msgspec.Meta(gt=0, description="tuples per second")] | None = None


class SparkTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[spark]``: how fragments run on Spark."""

    mode: Annotated[
        Literal["micro-batch", "real-time"],
        msgspec.Meta(description="real-time: where Spark takes it, each row by itself from topic to topic"),
    ] = "micro-batch"
    trigger: Annotated[str | float, msgspec.Meta(description="interval of the micro-batches")] = "500 ms"
    checkpoint: Annotated[
        str | float,
        msgspec.Meta(
            description="how often Spark notes how far a query in real-time mode has come, at least 5 s; "
            "rows wait then, for a second or so"
        ),
    ] = "1 minute"
    hop: Annotated[
        Literal["directory", "kafka"], msgspec.Meta(description="how rows pass between queries: by files or by topics")
    ] = "directory"
    directory: (
        Annotated[str, msgspec.Meta(description="hop logs and checkpoints; a path that all hosts see")] | None
    ) = None
    conf: Annotated[dict[str, Option], msgspec.Meta(description="Spark settings of embedded hosts")] = {}
    jars: Annotated[list[str], msgspec.Meta(description="jar files of embedded hosts; patterns are fine")] = []
    packages: Annotated[list[str], msgspec.Meta(description="Maven coordinates for embedded hosts")] = []
    kafka: Annotated[
        dict[str, Option],
        msgspec.Meta(
            description="bootstrap or bootstrap_env, username_env, password_env, ca, partitions, replication; "
            "with a dot: Kafka's client settings"
        ),
    ] = {}


class ClusterFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A cluster file."""

    hosts: dict[str, HostTable]
    links: Annotated[
        Document, msgspec.Meta(description='delay and bandwidth of every pair, and tables "a->b" of single pairs')
    ] = {}
    spark: Document = {}
    machines: Annotated[dict[str, MachineTable], msgspec.Meta(description="machines that hosts share")] = {}


def read_cluster(path: str | os.PathLike[str]) -> Cluster:
    """Read and check a cluster file.

    Raises
    ------
    InputError
        Naming file, line, table and key, what was expected, what came and what to do.
    """
    text = Text(path)
    document = text.toml()
    try:
        return parse_cluster(document)
    except InputError as error:
        raise error.located(text.name, text.line_of(error.at)) from None


def parse_cluster(document: Document) -> Cluster:
    """Build a cluster from the tables of a cluster file."""
    tables = document.get("hosts", {})
    if isinstance(tables, dict):
        convert({**document, "hosts": {}}, ClusterFile, "")
    if not isinstance(tables, dict) or not tables:
        raise InputError("expected at least one host", at="hosts", hint="write [hosts.h1]")
    hosts = [_host(name, table) for name, table in tables.items()]
    default, links = _links(document.get("links", {}))
    machines = {
        name: convert(table, MachineTable, f"machines.{name}").cores
        for name, table in document.get("machines", {}).items()
    }
    return Cluster.of(hosts, default, links, _spark(document.get("spark")), machines)


def _host(name: str, document: object) -> Host:
    at = f"hosts.{name}"
    if not name or set(name) & set(",=@:# \t") or "->" in name:
        raise InputError("expected a name of letters, digits, '_', '-' and '.'", at=at)
    table = convert(document, HostTable, at)
    for key in ("capacity", "quota", "price"):
        if not math.isfinite(getattr(table, key)):
            raise InputError(f"expected a finite number, got {getattr(table, key)}", at=f"{at}.{key}")
    if table.spark is not None and not table.spark.startswith("sc://"):
        raise InputError(f"expected an endpoint such as 'sc://node1:15002', got {table.spark!r}", at=f"{at}.spark")
    if table.spark is not None and "token=" in table.spark:
        raise InputError(
            "a token does not belong into a file", at=f"{at}.spark", hint="name an environment variable in token_env"
        )
    own = {key: getattr(table, key) for key in HostTable.__struct_fields__ if key != "memory"}
    try:
        memory = math.inf if table.memory is None else size(table.memory)
    except InputError as error:
        raise InputError(error.problem, at=f"{at}.memory") from None
    return Host(name=name, memory=memory, **own)


def _links(document: Document) -> tuple[Link, dict[tuple[str, str], Link]]:
    own = {key: value for key, value in document.items() if not isinstance(value, dict)}
    default = _link(own, Link(), "links")
    links = {}
    for name, table in document.items():
        if isinstance(table, dict):
            start, arrow, end = name.partition("->")
            if not (start and arrow and end):
                raise InputError(f'expected a link such as "h1->h2", got {name!r}', at=f"links.{name}")
            links[start.strip(), end.strip()] = _link(table, default, f"links.{name}")
    return default, links


def _link(document: object, default: Link, at: str) -> Link:
    table = convert(document, LinkTable, at)
    delay = default.delay if table.delay is None else table.delay
    bandwidth = default.bandwidth if table.bandwidth is None else table.bandwidth
    if not math.isfinite(delay):
        raise InputError(f"expected a finite number of seconds, got {delay}", at=f"{at}.delay")
    if math.isnan(bandwidth):
        raise InputError("expected tuples per second, got nan", at=f"{at}.bandwidth")
    return Link(delay, bandwidth)


def _spark(document: object) -> SparkSettings:
    table = convert({} if document is None else document, SparkTable, "spark")
    trigger, checkpoint = (_seconds(table, key) for key in ("trigger", "checkpoint"))
    if checkpoint < LEAST:
        raise InputError(
            f"expected {LEAST:.0f} seconds at least, got {checkpoint:g}",
            at="spark.checkpoint",
            hint="Spark takes no less",
        )
    return SparkSettings(
        mode=table.mode,
        trigger=trigger,
        checkpoint=checkpoint,
        hop=table.hop,
        directory=table.directory,
        conf={key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in table.conf.items()},
        jars=tuple(table.jars),
        packages=tuple(table.packages),
        kafka={key: str(value) for key, value in table.kafka.items()},
        given=document is not None,
    )


def _seconds(table: SparkTable, key: str) -> float:
    try:
        return seconds(getattr(table, key))
    except InputError as error:
        raise InputError(error.problem, at=f"spark.{key}") from None


def cluster_schema() -> Document:
    """Return the JSON schema of cluster files."""
    schema = schema_of(ClusterFile, "cluster")
    (links, spark), parts = msgspec.json.schema_components((LinkTable, SparkTable), ref_template="#/$defs/{name}")
    properties = schema["$defs"]["ClusterFile"]["properties"]
    properties["links"]["additionalProperties"] = links
    properties["links"]["properties"] = parts["LinkTable"]["properties"]
    properties["spark"] = spark
    schema["$defs"].update(parts)
    return schema
