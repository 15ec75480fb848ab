"""What a batch reads of a source can be bounded while a run goes on, whatever kind of source it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InputError
from penstock.network import Network, Source, chain
from penstock.spark.compile import Pace, refuse_limit
from penstock.spark.compile.sources import options_of
from penstock.spark.shipped.checkpoint import files_seen
from penstock.spark.shipped.nexmark import Events
from penstock.spark.shipped.place import Place


def test_a_limit_is_what_a_batch_may_read_on_its_host() -> None:
    """Tuples a second become tuples, or files, a batch at the host's own interval; unlimited sources have none."""
    pace = Pace(0.5, {"h2": 2.0}).limited("s", 100.0, 1.0).limited("f", 100.0, 20.0)
    assert [pace.most("s", host) for host in ("h1", "h2")] == [50, 200]
    assert [pace.most("f", host) for host in ("h1", "h2")] == [2, 10]
    assert pace.most("other", "h1") is None
    assert pace.limited("s", None, 1.0).most("s", "h1") is None
    assert Pace(0.0).limited("s", 0.1, 1.0).most("s", "h1") == 1


def test_a_pace_outlives_its_controller(tmp_path: Path) -> None:
    """A controller that comes later finds triggers and limits; the interval of all hosts is its own."""
    pace = Pace(0.5, {"h2": 2.0}).limited("s", 100.0, 1.0)
    pace.note(Place(str(tmp_path)))
    network = chain([0.001])
    assert Pace.of(0.7, network, Place(str(tmp_path))) == Pace(0.7, {"h2": 2.0}, {"s": 100.0}, {"s": 1.0})
    assert Pace.of(0.7, network, Place(str(tmp_path / "none"))) == Pace(0.7)


def test_queries_left_running_are_asked_how_they_read(tmp_path: Path) -> None:
    """A query whose trigger or reading options are not those of now differs; others, and clients' options, do not."""

    def noted(trigger: float = 1.0, **options: str) -> Pace:
        kept = Source(name="kept", format="json", schema="n bigint", options={"path": "in", "maxFilesPerTrigger": "7"})
        read = Source(name="read", format="kafka", options={"subscribe": "t", "kafka.sasl.jaas.config": "x", **options})
        return Pace.of(trigger, Network.of("n", [kept, read], [], []), Place(str(tmp_path)))

    noted(maxOffsetsPerTrigger="10").note(Place(str(tmp_path)))
    before = Pace.noted(Place(str(tmp_path)))
    assert before is not None
    assert "sasl" not in (tmp_path / "pace.json").read_text()
    for same in (noted(maxoffsetspertrigger="10"), noted(maxOffsetsPerTrigger="10", includeHeaders="true")):
        assert not before.differs(same, "h1", ["kept", "read"])
    for other in (noted(), noted(maxOffsetsPerTrigger="11"), noted(minPartitions="2", maxOffsetsPerTrigger="10")):
        assert before.differs(other, "h1", ["kept", "read"])
        assert not before.differs(other, "h1", ["kept"])
    assert before.differs(noted(2.0, maxOffsetsPerTrigger="10"), "h1", [])


def test_a_host_with_the_usual_interval_is_no_exception() -> None:
    """A trigger set back to the interval of all hosts leaves nothing for a later controller, whose interval counts."""
    slower = Pace(0.5).paced("h1", 2.5)
    assert slower.triggers == {"h1": 2.5}
    assert slower.paced("h1", 0.5) == Pace(0.5)


@pytest.mark.parametrize(
    ("form", "own", "bound"),
    [
        ("kafka", {}, {"maxOffsetsPerTrigger": "70"}),
        ("kafka", {"maxoffsetspertrigger": "60"}, {"maxOffsetsPerTrigger": "60"}),
        ("json", {"maxFilesPerTrigger": "90"}, {"maxFilesPerTrigger": "70"}),
        ("json", {}, {"maxFilesPerTrigger": "70"}),
    ],
)
def test_spark_gets_one_bound(form: str, own: dict[str, str], bound: dict[str, str]) -> None:
    """Spark takes one bound of a reader: the limit, or the user's where that is lower."""
    options = options_of(Source(name="s", format=form, options=own), {}, most=70)
    assert {key: value for key, value in options.items() if key.lower().startswith("max")} == bound


def test_no_log_in_goes_to_brokers_of_others() -> None:
    """A source on brokers of its own gets nothing of the cluster's; on the same ones, all that it does not say."""
    kafka = {"kafka.bootstrap.servers": "a:9092", "kafka.sasl.jaas.config": "secret"}
    own = {"subscribe": "t", "kafka.bootstrap.servers": "b:9092"}
    options = options_of(Source(name="s", format="kafka", options=own), kafka, unbounded=True)
    assert options == {**own, "startingOffsets": "earliest"}
    same = {"subscribe": "t", "kafka.bootstrap.servers": "a:9092"}
    options = options_of(Source(name="s", format="kafka", options=same), kafka, unbounded=True)
    assert options == {**kafka, **same, "startingOffsets": "earliest"}


@pytest.mark.parametrize(
    "source",
    [Source(name="s", format="rate"), Source(name="s", format="json", options={"maxBytesPerTrigger": "1m"})],
)
def test_what_spark_cannot_limit_is_refused(source: Source) -> None:
    """A source that has no such bound, or one that goes with no other, is refused with the reason."""
    with pytest.raises(InputError, match=r"limited|bounded"):
        refuse_limit(source)


def test_a_schedule_is_read_in_parts(tmp_path: Path) -> None:
    """A limited scheduled source gives so many events a batch, in order, until all that are due have come."""
    options: dict[str, Any] = {"rates": json.dumps({"values": [50.0], "period": 10.0}), "lateness": "0", "most": "200"}
    (tmp_path / "epoch").write_text("0")
    events = Events({**options, "gate": str(tmp_path / "epoch")})
    come = [events.first]
    for _ in range(4):
        come.append(events.due(come[-1]))
    assert [offset["event"] for offset in come] == [0, 200, 400, 500, 500]


def test_listed_files_are_counted_once(tmp_path: Path) -> None:
    """Files in a compacted list and in those after it are counted once each."""
    place = tmp_path / "sources" / "0"
    place.mkdir(parents=True)
    entry = '{"path":"file:///a","timestamp":1,"batchId":0}'
    for name, count in (("8", 1), ("9.compact", 10), ("10", 2), ("11", 1)):
        (place / name).write_text("\n".join(["v1", *[entry] * count]))
    (place / ".11.crc").write_text(entry)
    assert files_seen(Place(str(tmp_path)), 0) == 13
