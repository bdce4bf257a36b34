"""Lines of a help that stand as they were written, examples and exit codes, folded to the width of the terminal."""

import re
import textwrap

import click

AS_WRITTEN = "\b"
"""Begins a paragraph that click leaves as it is, however long its lines are."""
_COLUMNS = re.compile(r"(?P<left>\s*\S.*?\s{2,})\S")
"""A word or a command, a gap, and what is said of it."""
_WORD = re.compile(r"""(?:--?[\w-]+ (?!-))?(?:'[^']*'|"[^"]*"|\S)+""")
"""A word of a command line, an option together with its value."""
_GOES_ON = " \\"


class FoldingFormatter(click.HelpFormatter):
    """Writes help of which no line is longer than the terminal is wide."""

    def write_text(self, text: str) -> None:
        """Paragraphs; click folds those that are not left as they are."""
        room = self.width - self.current_indent
        super().write_text("\n\n".join(_folded(paragraph, room) for paragraph in text.split("\n\n")))


def _folded(paragraph: str, room: int) -> str:
    if not paragraph.startswith(AS_WRITTEN):
        return paragraph
    return "\n".join(line if len(line) <= room else _folded_line(line, room) for line in paragraph.split("\n"))


def _folded_line(line: str, room: int) -> str:
    """What is said of a word goes on below its beginning, and a command as a shell would read it."""
    columns = _COLUMNS.match(line)
    if columns is not None:
        left = columns["left"]
        return "\n".join(textwrap.wrap(line[len(left) :], room, initial_indent=left, subsequent_indent=" " * len(left)))
    indent = " " * (len(line) - len(line.lstrip()))
    lines = [indent]
    for number, word in enumerate(_WORD.findall(line)):
        if number and len(lines[-1]) + 1 + len(word) + len(_GOES_ON) > room:
            lines[-1] += _GOES_ON
            lines.append(f"{indent}  ")
        lines[-1] += word if lines[-1].isspace() or not lines[-1] else f" {word}"
    return "\n".join(lines)
