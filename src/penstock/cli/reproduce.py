"""``penstock reproduce``."""

from __future__ import annotations

from typing import Annotated

import attrs
import typer

from penstock.cli import common, options


def command(
    figures: Annotated[
        list[str] | None, typer.Argument(metavar="[FIGURE]...", help="Figures such as economical-7; default: all.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and smaller sizes.")] = False,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR|PAGE.md", help="Write the pictures and a page with them here.")
    ] = None,
    seed: options.SeedOption = 0,
    json: options.JsonOption = False,
) -> None:
    """Repeat the papers' experiments and check their claims.

    Example: penstock reproduce economical-7 --quick
    """
    from pathlib import Path

    from penstock.errors import InputError
    from penstock.experiments import Figure, reproduce

    # A page of a given name has its pictures in a folder of that name.
    beside = out is not None and Path(out).suffix == ".md"
    folder = None if out is None else Path(out).with_suffix("") if beside else Path(out)
    if beside:
        options.checked_output(out, "--out")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError("expected a folder, got a file", file=folder, at="--out")
    with common.progress() as show:
        made: list[Figure] = list(reproduce(figures or (), quick=quick, seed=seed, progress=show))
    if out is not None and folder is not None:
        from penstock.experiments.gallery import draw, page
        from penstock.files import atomic

        for figure in made:
            draw(figure, folder)
        with atomic(Path(out) if beside else folder / "index.md") as file:
            file.write(page(made, folder.name if beside else "", quick))
    claims = [claim for figure in made for claim in figure.claims]
    if json:
        common.answer({"quick": quick, "claims": [attrs.asdict(claim) for claim in claims]})
    else:
        common.table(
            "claims of the papers",
            ["paper", "figure", "claim", "expected", "measured", "holds"],
            [
                [claim.paper, claim.figure, claim.name, claim.expected, claim.measured, "yes" if claim.holds else "no"]
                for claim in claims
            ],
        )
        for claim in claims:
            if claim.note and not claim.holds:
                typer.echo(f"{claim.paper} {claim.figure}, {claim.name}: {claim.note}")
    if not all(claim.holds for claim in claims):
        raise typer.Exit(1)
