"""Keep the documentation true: what can be generated is generated, and what is shown is run.

    uv run python scripts/docs.py            write what has changed
    uv run python scripts/docs.py --check    only say what is stale
    uv run python scripts/docs.py --demo DIR show in the README what `penstock demo --out DIR` has left

* ``docs/reference/*.schema.json`` come from the readers of the files.
* Between ``<!-- options NAME -->`` or ``<!-- keys SCHEMA DEFINITION -->`` and ``<!-- end -->`` stand tables of a
  command's options and of a table's keys.
* In blocks fenced as ``console`` each ``$ penstock …`` is run in the repository, and its output follows.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from revision import ROOT, revision

from penstock.cluster.file import cluster_schema
from penstock.control.scenario import scenario_schema
from penstock.load.statistics import statistics_schema
from penstock.network.file import network_schema

SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "network": network_schema,
    "cluster": cluster_schema,
    "statistics": statistics_schema,
    "scenario": scenario_schema,
}
PAGES = ("README.md", "CONTRIBUTING.md", "docs/**/*.md")
NEEDS_SPARK = ("run", "demo", "calibrate", "dashboard")
BLOCK = re.compile(r"(<!-- (options|keys) ([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)
DEMO = re.compile(r"(<!-- demo -->\n).*?(<!-- end -->)", re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# what differs from run to run: seconds of work
WALL = re.compile(r'("(?:seconds|lookup)": )[-+.e\d]+|((?:; | in | took | look-up ))[-+.e\d]+ (?:s|ms|µs)\b')


def pages() -> list[Path]:
    """Return all pages, by name."""
    return sorted(path for pattern in PAGES for path in ROOT.glob(pattern))


def current() -> Iterator[tuple[Path, str]]:
    """Iterate over all files that this script writes, with the text that they should have."""
    for name, schema in SCHEMAS.items():
        yield ROOT / f"docs/reference/{name}.schema.json", json.dumps(schema(), indent=2) + "\n"
    for page in pages():
        text = page.read_text()
        if page.name == "commands.md":
            text += _missing(text)
        yield page, CONSOLE.sub(_console, BLOCK.sub(_block, text))


def _missing(text: str) -> str:
    """Return sections for the commands that have none; the words on their JSON keys are left to people."""
    from penstock.cli.app import COMMANDS

    names = [name for name in COMMANDS if f"<!-- options {name} -->" not in text]
    return "".join(f"\n## `penstock {name}`\n\n<!-- options {name} -->\n<!-- end -->\n" for name in names)


def _block(found: re.Match[str]) -> str:
    begin, what, names, end = found.groups()
    table = _options(names) if what == "options" else _keys(*names.split())
    return begin + table + end


def options_of(name: str) -> list[Any]:
    """Return the parameters of a command."""
    from penstock.cli.app import load_command

    return load_command(name).params


def _options(name: str) -> str:
    from penstock.cli.app import load_command

    text = inspect.cleandoc(load_command(name).help or "")
    words, _, example = text.partition("Example:")
    rows = []
    for option in options_of(name):
        shown = getattr(option, "metavar", None)
        label = f"`{option.opts[0]} {shown}`" if option.opts[0].startswith("-") and shown else f"`{option.opts[0]}`"
        if not option.opts[0].startswith("-"):
            label = f"`{option.metavar or option.name}`"
        default = option.default
        given = not (default is None or default is False or default == () or callable(default) or option.required)
        told = f" Default: `{default}`." if given else ""
        label = label.replace("|", "\\|")
        rows.append(f"| {label} | {getattr(option, 'help', '') or ''}{' Required.' if option.required else ''}{told} |")
    parts = [" ".join(words.split()), "", "| option | meaning |", "|---|---|", *rows]
    if example:
        parts += ["", "```sh", " ".join(example.split()), "```"]
    return "\n".join([*parts, ""])


def _keys(schema: str, definition: str) -> str:
    document = SCHEMAS[schema]()
    table = document["$defs"][definition]
    rows = []
    for key, part in table["properties"].items():
        default = part.get("default")
        told = "" if default in (None, {}, []) else f" Default: `{json.dumps(default)}`."
        if key in table.get("required", ()):
            told = " Required."
        part = _resolved(part, document)
        rows.append(f"| `{key}` | {_type(part)} | {_description(part)}{told} |")
    return "\n".join(["| key | type | meaning |", "|---|---|---|", *rows, ""])


def _resolved(part: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a schema with the tables that it refers to in place."""
    if "$ref" in part:
        return dict(document["$defs"][part["$ref"].rpartition("/")[2]])
    return {**part, "anyOf": [_resolved(choice, document) for choice in part["anyOf"]]} if "anyOf" in part else part


def _description(part: dict[str, Any]) -> str:
    given = [part.get("description"), *(choice.get("description") for choice in part.get("anyOf", ()))]
    words = next((word for word in given if word), "")
    return words[:1].upper() + words[1:] + ("." if words and not words.endswith(".") else "")


def _type(part: dict[str, Any]) -> str:
    if "enum" in part:
        return ", ".join(f"`{value}`" for value in part["enum"])
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_type(choice) for choice in part["anyOf"] if choice.get("type") != "null"))
    if "properties" in part:
        return f"table {{{', '.join(part['properties'])}}}"
    words = {"number": "number", "integer": "whole number", "string": "text", "object": "table", "boolean": "boolean"}
    if part.get("type") == "array":
        inner = _type(part["items"]) if part.get("items") else "value"
        return f"list of {inner}"
    limits = [
        f"{sign} {part[word]:g}"
        for word, sign in (("exclusiveMinimum", ">"), ("minimum", "≥"), ("maximum", "≤"))
        if word in part
    ]
    return " ".join([words.get(part.get("type", ""), "any"), *limits])


def _console(found: re.Match[str]) -> str:
    lines: list[str] = []
    commands = re.findall(r"^\$ (.*(?:(?<=\\)\n.*)*)", found[1], re.MULTILINE)
    outputs = re.split(r"^\$ .*(?:(?<=\\)\n.*)*\n", found[1], flags=re.MULTILINE)[1:]
    for command, before in zip(commands, outputs, strict=True):
        words = shlex.split(command.replace("\\\n", " "))
        after = before if _kept(words) else run(words[1:])
        # a difference in seconds of work is none
        lines += [f"$ {command}", (before if masked(before) == masked(after) else after).rstrip("\n")]
    return "```console\n" + "\n".join(line for line in lines if line) + "\n```"


def _kept(words: list[str]) -> bool:
    return words[0] != "penstock" or any(word in NEEDS_SPARK for word in words[1:2])


def masked(text: str) -> str:
    """Return an output without what differs from run to run."""
    return WALL.sub(lambda match: f"{match[1] or match[2]}…", text).rstrip()


def run(words: list[str]) -> str:
    """Return what ``penstock`` prints on both outputs, run in the repository."""
    from penstock.cli.app import main

    out = io.StringIO()
    before = os.getcwd()
    os.chdir(ROOT)
    with (
        patch.object(sys, "argv", ["penstock", "--quiet", *words]),
        patch.dict(os.environ, {"COLUMNS": "100"}),
        redirect_stdout(out),
        redirect_stderr(out),
    ):
        try:
            main()
        except SystemExit:
            pass
        finally:
            os.chdir(before)
    return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").split("\n")) + "\n"


def show_demo(folder: Path) -> None:
    """Show in the README what a demo has left in a folder: tables, pictures, when that was and of which revision."""
    from penstock.cli.demo import show_result

    report = json.loads((folder / "demo-report.json").read_text())
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        show_result(report)
    day = time.strptime(report["when"], "%Y-%m-%dT%H:%M:%SZ")
    minutes, seconds = divmod(round(report["took"]), 60)
    about = f"{day.tm_mday} {time.strftime('%B %Y', day)}, revision {revision()}, two cores; {minutes} min {seconds} s:"
    shown = "\n".join(line.rstrip() for line in out.getvalue().strip("\n").split("\n"))
    readme = ROOT / "README.md"
    readme.write_text(
        DEMO.sub(lambda found: f"{found[1]}{about}\n\n```text\n{shown}\n```\n{found[2]}", readme.read_text())
    )
    for name in ("demo.png", "demo-dark.png"):
        shutil.copy(folder / name, ROOT / "docs" / name)


def main(arguments: list[str]) -> int:
    """Write or check; return the exit code."""
    if "--demo" in arguments:
        show_demo(Path(arguments[arguments.index("--demo") + 1]))
    stale = [(path, text) for path, text in current() if not path.exists() or path.read_text() != text]
    for path, text in stale:
        if "--check" not in arguments:
            path.write_text(text)
        print(("stale: " if "--check" in arguments else "wrote ") + str(path.relative_to(ROOT)))  # noqa: T201
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
