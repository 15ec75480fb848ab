"""What is deployed, as one document."""

from __future__ import annotations

import json

from penstock.cluster import Cluster, Host, Placement
from penstock.load.setting import Setting, setting_of
from penstock.network import Network, Operator, Sink, Source
from penstock.network.model import Growth


def test_a_setting_comes_back_without_what_nobody_may_see() -> None:
    """Network, hosts and growth are those that were written; options of sources and addresses are left out."""
    sums = Operator(
        name="sums", kind="aggregate", inputs=("s",), by=("x", "y"), cost=(1e-3,), selectivity=(0.1,),
        growth=Growth(0.5, 100.0),
    )  # fmt: skip
    source = Source(name="s", format="kafka", options={"password": "secret"}, lateness=2.0)
    network = Network.of("n", [source], [sums], [Sink(name="t", input="sums", weight=2.0)])
    cluster = Cluster.of([Host(name="h1", spark="sc://far"), Host(name="h2", memory=5.0)])
    text = json.dumps(Setting(network=network, cluster=cluster, placement=Placement({"sums": "h1"})).document())
    assert "secret" not in text
    assert "far" not in text
    again = setting_of(json.loads(text))
    assert again.network.operators == network.operators
    assert dict(again.network.sources) == {"s": Source(name="s", format="kafka", lateness=2.0)}
    assert again.network.sinks == network.sinks
    assert dict(again.cluster.hosts) == {"h1": Host(name="h1"), "h2": Host(name="h2", memory=5.0)}
