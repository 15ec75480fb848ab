"""The options of Nexmark sources: what they mean, and what is refused while a network is read."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from penstock.errors import InputError
from penstock.network import Source, read_network
from penstock.network.nexmark import Events
from penstock.spark.compile import scheduled_rates


def written(folder: Path, options: str, form: str = "nexmark") -> Path:
    path = folder / "network.toml"
    path.write_text(f'name = "n"\n[sources.s]\nformat = "{form}"\noptions = {{ {options} }}\n')
    return path


@pytest.mark.parametrize(
    ("options", "key", "words"),
    [
        ("rat = 800", "rat", ["unknown key 'rat'", "did you mean 'rate'?"]),
        ("duraton = 120", "duraton", ["unknown key 'duraton'", "did you mean 'duration'?"]),
        ("maxFilesPerTrigger = 1", "maxFilesPerTrigger", ["unknown key", "rate, duration, rates, seed"]),
        ("rate = -5", "rate", ["expected tuples per second", "got '-5'"]),
        ("rate = inf", "rate", ["expected tuples per second", "got 'inf'"]),
        ('rate = "2 minutes"', "rate", ["expected tuples per second", "got '2 minutes'"]),
        ("duration = 0", "duration", ["expected a duration such as '2 minutes'", "got '0'"]),
        ("duration = nan", "duration", ["expected a duration", "got 'nan'"]),
        ('duration = "2 lightyears"', "duration", ["expected a duration", "got '2 lightyears'"]),
        ("duration = 1e9", "duration", ["from 1 to 1e+07 s"]),
        ("seed = 1.5", "seed", ["expected a whole number, got '1.5'"]),
        ('rates = "r.csv", duration = 5', "duration", ["the file of rates says it"]),
    ],
)
def test_refuses_with_place_and_remedy(tmp_path: Path, options: str, key: str, words: list[str]) -> None:
    """Each mistake is told with file, line and key by all that read networks."""
    path = written(tmp_path, options)
    with pytest.raises(InputError) as error:
        read_network(path)
    assert str(error.value).startswith(f"{path}:4: sources.s.options.{key}: ")
    for word in words:
        assert word in str(error.value)


def test_other_formats_take_what_spark_knows(tmp_path: Path) -> None:
    """Of other formats Spark knows options that we do not."""
    read = read_network(written(tmp_path, "rat = 800, maxFilesPerTrigger = 1", "json"))
    assert read.sources["s"].options == {"rat": "800", "maxFilesPerTrigger": "1"}


@pytest.mark.parametrize(
    ("options", "periods", "duration"),
    [("", 60, 60), ("Duration = '2 minutes'", 120, 120), ("duration = '90'", 90, 90)],
)
def test_durations_are_numbers_or_text(tmp_path: Path, options: str, periods: int, duration: float) -> None:
    """A duration is seconds or text, as everywhere."""
    rates = scheduled_rates(read_network(written(tmp_path, options)).sources["s"])
    assert (rates.periods, rates.duration) == (periods, duration)
    assert rates.of_source("s").tolist() == [1000.0] * periods


def test_seeds_are_whole_numbers() -> None:
    """A seed may be written with a point, as every whole number."""
    assert [Events.of(Source(name="s", options={"seed": text})).seed for text in ("7", "7.0", "-7")] == [7, 7, -7]


def test_every_option_is_documented(root: Path) -> None:
    """The page on the source has a row for each option."""
    text = (root / "docs/reference/nexmark.md").read_text()
    for field in attrs.fields(Events):
        assert f"| `{field.name}` |" in text
