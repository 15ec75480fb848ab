"""Small pieces of SQL, and lists of columns taken apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import attrs
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from penstock.errors import InputError
from penstock.network import Operator, Sink
from penstock.spark.shipped.turn import BUCKETS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from sqlglot.tokenizer_core import Token

_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSED = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_BEFORE = (TokenType.L_PAREN, TokenType.COMMA, TokenType.DOT)

SQL = ("key", "value")
"""Options of a Kafka sink that are SQL."""

STAR = re.compile(r"(?:(?P<of>[^()]+)\.)?\s*\*(?P<but>\s*EXCEPT\s*\(.*\))?", re.IGNORECASE | re.DOTALL)
"""A part of a select list that stands for several columns: all, or those of a struct or a join's input."""

CLOCKS = ("current_timestamp", "current_date", "current_time", "localtimestamp", "now", "curdate")
"""Functions of the time at which a batch is computed; those that need no brackets come first."""

_NAME = r"(?:\w+|`(?:[^`]|``)+`)"
_PLAIN = re.compile(rf"{_NAME}(?:\s*\.\s*{_NAME})*(?:\s+AS\s+{_NAME})?", re.IGNORECASE)


def quoted(name: str) -> str:
    """Return a column's name as SQL."""
    return "`" + name.replace("`", "``") + "`"


def bracketed(text: str) -> str:
    """Return SQL in brackets, which a comment at its end does not swallow."""
    return f"({text}\n)"


def literal(text: str) -> str:
    """Return a text as SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def split_columns(text: str) -> list[str]:
    """Split an SQL select list at its top-level commas; what cannot be read stays whole, for Spark to refuse."""
    try:
        tokens = Spark().tokenize(text)
    except TokenError:
        return [text.strip()]
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSED)
        if token.token_type == TokenType.COMMA and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [text[part[0].start : part[-1].end + 1] for part in parts if part]


def spread(parts: Sequence[str], frame: DataFrame) -> list[str]:
    """Return a select list whose stars are written as columns, of a frame that has those that the user sees."""
    found = []
    for part in parts:
        star = STAR.fullmatch(part)
        if star is None:
            found.append(part)
            continue
        before = f"{star['of']}." if star["of"] else ""
        found += [before + quoted(name) for name in frame.selectExpr(part).columns]
    return found


def starless(operator: Operator, columns: Callable[[], Mapping[str, Sequence[str]]]) -> Operator:
    """Return an operator whose SQL has no stars in calls; ``columns`` are asked for if it may: see `without_stars`."""
    texts = {key: getattr(operator, key) or "" for key in ("where", "select", "on")}
    starred = {key: text for key, text in texts.items() if "*" in text}
    if not starred:
        return operator
    known, at = columns(), f"operators.{operator.name}"
    written: dict[str, Any] = {key: without_stars(text, known, f"{at}.{key}") for key, text in starred.items()}
    return attrs.evolve(operator, **written)


def message_options(sink: Sink, names: Sequence[str]) -> dict[str, str]:
    """Return the options of a Kafka sink of these columns, whose SQL is in brackets and has no stars in calls."""
    at, known = f"sinks.{sink.name}.options", {"": names}
    told = [key for key in SQL if key in sink.options]
    written = {key: bracketed(without_stars(sink.options[key], known, f"{at}.{key}")) for key in told}
    return {**sink.options, **written}


def without_stars(text: str, columns: Mapping[str, Sequence[str]], at: str) -> str:
    """Return SQL in which stars in calls, as in ``struct(*)``, are written as the columns that the user sees.

    Spark would take them for all columns of a frame, which has some of penstock's own. It takes ``count(*)`` for
    ``count(1)``: that one stays.

    Parameters
    ----------
    columns
        What the user sees: for joins by input, elsewhere of ``""``. Stars of other names are those of structs.
    at
        Where the SQL stands.

    Raises
    ------
    InputError
        If ``EXCEPT`` names what is no column, or one of each input.
    """
    tokens, pieces, done = _tokens(text), [], 0
    for place in _stars_in_calls(tokens):
        first, last, sides = place, place, dict(columns)
        if tokens[place - 1].token_type == TokenType.DOT:
            first = place - 2
            alone = tokens[place - 3].token_type != TokenType.DOT
            name = tokens[first].text.lower()
            sides = {side: names for side, names in columns.items() if alone and side.lower() == name}
            if not sides:
                continue
        shown = [(side, name) for side, names in sides.items() for name in names]
        if [token.token_type for token in tokens[place + 1 : place + 3]] == [TokenType.EXCEPT, TokenType.L_PAREN]:
            closed = (n for n in range(place, len(tokens)) if tokens[n].token_type == TokenType.R_PAREN)
            last = next(closed, len(tokens) - 1)
            shown = _without(shown, text[tokens[place + 2].end + 1 : tokens[last].start], at)
        written = (f"{quoted(side)}.{quoted(name)}" if side else quoted(name) for side, name in shown)
        pieces += [text[done : tokens[first].start], ", ".join(written)]
        done = tokens[last].end + 1
    return "".join([*pieces, text[done:]])


def _stars_in_calls(tokens: Sequence[Token]) -> Iterator[int]:
    """Return the places of stars that stand for columns in calls: not of products, which follow what they multiply."""
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSED)
        if token.token_type != TokenType.STAR or not depth:
            continue
        around = [each.text.lower() for each in tokens[place - 2 : place + 2]]
        if tokens[place - 1].token_type in _BEFORE and around != ["count", "(", "*", ")"]:
            yield place


def _without(shown: Sequence[tuple[str, str]], text: str, at: str) -> list[tuple[str, str]]:
    """Return columns, each with its input, but for those that a list names."""
    left = list(shown)
    for part in split_columns(text):
        path = [token.text.lower() for token in _tokens(part) if token.token_type != TokenType.DOT]
        gone = [(side, name) for side, name in shown if path in ([name.lower()], [side.lower(), name.lower()])]
        if len(gone) != 1:
            names = ", ".join(name for _, name in shown)
            hint = "a column of one input" if gone else f"one of {names}"
            raise InputError(f"EXCEPT in a call takes whole columns, got {part!r}", at=at, hint=hint)
        left = [each for each in left if each not in gone]
    return left


def plain(part: str) -> bool:
    """Whether a part of a select list is a column as it is, maybe with another name: computing it cannot fail."""
    return _PLAIN.fullmatch(part) is not None


def distinct(text: str) -> bool:
    """Whether SQL aggregates distinct values, as in ``count(DISTINCT user)``."""
    return _follow(text, TokenType.L_PAREN, TokenType.DISTINCT)


def over_rows(text: str) -> bool:
    """Whether SQL has a window function, as in ``row_number() OVER (…)``."""
    return _follow(text, TokenType.OVER, TokenType.L_PAREN)


def calls(text: str) -> frozenset[str]:
    """Return the names of the functions that SQL calls, in small letters."""
    names = (first.text for first, second in pairwise(_tokens(text)) if second.token_type == TokenType.L_PAREN)
    return frozenset(name.lower() for name in names)


def clocks(text: str) -> frozenset[str]:
    """Return the names of the functions of the time at which a batch is computed, in small letters.

    Spark takes some of them without brackets.
    """
    tokens = _tokens(text)
    names = [token.text.lower() for token in tokens]
    found = {name for name in calls(text) if name in CLOCKS}
    found |= {name for before, name in pairwise(["", *names]) if name in CLOCKS[:4] and before not in ("as", ".")}
    alone = any(names[n : n + 3] == ["unix_timestamp", "(", ")"] for n in range(len(names)))
    return frozenset(found | ({"unix_timestamp"} if alone else set()))


def _follow(text: str, first: TokenType, second: TokenType) -> bool:
    return any(pair == (first, second) for pair in pairwise(token.token_type for token in _tokens(text)))


def _tokens(text: str) -> list[Token]:
    """Return the tokens of SQL; none of what cannot be read, which Spark will refuse."""
    try:
        return Spark().tokenize(text)
    except TokenError:
        return []


def bucket(salt: str) -> str:
    """Return SQL for a row's bucket, 0..BUCKETS-1: a pure function of its identity and the salt."""
    return f"pmod(xxhash64(__id, {literal(salt)}), {BUCKETS})"


def burn(operator: Operator, steps_per_second: float) -> str:
    """Return SQL that is always true and takes the operator's cost."""
    cost = (operator.cost or (0.0,))[0]
    if operator.burn == "sleep":
        whole, rest = divmod(round(cost * 1e9), 1_000_000)
        call = f"java_method('java.lang.Thread', 'sleep', CAST({whole} AS BIGINT), {rest})"
        return f"coalesce({call}, 'slept') <> ''"
    steps = max(1, round(cost * steps_per_second))
    return f"aggregate(sequence(1, {steps}), __id, (a, x) -> xxhash64(a, x)) <> 42"


def computes(operator: Operator) -> bool:
    """Whether an operator burns processor time, for which the host's speed must be known."""
    return operator.kind == "delay" and operator.burn == "cpu"


def thinned(operator: Operator) -> str:
    """Return SQL for the share of rows that a stand-in lets through."""
    selectivity = (operator.selectivity or (1.0,))[0]
    return "true" if selectivity >= 1 else f"{bucket('select ' + operator.name)} < {round(selectivity * BUCKETS)}"


def condition(operator: Operator, speed: float) -> str:
    """Return SQL for the rows that a filter or delay lets through."""
    if operator.kind == "delay":
        # Spark evaluates them in this order: the cost is that of every row, not only of those that leave.
        return f"{burn(operator, speed)} AND {thinned(operator)}" if speed else thinned(operator)
    return bracketed(operator.where) if operator.where is not None else "true"
