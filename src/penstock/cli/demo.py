"""``penstock demo``: the whole chain, with nothing to prepare."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import common, options
from penstock.files import Document, check_file, write_json

REPORT = "demo-report.json"
PICTURES = {"demo.png": "light", "demo-dark.png": "dark", "demo.svg": "light", "demo-dark.svg": "dark"}
"""The pictures of a demo, and what page each is for."""


def command(
    out: Annotated[
        str,
        typer.Option(
            "--out", metavar="DIR", callback=options.folder, help="Folder for demo-report.json and the pictures."
        ),
    ] = ".",
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Calibrate, place, predict, run and compare six auction queries on two embedded Spark hosts (4 to 5 minutes).

    Example: penstock demo --out /tmp/demo
    """
    from penstock.files import plain
    from penstock.running.demo import demo, outcome_of

    folder = Path(out)
    for name in (REPORT, *PICTURES):
        check_file(folder / name, "--out")
    begin = time.monotonic()
    with common.progress() as tell:
        document = demo(seed, tell, common.say)
    when = {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "took": time.monotonic() - begin}
    document = plain({**document, **when})
    write_json(folder / REPORT, document)
    from penstock.pictures.demo import demo_picture

    for name, theme in PICTURES.items():
        demo_picture(document, folder / name, theme)
    if json:
        common.answer(document)
        return
    _show(document)
    common.say(f"wrote {folder / REPORT}, {', '.join(PICTURES)}")
    common.say(outcome_of(document["plans"]))


def _show(document: Document) -> None:
    from penstock.cli.calibrate import show_hosts
    from penstock.cli.run import show

    common.table(
        "calibration",
        ["operator", "cost (µs)", "selectivity", "error"],
        [
            [name, common.microseconds(row), _largest(row.get("selectivity")), f"{row['error']:.1%}"]
            for name, row in document["calibration"]["operators"].items()
        ],
    )
    show_hosts(document["calibration"])
    show_plans(document)
    show(document)
    bar = document["error_bar"]
    common.say(
        f"an error of {bar['cost_error']:.1%} in the costs of {bar['host']} (load {bar['load']:.2f}), "
        f"as they may have, is {bar['latency_error']:.1%} of the worst latency"
        if bar["cost_error"]
        else f"{bar['host']} decides the worst latency, at load {bar['load']:.2f}"
    )


def show_plans(document: Document) -> None:
    """Print what was planned, and measured of the plans that were run."""
    common.table(
        "plans",
        [
            "placement",
            *(f"{host} load" for host in document["hosts"]),
            "largest std",
            "predicted worst (s)",
            "p99 (s)",
            "measured worst (s)",
            "p99 (s)",
        ],
        [
            [
                name,
                *(plan["load"][host]["mean"] for host in document["hosts"]),
                max(row["std"] for row in plan["load"].values()),
                plan["predicted"]["max"],
                plan["predicted"]["p99"],
                *(plan["measured"][key] if "measured" in plan else "" for key in ("max", "p99")),
            ]
            for name, plan in document["plans"].items()
        ],
    )


def show_result(document: Document) -> None:
    """Print what came out in short: plans, latency over all sinks, and one sentence."""
    from penstock.cli.run import show_latency
    from penstock.running.demo import outcome_of

    show_plans(document)
    show_latency(document, {})
    common.say(outcome_of(document["plans"]))


def _largest(value: float | list[float] | None) -> float:
    return max(value) if isinstance(value, list) else value or 0.0
