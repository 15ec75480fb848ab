"""Pictures: each is drawn, shows what it must, and is the same bytes twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.advice import Aims, advise, deployed, with_burst
from penstock.advice.pictures import before_after, heat_map, load_matrix, timeline, write_pictures
from penstock.inspection import inspect
from penstock.pictures.save import save
from penstock.telemetry import read_telemetry


def made(make: Any, write: Any) -> Any:
    noisy = make.paced("clicks", trigger=30.0, noise=0.05, state=lambda n: 10 * n, lag=5)
    return inspect(read_telemetry([str(write([*noisy, *make.paced("views", count=500, begin=make.EPOCH + 0.5)]))]))


def words(figure: Any) -> str:
    import matplotlib.text

    return " | ".join(text.get_text() for text in figure.findobj(matplotlib.text.Text))


def test_a_timeline_has_what_the_query_has(make: Any, write: Any) -> None:
    """Rate, batches with the trigger, lag and state have a panel each; what a query lacks has none."""
    found = made(make, write)
    full, plain = timeline(found.queries["clicks"]), timeline(found.queries["views"])
    assert len(full.axes) == 4
    assert len(plain.axes) == 3
    assert "trigger 30 s" in words(full)
    assert "rows of state" in words(full)


def test_matrix_and_heat_map_name_every_query(make: Any, write: Any) -> None:
    """Both pictures of all queries name each of them."""
    deployment = with_burst(deployed(made(make, write)), 3, 60)
    for figure in (load_matrix(deployment), heat_map(deployment)):
        assert {"clicks", "views"} <= set(words(figure).split(" | "))
    assert "burst" in words(heat_map(deployment))


def test_pictures_are_written(make: Any, write: Any, tmp_path: Path) -> None:
    """All pictures are written as PNG and SVG, the bound among what they show."""
    found = made(make, write)
    report = advise(deployed(found), Aims(latency=12.0), np.random.default_rng(0), 5)
    assert "bound" in words(before_after(report, report.advice[0]))
    written = [Path(path) for path in write_pictures(report, tmp_path / "out", found, most=1)]
    assert {path.name for path in written} >= {"load.png", "correlation.svg", "query-clicks.png", "query-views.svg"}
    assert any(path.name.startswith("advice-1-") for path in written)
    assert all(path.stat().st_size > 2000 for path in written)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_same_picture_is_the_same_bytes(job: Any, deployment: Any, tmp_path: Path, ending: str) -> None:
    """The same values give the same bytes."""
    for name in ("one", "two"):
        save(heat_map(deployment(job())), tmp_path / f"{name}.{ending}")
    assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


def test_names_alike_have_pictures_of_their_own(make: Any, write: Any, tmp_path: Path) -> None:
    """Queries whose names make the same file's name, or hold formulas, have a picture each."""
    names = ("orders/eu", "orders#eu", "$\\bad{$")
    events = [each for k, name in enumerate(names) for each in make.paced(name, count=60, begin=make.EPOCH + 0.5 * k)]
    found = inspect(read_telemetry([str(write(events))]))
    written = write_pictures(advise(deployed(found), Aims(), np.random.default_rng(0)), tmp_path, found)
    assert len({path for path in written if "query-" in path and path.endswith("png")}) == 3
