"""Plain words into styled and folded terminal text."""

from collections.abc import Callable

from rich.cells import cell_len, chop_cells

Paint = Callable[[str, str], str]
"""(text, style) -> the text, with the escape sequences of the style where colours are on."""

STYLES = {
    "error": "1;31",
    "warning": "1;33",
    "accepted": "1;32",
    "strong": "1",
    "quiet": "2",
    "gutter": "34",
    "hint": "1;36",
}
"""Numbers of ECMA-48: 1 is bold, 2 is dim, 31 to 36 are red, green, yellow, blue, magenta and cyan."""


def painter(*, is_coloured: bool) -> Paint:
    """A paint function; without colours it returns the text as it is."""
    return _coloured if is_coloured else _plain


def _coloured(text: str, style: str) -> str:
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if text else text


def _plain(text: str, style: str) -> str:
    del style
    return text


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
