"""Controllers on hosts that others reach too."""

from __future__ import annotations

import msgspec
import pytest
from pyspark.sql import SparkSession

from penstock.errors import HostError
from penstock.spark.run import Engine, claims
from penstock.spark.run.claims import Claim, alone_on

pytestmark = pytest.mark.spark

ELSEWHERE = Claim("/runs/b", "elsewhere", "another", 1, 1.0)
KILLED = msgspec.structs.replace(Claim.of("/runs/c"), began=1.0)


@pytest.fixture
def sessions(engine: Engine) -> dict[str, SparkSession]:
    """Sessions of one server that two hosts of a cluster are."""
    return {"h1": engine.sessions["h1"], "again": engine.hosts["h1"].session()}


def test_one_controller_holds_a_server(sessions: dict[str, SparkSession], monkeypatch: pytest.MonkeyPatch) -> None:
    """A second controller is told whose a server is, until the first one has ended; one on itself is none."""
    with alone_on(lambda: sessions, "/runs/a"):
        monkeypatch.setattr(Claim, "of", lambda _folder: ELSEWHERE)
        with pytest.raises(HostError, match=r"host h1 has another controller, that of the run in /runs/a"):
            alone_on(lambda: sessions, "").__enter__()
        monkeypatch.undo()
    monkeypatch.setattr(Claim, "of", lambda _folder: ELSEWHERE)
    with alone_on(lambda: sessions, ""):
        pass
    assert claims._there(sessions["h1"]) is None


@pytest.mark.parametrize(("first", "forgotten"), [(KILLED, claims.FORGOTTEN), (ELSEWHERE, 0.0)])
def test_a_controller_that_has_gone_holds_nothing(
    sessions: dict[str, SparkSession], monkeypatch: pytest.MonkeyPatch, first: Claim, forgotten: float
) -> None:
    """A claim of a process that is no more, or that says nothing any longer, is taken over, and said again."""
    claims._say(sessions["h1"], first)
    monkeypatch.setattr(claims, "FORGOTTEN", forgotten)
    monkeypatch.setattr(claims, "EVERY", 0.05)
    with alone_on(lambda: sessions, "/runs/a"):
        assert claims._there(sessions["again"])[0] == Claim.of("/runs/a")
        sessions["h1"].catalog.dropGlobalTempView(claims.VIEW)
        while claims._there(sessions["again"]) is None:
            pass
    assert claims._there(sessions["h1"]) is None
