"""WHERE it runs: hosts, links, placements."""

from penstock.cluster.alike import alike
from penstock.cluster.file import read_cluster
from penstock.cluster.model import Cluster, Host, Link, SparkSettings
from penstock.cluster.placement import Placement, base_name, copies_of, hosts_by_operator, with_copies
from penstock.cluster.placement_file import parse_placement, read_placement

__all__ = [
    "Cluster",
    "Host",
    "Link",
    "Placement",
    "SparkSettings",
    "alike",
    "base_name",
    "copies_of",
    "hosts_by_operator",
    "parse_placement",
    "read_cluster",
    "read_placement",
    "with_copies",
]
