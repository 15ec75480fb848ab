"""Files that people write, however odd: each is read, or refused with one message."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from penstock.errors import InputError
from penstock.files import Text
from penstock.nested import DEEPEST, nested


@pytest.mark.parametrize("text", ["a" + ".a" * 5000 + " = 1", "[a" + ".a" * 5000 + "]", "a = " + "[" * 200 + "]" * 200])
def test_deep_toml_is_refused(tmp_path: Path, text: str) -> None:
    """What is nested so deeply that nothing could check or print it is refused where it is read."""
    path = tmp_path / "deep.toml"
    path.write_text(text)
    with pytest.raises(InputError, match="not valid TOML: nested too deeply"):
        Text(path).toml()


def test_deep_json_is_refused(tmp_path: Path) -> None:
    """JSON may be nested as TOML may."""
    path = tmp_path / "deep.json"
    path.write_text("[" * 200 + "]" * 200)
    with pytest.raises(InputError, match="not valid JSON: nested too deeply"):
        Text(path).json()
    assert json.dumps(nested(json.loads("[" * DEEPEST + "]" * DEEPEST))) == "[" * DEEPEST + "]" * DEEPEST


def test_a_key_that_is_there_twice_is_found_at_once(tmp_path: Path) -> None:
    """A large table with a key given twice is refused as fast as it is read."""
    path, began = tmp_path / "twice.json", time.process_time()
    path.write_text("{" + ",".join(f'"k{number}":1' for number in range(40_000)) + ',"k39999":1}')
    with pytest.raises(InputError, match="key 'k39999' is given twice"):
        Text(path).json()
    assert time.process_time() - began < 1.0
