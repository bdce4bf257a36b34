"""Plain words into styled and folded terminal text."""

from collections.abc import Callable
from functools import cache

from rich.cells import cell_len, chop_cells
from rich.color import ColorSystem
from rich.style import Style

Paint = Callable[[str, str], str]
"""(text, style) -> the text, with the escape sequences of the style where colours are on."""

STYLES = {
    "error": "bold red",
    "warning": "bold yellow",
    "accepted": "bold green",
    "strong": "bold",
    "quiet": "dim",
    "gutter": "blue",
    "hint": "bold cyan",
}


def painter(*, is_coloured: bool) -> Paint:
    """A paint function; without colours it returns the text as it is."""
    return _coloured if is_coloured else _plain


def _coloured(text: str, style: str) -> str:
    return _style(style).render(text, color_system=ColorSystem.STANDARD)


def _plain(text: str, style: str) -> str:
    del style
    return text


@cache
def _style(name: str) -> Style:
    return Style.parse(STYLES[name])


def fold(text: str, *, first: int, width: int) -> list[str]:
    """Lines of at most `width` cells, broken at spaces; on the first one `first` cells are already taken."""
    lines: list[str] = []
    line, room = "", width - first
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if cell_len(joined) <= room:
            line = joined
            continue
        if line or room < width:
            lines.append(line)
        *full, line = chop_cells(word, width) or [""]
        lines += full
        room = width
    return [*lines, line]


def hanging(text: str, *, first: int, width: int | None, indent: int) -> str:
    """The text folded to the terminal, its further lines indented; as it is where there is no terminal."""
    if width is None:
        return text
    lines = fold(text, first=first - indent, width=max(width - indent, 20))
    return f"\n{'':{indent}}".join(lines)
