"""What is deployed, as one value: all that decisions and onlookers need to know of it, and its document."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import attrs

from penstock.cluster import Cluster, Placement, SparkSettings, read_cluster, read_placement
from penstock.cluster.model import Host, Link
from penstock.cluster.placement_file import parse_placement
from penstock.errors import InputError
from penstock.files import Document
from penstock.load.statistics import Statistics, parse_statistics, read_statistics
from penstock.network import Network, read_network, read_network_document
from penstock.network.model import Growth
from penstock.workload import Rates, read_rates

HIDDEN = ("folder", "options", "spark", "token_env")
"""Keys that may hold passwords, tokens, addresses or paths; nobody who looks on needs them."""


@attrs.frozen(eq=False, kw_only=True)
class Setting:
    """A network on its hosts, with what is known of it.

    Attributes
    ----------
    network, cluster, placement
        Every operator placed.
    statistics
        Measured costs.
    rates
        Of the sources (tuples/s); None where nobody told them before.
    keep
        Keep fractions by stream, those below 1.
    """

    network: Network
    cluster: Cluster
    placement: Placement
    statistics: Statistics = attrs.field(factory=Statistics)
    rates: Rates | None = None
    keep: Mapping[str, float] = attrs.field(factory=dict)

    def document(self) -> Document:
        """Return all of it as one JSON document, without passwords, tokens and addresses."""
        network, cluster = self.network, self.cluster
        return {
            "network": {
                "name": network.name,
                "sources": [_row(source) for source in network.sources.values()],
                "operators": [_row(operator) for operator in network.operators.values()],
                "sinks": [_row(sink) for sink in network.sinks.values()],
            },
            "cluster": {
                "hosts": [_row(host) for host in cluster.hosts.values()],
                "link": _link(cluster.default_link),
                "links": [[start, end, _link(link)] for (start, end), link in cluster.links.items()],
                "machines": dict(cluster.machines),
                "spark": {key: getattr(cluster.spark, key) for key in ("mode", "trigger", "hop", "given")},
            },
            "placement": dict(sorted(self.placement.items())),
            "statistics": self.statistics.document(),
            "rates": None if self.rates is None else _rates(self.rates),
            "keep": dict(sorted(self.keep.items())),
        }


def setting_of(document: Document) -> Setting:
    """Return the setting that `Setting.document` wrote.

    Raises
    ------
    InputError
        If the document is another one.
    """
    try:
        return _setting_of(document)
    except (LookupError, TypeError, ValueError, AttributeError):
        raise InputError(
            "does not tell what is deployed",
            hint="it is damaged, or of another version of penstock: begin the run again with this one",
        ) from None


def _setting_of(document: Document) -> Setting:
    cluster, rates = document["cluster"], document["rates"]
    links = {(start, end): _link_of(link) for start, end, link in cluster["links"]}
    return Setting(
        network=read_network_document(document["network"]),
        cluster=Cluster.of(
            [Host(**row) for row in cluster["hosts"]],
            _link_of(cluster["link"]),
            links,
            SparkSettings(**cluster["spark"]),
            cluster["machines"],
        ),
        placement=parse_placement({"placement": document["placement"]}),
        statistics=parse_statistics(document["statistics"]),
        rates=None if rates is None else Rates.of(rates["period"], rates["values"], rates["start"]),
        keep=document["keep"],
    )


def read_setting(folder: Path) -> Setting:
    """Read network, cluster, placement and, where they are there, rates and statistics from a folder of files.

    Raises
    ------
    InputError
        If a file is missing or wrong.
    """
    network = read_network(folder / "network.toml")
    known, rates = folder / "statistics.json", folder / "rates.csv"
    cluster, placement = read_cluster(folder / "cluster.toml"), read_placement(folder / "placement.json")
    return Setting(
        network=network,
        cluster=cluster,
        placement=placement.check(network.operators, cluster.hosts, network.pins),
        statistics=read_statistics(known, network) if known.exists() else Statistics(),
        rates=read_rates(rates).check(network.sources) if rates.exists() else None,
    )


def begun(rates: Rates, network: Network) -> Rates:
    """Return rates as a run has them: scheduled sources begin with a window, whatever a file calls that moment."""
    return attrs.evolve(rates, start=0.0) if network.scheduled else rates


def _row(value: attrs.AttrsInstance) -> Document:
    """Return what differs from the defaults."""
    return {
        field.name: _plain(given)
        for field in attrs.fields(type(value))
        if field.name not in HIDDEN and (given := getattr(value, field.name)) != field.default
    }


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return attrs.asdict(value) if isinstance(value, Growth) else value


def _link(link: Link) -> list[float | None]:
    return [link.delay, link.bandwidth if math.isfinite(link.bandwidth) else None]


def _link_of(row: list[float | None]) -> Link:
    delay, bandwidth = row
    return Link(delay or 0.0, math.inf if bandwidth is None else bandwidth)


def _rates(rates: Rates) -> Document:
    values = dict(zip(rates.sources, rates.values.tolist(), strict=True))
    return {"period": rates.period, "start": rates.start, "values": values}
