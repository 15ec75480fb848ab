"""The picture of hosts over bounds."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.sizing.plot import draw_hosts
from penstock.sizing.provision import Need


def test_hosts_are_whole_numbers_from_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The axis of hosts begins at 0 and has whole numbers only, also where every bound needs as many; all is named."""
    drawn: list[Any] = []
    monkeypatch.setattr("penstock.sizing.plot.save", lambda figure, _path: drawn.append(figure))
    draw_hosts("x.png", [Need(bound, 2, 1, 2.0) for bound in (1.0, 2.0, 4.0)], 2.0)
    axes = drawn[0].axes[0]
    assert axes.get_ylim()[0] == 0
    assert all(tick == round(tick) for tick in axes.get_yticks())
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["hosts", "at least", "bound 2 s"]
    assert axes.get_title()
