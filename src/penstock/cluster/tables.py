"""The tables of a cluster file, which are also its schema."""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock.cluster.model import MOST_CORES
from penstock.files import Document


class HostTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[hosts.NAME]``: one host."""

    capacity: Annotated[float, msgspec.Meta(gt=0, description="benchmark cores")] = 1.0
    quota: Annotated[float, msgspec.Meta(gt=0, le=1, description="share of the capacity that we may use")] = 1.0
    cores: Annotated[int, msgspec.Meta(ge=1, le=MOST_CORES, description="tuples served at a time")] = 1
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

    cores: Annotated[int, msgspec.Meta(ge=1, le=MOST_CORES, description="hosts that can work at once")]


class LinkTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``[links."a->b"]``: one link."""

    delay: Annotated[float, msgspec.Meta(ge=0, description="seconds")] | None = None
    bandwidth: Annotated[float, msgspec.Meta(gt=0, description="tuples per second")] | None = None


class ClusterFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A cluster file."""

    hosts: dict[str, HostTable]
    links: Annotated[
        Document, msgspec.Meta(description='delay and bandwidth of every pair, and tables "a->b" of single pairs')
    ] = {}
    spark: Document = {}
    machines: Annotated[dict[str, MachineTable], msgspec.Meta(description="machines that hosts share")] = {}
