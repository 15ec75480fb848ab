"""Reading what users write, and writing whole files or none."""

from __future__ import annotations

import csv
import difflib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import StringIO
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from penstock.errors import InputError, writing
from penstock.nested import nested
from penstock.units import seconds

T = TypeVar("T")

Document = dict[str, Any]
"""A table of a file that people write, or an answer: keys and what JSON and TOML have, checked where it is read."""

MAX_BYTES = 256 * 2**20
"""No file that people write is larger; a longer one is a mistake (a data file, a device)."""


NAME = re.compile(r"\w[\w.\-]*")
TOO_LONG = "a number has more digits than a computer counts with"


def file_of(given: str) -> str | None:
    """Return what messages call a file that was given; None where it is written out instead, as in ``a=1,b=2``."""
    if "=" in given and not os.path.exists(given):
        return None
    return "standard input" if given == "-" else given or "''"


class Text:
    """The text of an input file, with the name that messages use.

    Parameters
    ----------
    path
        The file, or ``-`` for standard input.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = "standard input" if str(path) == "-" else str(path) or "''"
        try:
            if str(path) == "-":
                raw = sys.stdin.buffer.read(MAX_BYTES + 1)
            else:
                with open(path, "rb") as file:
                    raw = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            raise InputError("no such file", file=self.name, hint="check the path") from None
        except IsADirectoryError:
            raise InputError("expected a file, got a directory", file=self.name) from None
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=self.name) from None
        if len(raw) > MAX_BYTES:
            raise InputError(f"expected at most {MAX_BYTES >> 20} MiB, got more", file=self.name)
        try:
            self.text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw[: error.start].count(b"\n") + 1
            raise InputError(
                "expected UTF-8 text, got other bytes", file=self.name, line=line, hint="is it a binary file?"
            ) from None

    @property
    def lines(self) -> int:
        """Number of lines."""
        return max(1, len(self.text.splitlines()))

    def toml(self) -> Document:
        """Parse as TOML."""
        try:
            return nested(tomllib.loads(self.text))
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"\(at line (\d+), column \d+\)", str(error))
            problem = re.sub(r"\s*\(at .*\)$", "", str(error))
            # Where the text just ends, the parser names no line, and the last one may be fine.
            written = self.text.split("\n")[int(found[1]) - 1].strip() if found else ""
            hint = _NUMBER_HINT if _UNIT_OR_COMMA.match(written) else None
            if "overwrite" in problem or "twice" in problem:
                hint = "a key or table may be given once only"
            elif written:
                problem += f": {shortened(written)}"
            raise InputError(
                f"not valid TOML: {problem}", file=self.name, line=int(found[1]) if found else self.lines, hint=hint
            ) from None
        except RecursionError:
            raise InputError("not valid TOML: nested too deeply", file=self.name) from None
        except ValueError:
            raise InputError(f"not valid TOML: {TOO_LONG}", file=self.name) from None

    def json(self) -> object:
        """Parse as JSON; a key given twice is an error."""

        def once(pairs: list[tuple[str, object]]) -> Document:
            table = dict(pairs)
            if len(table) < len(pairs):
                counts = Counter(key for key, _ in pairs)
                twice = next(key for key, count in counts.items() if count > 1)
                raise InputError(f"key {twice!r} is given twice", file=self.name)
            return table

        try:
            return nested(json.loads(self.text, object_pairs_hook=once))
        except json.JSONDecodeError as error:
            raise InputError(f"not valid JSON: {error.msg}", file=self.name, line=error.lineno) from None
        except RecursionError:
            raise InputError("not valid JSON: nested too deeply", file=self.name) from None
        except ValueError:
            raise InputError(f"not valid JSON: {TOO_LONG}", file=self.name) from None

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Iterate over CSV rows with their line numbers; blank lines are passed over."""
        reader = csv.reader(StringIO(self.text, newline=""), strict=True)
        try:
            for row in reader:
                if row and any(cell.strip() for cell in row):
                    yield reader.line_num, [cell.strip() for cell in row]
        except csv.Error as error:
            raise InputError(f"not valid CSV: {error}", file=self.name, line=reader.line_num) from None

    def line_of(self, at: str | None) -> int | None:
        """Return the line of a dotted TOML key such as ``operators.views.cost``, of its table, or of one below it."""
        best, below, table = None, None, ""
        wanted = (at or "").replace('"', "")
        for number, line in enumerate(self.text.splitlines(), 1):
            stripped = line.strip()
            if header := re.match(r"\[\s*([^\[\]]+?)\s*\]", stripped):
                table = re.sub(r"\s*\.\s*", ".", header[1]).replace('"', "").replace("'", "")
                if table and (wanted == table or wanted.startswith(table + ".")):
                    best = number
                elif wanted and below is None and table.startswith(wanted + "."):
                    below = number
            elif key := re.match(r"([^=#]+?)\s*=", stripped):
                name = key[1].replace('"', "").replace("'", "")
                name = f"{table}.{name}" if table else name
                if wanted == name or wanted.startswith(name + "."):
                    return number
        return below if best is None else best


_UNIT_OR_COMMA = re.compile(
    r"""[^=#"']+=\s*[-+]?(?!0[xob])(\d+,\d|(\d[\d_]*(\.\d*)?|\.\d+)(e[-+]?\d+)?\s*[a-zµ%])""", re.I
)
_NUMBER_HINT = "a number has a decimal point and no unit"
"""Of a line such as ``cost = 0.004ms`` or ``selectivity = 0,5``, which is no TOML."""


def convert(value: object, shape: type[T], at: str) -> T:
    """Check a parsed value against a msgspec type; a whole number may be written with a point, as in ``2.0``.

    Raises
    ------
    InputError
        Naming the dotted key, what was expected and what came.
    """
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `")
        if re.fullmatch(r"Expected `(.* )?int\b.*`, got `float`", problem):
            mended = _without_point(value, re.findall(_STEP, path))
            if repr(mended) != repr(value):
                return convert(mended, shape, at)
        where = (at + path.rstrip("`").lstrip("$").replace("key", "")).lstrip(".").removesuffix("[...]")
        if unknown := re.search(r"unknown field `(.*)`", problem):
            known = _part(shape, path)[0].get("properties", ())
            # At the top, who writes a name in brackets means a table.
            what = (
                "table" if not where and isinstance(value, dict) and isinstance(value.get(unknown[1]), dict) else "key"
            )
            raise InputError(
                f"unknown {what} {unknown[1]!r}",
                at=f"{where}.{unknown[1]}".lstrip("."),
                hint=suggest(unknown[1], known),
            ) from None
        if missing := re.search(r"missing required field `(.*)`", problem):
            raise InputError(f"key {missing[1]!r} is missing", at=where or None) from None
        problem = problem[0].lower() + problem[1:].replace("`", "")
        came = _at_path(value, path)
        if mismatch := re.fullmatch(r"expected (.+), got (\w+)", problem):
            shown = _kind(mismatch[2]) if came is _UNKNOWN else shortened(came)
            described = _described(shape, path)
            wanted = _kind(mismatch[1])
            if isinstance(came, str) and "seconds" in (described or ""):
                wanted = wanted.replace("a number", f"a number of seconds, such as {_seconds(came):g},", 1).rstrip(",")
            raise InputError(f"expected {wanted}, got {shown}", at=where or None, hint=described) from None
        if problem.startswith("invalid enum value"):
            allowed = _part(shape, path)[0].get("enum", ())
            hint = _nearest(str(came), allowed) or _described(shape, path)
            problem = f"expected one of {', '.join(allowed)}, got {shortened(came)}"
            raise InputError(problem, at=where or None, hint=hint) from None
        if problem.startswith("expected") and ", got" not in problem:
            # With a limit, as in "expected float >= 0".
            problem = re.sub(r"(?<=^expected )\w+", lambda kind: _kind(kind[0]), problem)
            problem += "" if came is _UNKNOWN else f", got {shortened(came)}"
        raise InputError(problem, at=where or None, hint=_described(shape, path)) from None


MOST = 2**53
"""Numbers below are exact as floats."""


def _without_point(value: Any, steps: Sequence[tuple[str, str]]) -> Any:
    """Return a document in which a number at the end of a msgspec path is an int where it is whole."""
    if not steps:
        return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < MOST else value
    (key, index), *rest = steps
    if isinstance(value, dict):
        # Of a dictionary's values and a list's items msgspec does not always say which one it is.
        return {name: _without_point(each, rest) if key in ("", name) else each for name, each in value.items()}
    if isinstance(value, list):
        return [
            _without_point(each, rest) if index in ("...", str(place)) else each for place, each in enumerate(value)
        ]
    return value


def _seconds(text: str) -> float:
    """Return what a text says with a unit, in seconds; an example where it says none."""
    try:
        return seconds(text)
    except InputError:
        return 0.004


_UNKNOWN = object()
_KINDS = {
    "float": "a number", "int": "a whole number", "str": "a text", "bool": "true or false", "array": "a list",
    "object": "a table", "null": "nothing", "datetime": "a time", "date": "a date",
}  # fmt: skip
"""What users call msgspec's types."""


def _kind(names: str) -> str:
    """Return types as users call them; that a key may be left out is no type, and whole numbers are numbers."""
    given = names.split(" | ")
    kinds = [_KINDS.get(name, name) for name in given if name != "null" and not (name == "int" and "float" in given)]
    *most, last = kinds or [_KINDS["null"]]
    return f"{', '.join(most)} or {last}" if most else last


def _described(shape: type[object], path: str) -> str | None:
    """Return what the schema says of a key, as a hint."""
    part, key = _part(shape, path)
    text = part.get("description")
    return f"{key}: {text}" if text and key else None


def _part(shape: type[object], path: str) -> tuple[Document, str]:
    """Return what the schema has for a path, nothing where it does not go so far, and the path's last key."""
    schema = msgspec.json.schema(shape)

    def meant(part: Document) -> Document:
        words = None  # A choice of types, such as a number or a list, has its description outside.
        while "$ref" in part or "anyOf" in part:
            words = part.get("description", words)
            part = part["anyOf"][0] if "anyOf" in part else schema["$defs"][part["$ref"].rpartition("/")[2]]
        return part if words is None else {"description": words, **part}

    here, key = meant(schema), ""
    for name, entry in re.findall(_STEP, path):
        below = here.get("properties", {}).get(name) if name else here.get("items" if entry.isdigit() else _OTHERS)
        if not isinstance(below, dict):
            return {}, key
        here, key = meant(below), name or key
    return here, key


_STEP, _OTHERS = r"\.(\w+)|\[([^\]]*)\]", "additionalProperties"
"""A step of a msgspec path."""


def _at_path(value: Any, path: str) -> object:
    """Return what a msgspec path such as ``$.a[0].b`` names in a document; `_UNKNOWN` where it does not say it all."""
    for key, index in re.findall(_STEP, path):
        try:
            value = value[key] if key else value[int(index)]
        except (KeyError, IndexError, TypeError, ValueError):
            return _UNKNOWN
    return value


def shortened(value: object, length: int = 60) -> str:
    """Return a value as it is shown in a message: on one line, and not endless."""
    text = repr(value)
    return text if len(text) <= length else text[: length - 1] + "…"


def check_name(name: str, at: str) -> None:
    """Refuse a name that is not one of letters, digits and a few signs, so that it may also be part of a file's.

    Raises
    ------
    InputError
        Naming the place.
    """
    if not NAME.fullmatch(name):
        raise InputError(
            "expected a name of letters, digits, '_', '-' and '.'", at=at, hint="begin it with a letter, a digit or '_'"
        )


def suggest(word: str, known: Iterable[str], what: str = "known keys") -> str:
    """Return a hint for a misspelt word: the nearest known one, or the list."""
    names = list(known)
    if near := _nearest(word, names):
        return near
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return f"{what}: {shown}" if names else f"there are no {what}"


def _nearest(word: str, names: Sequence[str]) -> str | None:
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else None


@contextmanager
def atomic(path: str | os.PathLike[str], mode: str = "w") -> Iterator[Any]:
    """Open a file that appears whole, by a rename, or not at all.

    Of a link what it leads to is replaced. What is no file, such as a device, a pipe or a stream of this process, stays
    and gets the whole at the end.

    Raises
    ------
    InputError
        If it cannot be written, or is a directory.
    """
    with ExitStack() as stack:
        try:
            target = Path(os.path.realpath(path))
            lasting = _lasting(path)
            if lasting is None:
                target.parent.mkdir(parents=True, exist_ok=True)
                handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            else:
                stack.callback(lasting.close)
                handle, temporary = tempfile.mkstemp(prefix="penstock-")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(f"cannot be written: {why}", file=path) from None
        stack.callback(Path(temporary).unlink, missing_ok=True)
        with writing(path):
            encoding = None if "b" in mode else "utf-8"
            with os.fdopen(handle, mode, encoding=encoding, newline=None if encoding is None else "\n") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if lasting is None:
                umask = os.umask(0)
                os.umask(umask)
                os.chmod(temporary, 0o666 & ~umask)
                os.replace(temporary, target)
            else:
                # Closing it writes what is left.
                with lasting, open(temporary, "rb") as whole:
                    shutil.copyfileobj(whole, lasting)


def check_file(path: str | os.PathLike[str], at: str | None = None) -> None:
    """Refuse before all work what `atomic` could not write after it.

    Raises
    ------
    InputError
        If a directory is there, or no file can be made beside it.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise InputError("expected a file, got a directory", file=path, at=at)
    # A device, a pipe or a stream is written into, and not replaced.
    if not _STREAM.fullmatch(os.path.abspath(path)) and (target.is_file() or not target.exists()):
        check_folder(target.parent, at)


def check_folder(path: str | os.PathLike[str], at: str | None = None) -> None:
    """Refuse before all work a folder, there or still to be made, in which no file can be made.

    Raises
    ------
    InputError
        If it is a file, or may not be written.
    """
    there = next(folder for folder in (Path(path), *Path(path).parents) if os.path.exists(folder))
    if not there.is_dir():
        raise InputError("expected a folder, got a file", file=there, at=at)
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError("cannot be written: no file can be made here", file=there, at=at)


def _lasting(path: str | os.PathLike[str]) -> BinaryIO | None:
    """Open what an output is written into; None for a file, which is replaced, and where there is nothing yet."""
    if stream := _STREAM.fullmatch(os.path.abspath(path)):
        # Opened anew a file behind it would be cut off, or written over by what is printed.
        sys.stdout.flush()
        return os.fdopen(os.dup(int(stream["number"] or _STREAMS[stream["name"]])), "wb")
    try:
        kind = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(kind):
        raise InputError("expected a file, got a directory", file=path)
    return None if stat.S_ISREG(kind) else open(path, "wb")


_STREAMS = {"stdout": 1, "stderr": 2}
_STREAM = re.compile(r"/dev/(?P<name>stdout|stderr)|/(?:dev|proc/self)/fd/(?P<number>\d+)")
"""Paths of the streams that this process has open."""


def user_cache() -> Path:
    """Return this user's folder for what can be made again, there or not; who has no home has none that can be made."""
    try:
        home = Path.home()
    except RuntimeError:
        home = Path(os.devnull)
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "penstock"


def read_kept(path: str | os.PathLike[str]) -> Document | None:
    """Read a JSON object that penstock has written and kept; None where it is not there.

    Raises
    ------
    InputError
        If it is damaged, or cannot be read.
    """
    try:
        found = json.loads(Path(path).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"is damaged: {error}", file=path) from None
    if not isinstance(found, dict):
        raise InputError(f"is damaged: expected an object, got {shortened(found)}", file=path)
    return found


def write_json(path: str | os.PathLike[str], document: object) -> None:
    """Write a JSON document atomically."""
    with atomic(path) as file:
        file.write(to_json(document))


def to_json(document: object) -> str:
    """Return a document as JSON: plain numbers, what is not finite as ``null``."""
    return json.dumps(plain(document), indent=2, allow_nan=False) + "\n"


def plain(value: object) -> Any:
    """Return a document as JSON has it: lists for arrays, None for what is not finite."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and value - value != 0.0:
        return None
    return value


def compact(document: object) -> str:
    """Return a document as JSON on one line, for machines."""
    return json.dumps(plain(document), separators=(",", ":"), allow_nan=False)


SITE = "https://penstock.github.io/penstock/"
"""Where the documentation, and with it the schemas, is published."""


def schema_of(shape: type[object], name: str) -> Document:
    """Return the JSON schema of a file's shape, under the address at which it is published."""
    address = f"{SITE}reference/{name}.schema.json"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": address, **msgspec.json.schema(shape)}
