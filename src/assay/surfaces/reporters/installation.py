"""What is installed, for the terminal: checks with what to do about each, and plugins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay import api
from assay.core.text import printable
from assay.presentation.sections import Cell, Column
from assay.presentation.words import counted
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import Paint, Row, hanging, painter, table

MARKS = {"ok": ("ok", "accepted"), "note": ("-", "quiet"), "problem": ("FIX", "error")}
_MARK = 4
_NAMES = 20


def doctor_text(checks: Sequence[api.DoctorCheck], settings: ReportSettings) -> Iterator[str]:
    """Lines for people; the verdict is the last one."""
    paint = painter(is_coloured=settings.is_coloured)
    for area in dict.fromkeys(check.area for check in checks):
        yield f"{paint(area, 'strong')}\n"
        for check in (check for check in checks if check.area == area):
            yield from _lines(check, settings)
        yield "\n"
    problems = sum(check.standing == "problem" for check in checks)
    verdict = f"{counted(problems, 'problem')} to fix" if problems else "no problems found"
    yield f"{paint(verdict, 'error' if problems else 'accepted')}\n"


def _lines(check: api.DoctorCheck, settings: ReportSettings) -> Iterator[str]:
    paint = painter(is_coloured=settings.is_coloured)
    mark, style = MARKS[check.standing]
    name = printable(check.name)
    indent = 2 + _MARK + 1 + _NAMES + 1
    first = f"  {paint(f'{mark:<{_MARK}}', style)} {name:<{_NAMES}} "
    says = hanging(printable(check.says), first=indent + max(0, len(name) - _NAMES), width=settings.width, indent=indent)
    yield f"{first}{says}\n"
    if check.hint:
        hint = hanging(f"hint: {printable(check.hint)}", first=indent, width=settings.width, indent=indent)
        yield f"{'':{indent}}{paint(hint, 'hint' if check.standing == 'problem' else 'quiet')}\n"


NOTHING = "no plugins are installed; custom code needs none: --grader file.py:function\n"
INDENT = 2
_COLUMNS = (Column("kind"), Column("name"), Column("package"), Column("state"), Column("code"))


def plugins_text(plugins: Sequence[api.PluginListing], settings: ReportSettings) -> Iterator[str]:
    """One line for each plugin, what is wrong with some of them, and how many there are."""
    if not plugins:
        yield NOTHING
        return
    paint = painter(is_coloured=settings.is_coloured)
    yield from table(_COLUMNS, [_row(plugin) for plugin in plugins], paint=paint, width=settings.width)
    yield "\n"
    said = [words for plugin in plugins for words in _words(plugin, settings, paint=paint)]
    yield from (*said, *(["\n"] if said else []))
    broken = sum(bool(plugin.problem) for plugin in plugins)
    yield " · ".join([counted(len(plugins), "plugin"), *([f"{broken:,} broken"] if broken else [])]) + "\n"


def _row(plugin: api.PluginListing) -> Row:
    state = (
        Cell("broken", tone="bad")
        if plugin.problem
        else Cell("name taken", tone="warn")
        if plugin.note
        else Cell("ready", tone="good")
    )
    package = f"{plugin.distribution} {plugin.version}".strip()
    return (plugin.kind, Cell(printable(plugin.name), "strong"), printable(package), state, printable(plugin.reference))


def _words(plugin: api.PluginListing, settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    """What there is to say of a plugin, below the table."""
    said = plugin.problem or plugin.note
    if said:
        head = f"{plugin.kind} {printable(plugin.name)}"
        folded = hanging(printable(said), first=len(head) + INDENT, width=settings.width, indent=INDENT)
        yield f"{paint(head, 'error' if plugin.problem else 'warning')}: {folded}\n"
