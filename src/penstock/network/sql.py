"""How SQL is read where no parser is at hand: what of a text is code."""

from __future__ import annotations

import re

QUOTED = re.compile(
    r"""/\*.*?\*/|--[^\n]*|(?<!\w)[rR](?:'[^']*'|"[^"]*")|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`""", re.DOTALL
)
"""What of SQL is no code: comments, texts (in raw ones a backslash is one) and names in quotes."""


def code(text: str) -> str:
    r"""Return a text of SQL with blanks for its comments and texts, each character in its place; quoted names stay.

    Examples
    --------
    >>> code('a = "it\'s" and `b c` > 1 -- why')
    'a =        and `b c` > 1       '
    """
    return QUOTED.sub(lambda found: found[0] if found[0][0] == "`" else " " * len(found[0]), text)
