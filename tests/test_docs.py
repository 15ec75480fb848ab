"""The documentation runs: outputs, schemas, tables, options, links and docstring examples are those of the code."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import importlib.util
import json
import pkgutil
import re
import shlex
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from penstock.cli.app import COMMANDS, GROUPS, load_command
from penstock.network import read_network

ROOT = Path(__file__).resolve().parent.parent
STALE = "run `uv run python scripts/docs.py` and read what changes"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("penstock_docs", ROOT / "scripts/docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


docs = load_script()
PAGES = docs.pages()
SOURCE = ROOT / "src"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in (SOURCE / "penstock").rglob("*.py")
    if ">>>" in path.read_text() and "shipped" not in path.parts
)


def named(paths: list[Path]) -> Any:
    return pytest.mark.parametrize("page", paths, ids=[str(path.relative_to(ROOT)) for path in paths])


@pytest.mark.parametrize("name", sorted(docs.SCHEMAS))
def test_schemas_are_current(name: str) -> None:
    """The published JSON schema of a file is the one that its reader has."""
    published = (ROOT / f"docs/reference/{name}.schema.json").read_text()
    assert json.loads(published) == docs.SCHEMAS[name](), STALE


@named([page for page in PAGES if "<!-- " in page.read_text()])
def test_tables_are_current(page: Path) -> None:
    """The tables of options and keys are those of the code."""
    text = page.read_text()
    assert docs.BLOCK.sub(docs._block, text) == text, STALE


@named([page for page in PAGES if "```console" in page.read_text()])
def test_outputs_are_current(page: Path) -> None:
    """Each command shown with its output puts out just that."""
    text = page.read_text()
    assert docs.CONSOLE.sub(docs._console, text) == text, STALE


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_option_is_documented(name: str) -> None:
    """Each command has its section, and each of its options words of help."""
    text = (ROOT / "docs/reference/commands.md").read_text()
    assert f"## `penstock {name}`" in text
    assert f"<!-- options {name} -->" in text
    for option in docs.options_of(name):
        assert getattr(option, "help", None), f"{name} {option.opts[0]} has no help"


@pytest.mark.parametrize("name", sorted(docs.SCHEMAS))
def test_every_key_is_described(name: str) -> None:
    """Each table of a file is shown in the reference of files."""
    text = (ROOT / "docs/reference/files.md").read_text()
    for definition in docs.SCHEMAS[name]()["$defs"]:
        if not definition.endswith("File") or definition == "NetworkFile":
            assert f"<!-- keys {name} {definition} -->" in text


@named(PAGES)
def test_commands_in_pages_exist(page: Path) -> None:
    """A penstock command in a page names a command, options that it has, and files of the repository that exist."""
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        found = re.match(r"(?:\$ )?penstock ([a-z]+)\b(.*)", line.split("|")[0])
        if not found:
            continue
        if found[1] in GROUPS:
            assert found[2].split()[0] in load_command(found[1]).commands, line
            continue
        assert found[1] in COMMANDS, line
        known = {name for option in docs.options_of(found[1]) for name in option.opts} | {"-h", "--help"}
        for word in shlex.split(found[2]):
            assert not word.startswith("--") or word in known, f"{found[1]} has no {word}"
            if word.startswith(("examples/", "docs/")):
                assert (ROOT / word).exists(), word


@named([page for page in PAGES if "`penstock." in page.read_text()])
def test_names_of_the_source_exist(page: Path) -> None:
    """Every module, class and function that a page names is there."""
    for name in re.findall(r"`(penstock(?:\.\w+)+)(?:\(\))?`", page.read_text()):
        if not is_module(name):
            pkgutil.resolve_name(name)


def is_module(name: str) -> bool:
    """Whether a module is there, which is not imported: that compiles the simulator's kernel."""
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.util.find_spec(name) is not None
    return False


@named(PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    """Links to files of the repository lead to files, and none leads out of it."""
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            reached = (page.parent / target).resolve()
            assert reached.exists(), target
            assert reached.is_relative_to(ROOT), target


@named(PAGES)
def test_toml_in_pages_parses(page: Path) -> None:
    """TOML shown in a page is TOML."""
    for block in re.findall(r"^```toml\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
        tomllib.loads(block)


@named([page for page in PAGES if "penstock.inspect(" in page.read_text()])
def test_python_in_pages_runs(page: Path, root: Path) -> None:
    """The Python of a page that reads the recorded log runs, block after block, without a session of Spark."""
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    known: dict[str, Any] = {}
    for block in blocks:
        if "spark." not in block:
            exec(compile(block, str(page), "exec"), known)  # noqa: S102


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    """The examples in a module's docstrings give what they say."""
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0


@pytest.mark.parametrize(
    "folder", sorted((ROOT / "examples").glob("*/network.toml")), ids=lambda path: path.parent.name
)
def test_examples_load(penstock: Any, folder: Path) -> None:
    """Each example's files fit together."""
    here = folder.parent
    words: list[object] = ["load", folder, "--json"]
    for option, file in (
        ("--cluster", "cluster.toml"),
        ("--rates", "rates.csv"),
        ("--placement", "placement.json"),
        ("--statistics", "statistics.json"),
    ):
        if (here / file).exists():
            words += [option, here / file]
    if "--rates" not in words:  # its sources bring their own, and its costs are measured
        assert read_network(folder).sinks
        return
    done = penstock(*words)
    assert done.code == 0, done.err
    assert done.document["operators"]


def test_each_test_has_one_sentence() -> None:
    """Each test says in one sentence what must hold."""
    missing = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                words = " ".join((ast.get_docstring(node) or "").split())
                if not words.endswith("."):
                    missing.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert not missing, "\n".join(missing)


WORDS = dict(re.findall(r"^\| ([^|]+?) \| (.+) \|$", (ROOT / "docs/reference/glossary.md").read_text(), re.MULTILINE))
NOT_USED = ("station", "channel", "utilisation", "utilization", "machines")
"""Words that no name contains in the rooms below; `cluster` knows machines that hosts share, and may say so."""
ROOMS = (
    "advice", "api", "cli", "dashboard", "inspection", "monitor", "network", "pictures", "telemetry", "workload",
)  # fmt: skip


def test_the_glossary_is_in_order() -> None:
    """Each word of the glossary stands there once, in the order of the alphabet."""
    text = (ROOT / "docs/reference/glossary.md").read_text().partition("## Not used")[0]
    words = re.findall(r"^\| ([^|]+?) \| ", text, re.MULTILINE)[1:]
    assert words == sorted(set(words), key=str.lower)
    assert {"row", "host", "query", "placement", "keep fraction", "latency"} <= set(words)


def test_names_keep_to_the_glossary() -> None:
    """No name has a word that the glossary does not use."""
    for word in NOT_USED:
        assert word in " ".join(WORDS)
    banned, found = {*NOT_USED, *(f"{word}s" for word in NOT_USED)}, []
    for path in sorted(path for room in ROOMS for path in (ROOT / "src/penstock" / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [getattr(node, key, None) for key in ("id", "arg", "attr", "name")]
            found += [f"{path.relative_to(ROOT)}: {name}" for name in filter(None, names) if banned & words_of(name)]
    assert not found, "\n".join(found)


def words_of(name: object) -> set[str]:
    """Return the words that a name consists of."""
    return set(str(name).lower().split("_"))


def test_people_read_of_rows() -> None:
    """Help texts, tutorials and how-to guides say row, as Spark does, and not tuple."""
    for name in COMMANDS:
        command = load_command(name)
        for text in (command.help or "", *(getattr(option, "help", "") or "" for option in command.params)):
            assert "tuple" not in text, f"{name}: {text}"
    for page in (ROOT / "README.md", *(ROOT / "docs/tutorial").glob("*.md"), *(ROOT / "docs/how-to").glob("*.md")):
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        assert "tuple" not in prose, page.name
