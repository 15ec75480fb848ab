"""Spark hosts: Spark Connect endpoints that penstock starts or that somebody else runs.

A host is one Spark application with its own driver and cores. `EmbeddedHost` starts one from the pip package, on the
loopback interface, behind a random token, in a folder of its own, and ends it with penstock. `RemoteHost` names a
running one, `KeptHost` an embedded one that outlives penstock. All hand out sessions. `start_hosts` starts or reaches
all hosts of a cluster, `begin_hosts` does so while other things are done.

    penstock ── supervisor ── JVM ── Python workers
                    ├───── lifeline ─────┤
                    └── nursery ─────────┘

Each process ends with the one to its left, however that one ended: the supervisor looks after penstock (unless the
host is to outlive it) and cleans up, the kernel kills the JVM with the supervisor, and the workers with their lifeline.
The workers are forks of the nursery, which has imported what they need.
"""

from penstock.spark.hosts.base import SparkHost
from penstock.spark.hosts.cores import available_cpus, cores_here
from penstock.spark.hosts.embedded import EmbeddedHost, Launch
from penstock.spark.hosts.kept_host import KeptHost
from penstock.spark.hosts.remote import RemoteHost
from penstock.spark.hosts.start import Hosts, begin_hosts, start_hosts

__all__ = [
    "EmbeddedHost",
    "Hosts",
    "KeptHost",
    "Launch",
    "RemoteHost",
    "SparkHost",
    "available_cpus",
    "begin_hosts",
    "cores_here",
    "start_hosts",
]
