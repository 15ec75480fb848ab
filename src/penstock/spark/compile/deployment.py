"""What all queries of a run share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import attrs
from pyspark.sql.types import StructType

from penstock.cluster import hosts_by_operator
from penstock.files import Document
from penstock.latency.fragments import Fragment, fragments, lineage
from penstock.network import Network
from penstock.spark.compile.drops import Drops
from penstock.spark.compile.pace import Pace
from penstock.spark.connection import Connection
from penstock.spark.hop.topics import Topics
from penstock.spark.shipped.place import Place, place_of


@attrs.frozen(eq=False)
class Deployment:
    """What all queries of a run share.

    Attributes
    ----------
    network, placement
        Every operator placed, with its copies.
    folder
        Path or URI of the run: logs, checkpoints, sinks, manifests.
    keep
        Keep fraction by stream.
    speeds
        Steps of a delay's loop per second, by host.
    schedules
        Options of the Nexmark sources, by source.
    schemas
        Of every source's and operator's rows, without envelope.
    everything
        Whether scheduled sources give all their events at once.
    live
        Streams whose keep fractions may change while it runs.
    apart
        Operators that are queries of their own, so that they can move alone.
    units
        The streaming queries, where they are not those that network and placement give.
    begins
        By query, the first batch of a log or event of a schedule that it takes, where that is not 0.
    since
        By stream, rows of its log that its reader was never to take, less those that reached it another way.
    about
        What the folder tells those who look on, of `penstock.load.setting.Setting`.
    kafka
        The cluster's Kafka, if it names one.
    hop
        How rows pass between queries: ``directory`` or ``kafka``.
    real_time, checkpoint
        Operators that run in real-time mode, and how often (s) Spark notes how far their queries have come.
    copy
        Checkpoint of the copy of a query that is compiled; empty where there are none.
    limits, timed
        Where a query reads live keep fractions (None: from its host's JVM), and whether they hold by stimulus times.
    pace
        How often hosts begin a batch, and how much of a source one may read.
    fitting
        By Kafka source, how many messages a batch has room for, where the user does not say.
    teach
        Whether the run is to tell of the rows between queries in real-time mode.
    """

    network: Network
    placement: Mapping[str, str]
    folder: str
    keep: Mapping[str, float] = attrs.field(factory=dict)
    speeds: Mapping[str, float] = attrs.field(factory=dict)
    schedules: Mapping[str, dict[str, str]] = attrs.field(factory=dict)
    schemas: Mapping[str, StructType] = attrs.field(factory=dict)
    everything: bool = False
    live: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()
    units: tuple[Fragment, ...] | None = None
    begins: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict)
    since: Mapping[str, int] = attrs.field(factory=dict)
    about: Document | None = None
    kafka: Connection | None = None
    hop: str = "directory"
    real_time: frozenset[str] = frozenset()
    checkpoint: float = 60.0
    copy: str = ""
    limits: Place | None = None
    timed: bool = False
    pace: Pace = attrs.field(factory=Pace)
    fitting: Mapping[str, int] = attrs.field(factory=dict)
    teach: bool = False

    @cached_property
    def place(self) -> Place:
        """The run's folder."""
        return place_of(self.folder)

    @property
    def messages(self) -> Mapping[str, str]:
        """Options of Spark's Kafka readers and writers."""
        return {} if self.kafka is None else self.kafka.spark

    @property
    def partitions(self) -> int:
        """Partitions of the topics that rows pass through."""
        return 1 if self.kafka is None else self.kafka.partitions

    def topics(self, run: str) -> Topics | None:
        """Return where the logs of a run are, if in topics."""
        if self.hop != "kafka" or self.kafka is None:
            return None
        return self.row_topics(run)

    @property
    def client(self) -> Mapping[str, str]:
        """Settings of librdkafka, where there is Kafka."""
        if self.kafka is None:
            raise AssertionError("no Kafka")  # check_network() refuses it
        return self.kafka.native

    def row_topics(self, run: str) -> Topics:
        """Return where the rows are that operators in real-time mode pass on."""
        return Topics(self.client, f"penstock-{run}", self.partitions)

    @property
    def drops(self) -> Drops:
        """What the streams let through."""
        return Drops(self.keep, self.live, self.place, self.limits, self.copy, self.timed)

    def lateness(self, writer: str) -> float:
        """Return the lateness of a stream: the largest of its sources (s)."""
        return max(self.network.sources[source].lateness for source in lineage(self.network)[writer])

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """The streaming queries; of copies the first."""
        if self.units is not None:
            return self.units
        # What shares a query has its copies on the same hosts.
        hosts = hosts_by_operator(self.placement)
        places = {tuple(mine): ",".join(mine) for mine in hosts.values()}
        together = {name: places[tuple(mine)] for name, mine in hosts.items()}
        first = {place: mine[0] for mine, place in places.items()}
        made = fragments(self.network, together, self.apart, self.real_time)
        return tuple(attrs.evolve(part, host=first[part.host]) for part in made)

    def prompt(self, query: Fragment) -> bool:
        """Whether a query runs in real-time mode."""
        return self.real_time.issuperset(query.operators)
