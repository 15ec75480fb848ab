"""What comes to the users' topics in real-time mode: when each row was visible there, and how often."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Mapping

import attrs
import numpy as np

from penstock.errors import EngineError
from penstock.spark.compile import Deployment, PromptQuery, Query, Way
from penstock.spark.hop.rows import RowTopic
from penstock.spark.left import said
from penstock.spark.run.looking import Looking
from penstock.spark.shipped.place import Place
from penstock.spark.shipped.told import note_of

METERS = "meters"
"""Folder, below the run's, of how far the sinks' topics have been looked at."""

LOOK = 2.0
"""Seconds between two looks."""


@attrs.define
class Known:
    """How far a topic has been looked at.

    Attributes
    ----------
    number
        Of the next note.
    offsets
        Next offset of each partition.
    last
        Position of the last row by ``partition/lane``.
    repeated
        Rows that were there twice.
    """

    number: int
    offsets: dict[int, int]
    last: dict[str, int] = attrs.field(factory=dict)
    repeated: int = 0

    @classmethod
    def read(cls, place: Place) -> Known | None:
        """Read what a file says; None if there is none."""
        try:
            known = said(place)
        except FileNotFoundError:
            return None
        offsets = {int(key): at for key, at in known["offsets"].items()}
        return cls(known["number"], offsets, known["last"], known["repeated"])

    def write(self, place: Place) -> None:
        """Write it down."""
        place.replace(json.dumps(attrs.asdict(self)).encode())


class Meter(Looking):
    """Looks at the topic of a sink while its rows come.

    Parameters
    ----------
    folder
        Of the run: latencies go where those of other sinks are.
    client
        Settings of librdkafka.
    way
        The sink.
    """

    def __init__(self, folder: Place, client: Mapping[str, str], way: Way) -> None:
        super().__init__(f"meter {way.name}")
        self._folder, self._sink, self._place = folder, way.name, meter_of(folder, way.name)
        self._topic = RowTopic(client, way.topic, way.label)
        known = Known.read(self._place)
        if known is None:
            # What the topic had before is not ours.
            known = Known(0, self._topic.ends())
            known.write(self._place)
        self.known = known

    def run(self) -> None:
        """Look again and again."""
        try:
            while not self._ended.wait(LOOK):
                # A broker may be away; what has come is noted when it answers.
                with contextlib.suppress(EngineError):
                    self.look()
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        """Look a last time, and let the topic go.

        Raises
        ------
        BaseException
            What ended it before.
        """
        try:
            super().end()
            self.look()
        finally:
            self._topic.__exit__()

    def look(self) -> None:
        """Note the rows that have come."""
        end = self._topic.ends()
        if end == self.known.offsets:
            return
        known = Known(self.known.number + 1, end, {**self.known.last}, self.known.repeated)
        found: list[tuple[int, int]] = []
        # Of partitions that were added, and of a topic that was made again, all rows are new.
        begin = {number: self.known.offsets.get(number, 0) for number in end}
        for row in self._topic.rows({number: at if at <= end[number] else 0 for number, at in begin.items()}, end):
            lane = f"{row.partition}/{row.lane}"
            if row.position <= known.last.get(lane, -1):
                known.repeated += 1
                continue
            known.last[lane] = row.position
            found.append((1000 * row.visible, row.stimulus))
        # Cut off here, the same rows are noted again under the same number.
        content = io.BytesIO()
        np.save(content, np.array(found, np.int64).reshape(-1, 2).T)
        note_of(self._folder, metered(self._sink), self.known.number, self._sink).replace(content.getvalue())
        known.write(self._place)
        self.known = known


class Meters:
    """The meters of a run, by sink."""

    def __init__(self) -> None:
        self._all: dict[str, Meter] = {}

    def begin(self, query: Query, deployment: Deployment) -> None:
        """Look at the topics to which a query in real-time mode brings rows, before any comes."""
        for way in query.messages.ways if isinstance(query, PromptQuery) else ():
            if way.sink and way.name not in self._all:
                self._all[way.name] = Meter(deployment.place, deployment.client, way)
                self._all[way.name].start()

    def end(self) -> None:
        """Look a last time, and measure no more; what runs goes on."""
        while self._all:
            self._all.popitem()[1].end()


def metered(sink: str) -> str:
    """Return in whose name a sink's meter notes latencies: no query is called so."""
    return f"@{sink}"


def meter_of(folder: Place, sink: str) -> Place:
    """Return the place of how far a sink's topic has been looked at."""
    return folder / METERS / f"{sink}.json"


def looks_of(folder: Place, sink: str) -> int:
    """Return how often rows were found in a sink's topic, each time with a note."""
    known = Known.read(meter_of(folder, sink))
    return 0 if known is None else known.number


def repeated_of(folder: Place, sink: str) -> int:
    """Return how many rows came to a sink's topic twice."""
    known = Known.read(meter_of(folder, sink))
    return 0 if known is None else known.repeated
