"""Letters that matplotlib's own font lacks, from what else the machine has."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOXES = "Last Resort"
"""Begin of the name of a font that has a box for every letter."""


def lend_letters(figure: Figure) -> None:
    """Let texts take letters that their font lacks from other fonts; one warning tells those that none has."""
    from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
    from matplotlib.text import Text

    texts = figure.findobj(Text)
    wanted = {letter for text in texts for letter in text.get_text() if letter.isprintable()}
    missing = {letter for letter in wanted if ord(letter) not in get_font(findfont(FontProperties())).get_charmap()}
    others = []
    for font in sorted(fontManager.ttflist, key=lambda each: each.name):
        if missing and (font.style, font.weight) == ("normal", 400) and not font.name.startswith(BOXES):
            try:
                known = get_font(font.fname).get_charmap()
            except (OSError, RuntimeError):  # it is gone, or damaged
                continue
            if any(ord(letter) in known for letter in missing):
                missing = {letter for letter in missing if ord(letter) not in known}
                others.append(font.name)
    for text in texts if others else ():
        text.set_fontfamily([*text.get_fontfamily(), *others])
    if missing:
        letters = " ".join(sorted(missing)[:10]) + (" …" if len(missing) > 10 else "")
        warnings.warn(f"no font of this machine has {letters}: the picture shows boxes for them", stacklevel=3)
