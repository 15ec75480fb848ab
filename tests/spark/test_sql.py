"""SQL taken apart: the stars in it."""

from __future__ import annotations

import pytest

from penstock.errors import InputError
from penstock.network import Sink
from penstock.spark.compile.sql import message_options, without_stars

ALONE = {"": ["a", "b c"]}
JOINED = {"v": ["a", "n"], "W": ["a", "m`"]}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("to_json(struct(*)) AS r", "to_json(struct(`a`, `b c`)) AS r"),
        ("concat_ws(',', *) || '*' -- (*)", "concat_ws(',', `a`, `b c`) || '*' -- (*)"),
        ('f(*, /* (*) */ *), "g(*)", `h(*)`', 'f(`a`, `b c`, /* (*) */ `a`, `b c`), "g(*)", `h(*)`'),
        ("f((a + 1) * 2, g(h(*)[0]))", "f((a + 1) * 2, g(h(`a`, `b c`)[0]))"),
        ("f(x) * g(*) * 2 * (3) * 1.*4", "f(x) * g(`a`, `b c`) * 2 * (3) * 1.*4"),
        ("struct(* except (A))", "struct(`b c`)"),
        ("f(*EXCEPT(`b C`), x * (y))", "f(`a`, x * (y))"),
        ("*, a.*, * EXCEPT (a), f(*)", "*, a.*, * EXCEPT (a), f(`a`, `b c`)"),
        ("f(s.*, s.t.* EXCEPT (x))", "f(s.*, s.t.* EXCEPT (x))"),
        ("count( * ), Count(*), `count`(*)", "count( * ), Count(*), `count`(*)"),
        ("count_if(*), count(*, a)", "count_if(`a`, `b c`), count(`a`, `b c`, a)"),
        ("f(*", "f(`a`, `b c`"),
        ("f(* EXCEPT (a", "f(`a`, `b c`"),
        ("f('*", "f('*"),
    ],
)
def test_stars_in_calls_are_written_as_columns(text: str, written: str) -> None:
    """Stars among arguments are, and no other: products, texts, comments, names, parts of a list, rows to count."""
    assert without_stars(text, ALONE, "operators.m.select") == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("struct(*)", "struct(`v`.`a`, `v`.`n`, `W`.`a`, `W`.`m```)"),
        ("struct(v.*), f(`w` . *)", "struct(`v`.`a`, `v`.`n`), f(`W`.`a`, `W`.`m```)"),
        ("f(* EXCEPT (v.a, N), w.* EXCEPT (a))", "f(`W`.`a`, `W`.`m```, `W`.`m```)"),
        ("f(v.s.*, x.v.*, x.*)", "f(v.s.*, x.v.*, x.*)"),
        ("v.*, f(v.n * W.a)", "v.*, f(v.n * W.a)"),
    ],
)
def test_stars_of_joins_are_written_by_input(text: str, written: str) -> None:
    """One that names no input has the columns of both, each by its input's name, and one of a struct stays."""
    assert without_stars(text, JOINED, "operators.j.on") == written


@pytest.mark.parametrize("text", ["f(* EXCEPT (a))", "f(* EXCEPT (v.a.b))", "f(W.* EXCEPT (v.a))", "f(* EXCEPT (nix))"])
def test_what_is_no_column_cannot_be_excepted(text: str) -> None:
    """A name that both inputs have, part of a column, another input's column and no column are refused."""
    with pytest.raises(InputError, match=r"operators\.j\.on: EXCEPT in a call takes whole columns, got '"):
        without_stars(text, JOINED, "operators.j.on")


def test_messages_hold_what_the_user_sees() -> None:
    """Stars in a Kafka sink's value and key are its columns, and a comment ends with them; other options are no SQL."""
    options = {"topic": "(*)", "value": "to_json(struct(*)) -- all", "key": "CAST(hash(* EXCEPT (k)) AS STRING)"}
    assert message_options(Sink(name="out", input="m", format="kafka", options=options), ["k", "n"]) == {
        "topic": "(*)",
        "value": "(to_json(struct(`k`, `n`)) -- all\n)",
        "key": "(CAST(hash(`n`) AS STRING)\n)",
    }
