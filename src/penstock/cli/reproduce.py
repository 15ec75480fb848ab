"""``penstock reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import attrs
import typer

from penstock.cli import common, options
from penstock.files import atomic, check_file, check_folder


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
    from penstock.experiments import Figure, reproduce

    if out is not None:
        # A page of a given name has its pictures in a folder of that name.
        beside = Path(out).suffix == ".md"
        file, folder = (Path(out), Path(out).with_suffix("")) if beside else (Path(out, "index.md"), Path(out))
        check_file(file, "--out")
        check_folder(folder, "--out")
    with common.progress() as show:
        made: list[Figure] = list(reproduce(figures or (), quick=quick, seed=seed, progress=show))
    if out is not None:
        from penstock.experiments.gallery import draw, page

        for figure in made:
            draw(figure, folder)
        with atomic(file) as text:
            text.write(page(made, folder.name if beside else "", quick))
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
