"""Change the code of a room in small ways, one at a time, and see whether its tests notice: ``make mutation``.

mutmut makes the changes, in a copy of the tree, and runs the tests that touch each. Of every room the share of changes
that were noticed is told; what was not is shown by ``mutmut show NAME`` in the copy.

    python scripts/mutation.py                     # all rooms; hours
    python scripts/mutation.py verify              # one of them
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
WANTED = 0.85
"""Share of the changes that tests have to notice."""


class Room(NamedTuple):
    """What is changed, and which tests must notice."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]


ROOMS = {
    "load": Room(("src/penstock/load/",), ("tests/load",)),
    "mace": Room(
        ("src/penstock/latency/mace.py", "src/penstock/latency/ways.py"),
        ("tests/latency/test_mace.py", "tests/latency/test_bounds.py"),
    ),
    "program": Room(("src/penstock/shedding/program.py",), ("tests/shedding/test_program.py",)),
    "verify": Room(("src/penstock/placement/verify.py",), ("tests/placement/test_verify.py",)),
}
COPIED = ("src", "tests", "examples", "docs", "scripts", "benchmarks", "pyproject.toml", "README.md", "CONTRIBUTING.md")


def settled(room: Room, text: str) -> str:
    """Return a project's settings with those of mutmut."""
    # A mutant that changes nothing within the time of the tests is cut off; numba's own threads stay as they are.
    return f"""{text}
[tool.mutmut]
source_paths = {json.dumps(["src"])}
only_mutate = {json.dumps([f"{each}*.py" if each.endswith("/") else each for each in room.sources])}
pytest_add_cli_args_test_selection = {json.dumps(room.tests)}
pytest_add_cli_args = ["-p", "no:randomly", "-p", "no:cacheprovider", "-m", "not slow and not spark"]
also_copy = {json.dumps([each for each in COPIED if each != "src"])}
mutate_only_covered_lines = true
"""


def noticed(room: Room, folder: Path) -> tuple[int, int]:
    """Run the changes of a room in a folder; return how many were noticed, and how many there were."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in COPIED:
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(place, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(place, folder / name)
    settings = folder / "pyproject.toml"
    settings.write_text(settled(room, settings.read_text()))
    mutmut = [str(Path(sys.executable).with_name("mutmut"))]
    jobs = str(len(os.sched_getaffinity(0)))
    subprocess.run([*mutmut, "run", "--max-children", jobs], cwd=folder, check=False)
    told = subprocess.run(
        [*mutmut, "results", "--all", "true"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout
    ends = re.findall(r": (killed|survived|timeout|no tests|suspicious|segfault|skipped)$", told, re.MULTILINE)
    return sum(end in ("killed", "timeout", "segfault") for end in ends), len(ends)


def main() -> int:
    """Tell the share of each room; 1 if one of them is too small."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"one of {', '.join(ROOMS)}; default: all")
    parser.add_argument("--folder", type=Path, default=ROOT / ".penstock" / "mutation", help="where the copies are")
    given = parser.parse_args()
    poor = False
    for name in given.rooms or ROOMS:
        if name not in ROOMS:
            parser.error(f"no room {name!r}: {', '.join(ROOMS)}")
        killed, count = noticed(ROOMS[name], given.folder / name)
        share = killed / count if count else 0.0
        sys.stdout.write(f"{name}: {killed} of {count} changes noticed ({share:.1%})\n")
        poor |= share < WANTED
    return int(poor)


if __name__ == "__main__":
    sys.exit(main())
