"""The list of plugins as a table."""

from collections.abc import Iterator, Sequence

from assay import api
from assay.presentation.sections import Cell, Column
from assay.presentation.words import counted
from assay.surfaces.printable import printable
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import Paint, Row, hanging, painter, table

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
