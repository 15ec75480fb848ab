"""Cluster files (TOML) and their schema."""

from __future__ import annotations

import math
import os
import re

import attrs
import msgspec

from penstock.cluster.model import Cluster, Host, Link
from penstock.cluster.spark_conf import check_conf
from penstock.cluster.spark_table import SparkTable, spark_settings
from penstock.cluster.tables import ClusterFile, HostTable, LinkTable, MachineTable
from penstock.errors import InputError
from penstock.files import Document, Text, check_name, convert, schema_of
from penstock.units import size

_ENDPOINT = re.compile(r"sc://(\[[^]]+\]|[^/;:]+)(:\d{1,5})?(/.*)?")


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
        cluster = parse_cluster(document)
    except InputError as error:
        raise error.located(text.name, text.line_of(error.at)) from None
    return attrs.evolve(cluster, spark=attrs.evolve(cluster.spark, file=text.name))


def parse_cluster(document: Document) -> Cluster:
    """Build a cluster from the tables of a cluster file."""
    tables = document.get("hosts", {})
    if isinstance(tables, dict):
        # Each host and machine by itself, so that messages name it.
        alone: Document = {key: {} for key in ("hosts", "machines") if isinstance(document.get(key), dict)}
        convert({"hosts": {}, **document, **alone}, ClusterFile, "")
    if not isinstance(tables, dict) or not tables:
        raise InputError("expected at least one host", at="hosts", hint="write [hosts.h1]")
    hosts = [_host(name, table) for name, table in tables.items()]
    default, links = _links(document.get("links", {}))
    machines = {
        name: convert(table, MachineTable, f"machines.{name}").cores
        for name, table in document.get("machines", {}).items()
    }
    settings = spark_settings(document.get("spark"))
    if not any(host.spark for host in hosts):
        # Where Spark runs already, what it was started with is not ours to say.
        check_conf(settings.conf)
    return Cluster.of(hosts, default, links, settings, machines)


def _host(name: str, document: object) -> Host:
    at = f"hosts.{name}"
    check_name(name, at)
    table = convert(document, HostTable, at)
    for key in ("capacity", "quota", "price"):
        if not math.isfinite(getattr(table, key)):
            raise InputError(f"expected a finite number, got {getattr(table, key)}", at=f"{at}.{key}")
    if table.spark is None and table.token_env is not None:
        raise InputError("only an endpoint has a token", at=f"{at}.token_env", hint='give spark = "sc://node1:15002"')
    if table.token_env is not None and not table.token_env.strip():
        hint = "leave it out where there is no token"
        raise InputError("expected the name of a variable, got an empty one", at=f"{at}.token_env", hint=hint)
    if table.spark is not None and "token=" in table.spark:
        hint = "name an environment variable in token_env"
        raise InputError("a token does not belong into a file", at=f"{at}.spark", hint=hint)
    if table.spark is not None and not _ENDPOINT.fullmatch(table.spark):
        raise InputError(f"expected an endpoint such as 'sc://node1:15002', got {table.spark!r}", at=f"{at}.spark")
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
            pair = start.strip(), end.strip()
            if pair[0] == pair[1]:
                raise InputError("expected two hosts, a host has no link to itself", at=f"links.{name}")
            if pair in links:
                raise InputError("is given twice", at=f"links.{name}", hint="leave one of them out")
            links[pair] = _link(table, default, f"links.{name}")
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


def cluster_schema() -> Document:
    """Return the JSON schema of cluster files."""
    schema = schema_of(ClusterFile, "cluster")
    (links, spark), parts = msgspec.json.schema_components((LinkTable, SparkTable), ref_template="#/$defs/{name}")
    properties = schema["$defs"]["ClusterFile"]["properties"]
    properties["links"] |= {"additionalProperties": links, "properties": parts["LinkTable"]["properties"]}
    properties["spark"] = spark
    schema["$defs"].update(parts)
    return schema
