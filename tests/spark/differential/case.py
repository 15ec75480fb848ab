"""A case of the differential test: a network, its files, its placement, how it is run; and its file form.

Rows are lists in the order of the source's columns, with values as JSON has them: times and dates in ISO 8601,
decimals as text, maps and structs as objects.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import hashlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.units import seconds

Row = tuple[Any, ...]
File = tuple[Row, ...]

ARROW: Mapping[str, pa.DataType] = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "decimal(12,2)": pa.decimal128(12, 2),
    "array<bigint>": pa.list_(pa.int64()),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    "struct<a:bigint,b:string>": pa.struct([("a", pa.int64()), ("b", pa.string())]),
}
"""Types of columns that files may have."""

OLDEST = 1_767_225_600  # 2026-01-01, when the first file of every source was written (s since 1970)


@attrs.frozen
class Step:
    """One run: ``seconds`` of it, or once over what there is (None); ``files``: how many of each source exist then."""

    seconds: float | None
    files: Mapping[str, int]


@attrs.frozen
class Case:
    """A network with everything that it is run with.

    Attributes
    ----------
    network
        The document that `penstock.network.file.parse_network` takes; paths are relative to the case's folder.
    files
        Rows of each file by source, in the order of reading.
    module
        Python text of the module ``steps`` that the network's python operators name.
    """

    name: str
    network: Mapping[str, Any]
    placement: Mapping[str, str]
    files: Mapping[str, tuple[File, ...]]
    steps: tuple[Step, ...]
    module: str = ""


def columns_of(ddl: str) -> list[tuple[str, str]]:
    """Return names and types of a source's schema."""
    parts = re.findall(r"(`(?:[^`]|``)+`|\S+)\s+((?:[^,<(]|<[^>]*>|\([^)]*\))+)(?:,\s*|$)", ddl)
    return [(name.strip("`").replace("``", "`"), kind.strip()) for name, kind in parts]


def micros(text: str) -> int:
    """Return µs since 1970 of a time in ISO 8601."""
    since = datetime.datetime.fromisoformat(text) - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return since // datetime.timedelta(microseconds=1)


def lateness(case: Case, source: str) -> int:
    """Return a source's lateness (µs)."""
    return round(seconds(case.network["sources"][source].get("lateness", 0.0)) * 1e6)


def in_time(case: Case, source: str) -> Iterator[tuple[Row, ...]]:
    """Yield the rows of each file that are within the source's lateness, in the order of reading."""
    table = case.network["sources"][source]
    if "time" not in table:
        yield from case.files[source]
        return
    place = [name for name, _ in columns_of(table["schema"])].index(table["time"])
    latest: int | None = None
    for file in case.files[source]:
        kept = []
        for row in file:
            at = None if row[place] is None else micros(row[place])
            if at is not None and latest is not None and at < latest - lateness(case, source):
                continue
            latest = latest if at is None else at if latest is None else max(latest, at)
            kept.append(row)
        yield tuple(kept)


def late_rows(case: Case) -> int:
    """Return how many rows are beyond the lateness of their source."""
    return sum(
        len(file) - len(kept)
        for source, files in case.files.items()
        for file, kept in zip(files, in_time(case, source), strict=True)
    )


def without_late_rows(case: Case) -> Case:
    """Return a case whose rows are all within the lateness."""
    return attrs.evolve(case, files={source: tuple(in_time(case, source)) for source in case.files})


def write_file(path: Path, ddl: str, form: str, rows: Sequence[Row]) -> None:
    """Write a file of a source."""
    columns = columns_of(ddl)
    if form == "json":
        lines = (json.dumps(dict(zip(dict(columns), row, strict=True)), ensure_ascii=False) for row in rows)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    elif form == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([str(v).lower() if isinstance(v, bool) else v for v in row] for row in rows)
        path.write_text(text.getvalue(), encoding="utf-8")
    else:
        arrays = [
            pa.array([_typed(row[place], kind) for row in rows], ARROW[kind]) for place, (_, kind) in enumerate(columns)
        ]
        pq.write_table(pa.Table.from_arrays(arrays, names=[name for name, _ in columns]), path)


def _typed(value: Any, kind: str) -> Any:
    """Return a value as Arrow takes it."""
    if value is None:
        return None
    if kind == "timestamp":
        return datetime.datetime.fromisoformat(value)
    if kind == "date":
        return datetime.date.fromisoformat(value)
    if kind.startswith("decimal"):
        return decimal.Decimal(value)
    return list(value.items()) if kind.startswith("map") else value


def write_files(case: Case, folder: Path, counts: Mapping[str, int] | None = None) -> None:
    """Write the first files of each source (default: all) that are not there yet, a second of age apart."""
    for source, files in case.files.items():
        table = case.network["sources"][source]
        place = folder / table["options"]["path"]
        place.mkdir(parents=True, exist_ok=True)
        for number, rows in enumerate(files[: None if counts is None else counts[source]]):
            # The order of paths is not that of ages, which is what Spark reads by.
            salt = hashlib.sha256(f"{source} {number}".encode()).hexdigest()[:4]
            path = place / f"{salt}-{number}.{table['format']}"
            if not path.exists():
                # A run must never see a file in the middle of its writing, nor with the wrong age.
                hidden = path.with_name(f".{path.name}")
                write_file(hidden, table["schema"], table["format"], rows)
                os.utime(hidden, (OLDEST + number, OLDEST + number))
                hidden.rename(path)


def placed(case: Case, folder: Path) -> dict[str, Any]:
    """Return the network's document with absolute paths, and with a name of its own for the module of its steps.

    Python keeps modules by name, and cases share a process.
    """
    document: dict[str, Any] = json.loads(json.dumps(case.network))
    for table in [*document["sources"].values(), *document["sinks"].values()]:
        if "path" in table.get("options", {}):
            table["options"]["path"] = str(folder / table["options"]["path"])
    for table in document["operators"].values():
        if "function" in table:
            table["function"] = table["function"].replace("steps:", f"{module_name(case)}:")
    return document


def module_name(case: Case) -> str:
    """Return the name of the module that holds the case's python steps."""
    return f"steps_{hashlib.sha256(case.module.encode()).hexdigest()[:12]}"


def write_module(case: Case, folder: Path) -> None:
    """Write the module of python steps beside the network."""
    if case.module:
        (folder / f"{module_name(case)}.py").write_text(case.module, encoding="utf-8")


def toml(document: Mapping[str, Any]) -> str:
    """Return a network's document as TOML."""
    lines = [f"name = {_inline(document['name'])}"]
    for kind in ("sources", "operators", "sinks"):
        for name, table in document[kind].items():
            lines += ["", f"[{kind}.{_inline(name)}]", *(f"{key} = {_inline(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_inline(key)} = {_inline(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def dump(case: Case) -> str:
    """Return a case as a JSON document, a row a line."""
    head = {
        "network": case.network,
        "placement": case.placement,
        "steps": [{"seconds": step.seconds, "files": step.files} for step in case.steps],
        "module": case.module.splitlines(),
    }
    text = json.dumps(head, indent=1, ensure_ascii=False)
    sources = []
    for source, files in case.files.items():
        rows = [",\n   ".join(json.dumps(row, ensure_ascii=False) for row in file) for file in files]
        shown = ",\n".join(f"  [\n   {part}\n  ]" if part else "  []" for part in rows)
        sources.append(f" {json.dumps(source, ensure_ascii=False)}: [\n{shown}\n ]")
    return text[: text.rindex("\n}")] + ',\n "files": {\n' + ",\n".join(sources) + "\n }\n}\n"


def load(path: Path) -> list[Case]:
    """Return a kept case: once, or once for each of its ``variants``, which replace placement and read limits."""
    document = json.loads(path.read_text(encoding="utf-8"))
    files = {
        source: tuple(tuple(tuple(row) for row in file) for file in files)
        for source, files in document["files"].items()
    }
    steps = document.get("steps") or [{"seconds": None, "files": {s: len(parts) for s, parts in files.items()}}]
    base = Case(
        name=path.stem,
        network=document["network"],
        placement=document.get("placement", {}),
        files=files,
        steps=tuple(Step(step["seconds"], step["files"]) for step in steps),
        module="".join(f"{line}\n" for line in document.get("module", [])),
    )
    return [_variant(base, name, change) for name, change in document.get("variants", {}).items()] or [base]


def _variant(base: Case, name: str, change: Mapping[str, Any]) -> Case:
    limits = change.get("limits", {})
    case = base
    for source, limit in limits.items():
        case = limited(case, source, limit)
    return attrs.evolve(case, name=f"{base.name}-{name}", placement=change.get("placement", base.placement))


def limited(case: Case, source: str, limit: int | None) -> Case:
    """Return a case with another read limit of a source (files a batch; None: no limit)."""
    table = case.network["sources"][source]
    options = {key: value for key, value in table["options"].items() if key != "maxFilesPerTrigger"}
    options |= {} if limit is None else {"maxFilesPerTrigger": limit}
    sources = {**case.network["sources"], source: {**table, "options": options}}
    return attrs.evolve(case, network={**case.network, "sources": sources})
