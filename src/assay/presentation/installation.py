"""What is installed, in sections: checks of the installation with what to do about each, and plugins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay import api
from assay.presentation.sections import Badge, Cell, CheckedItem, Column, Fact, FindingLine, Section, Table, TextBlock
from assay.presentation.words import counted

_MARKS = {"ok": Badge("ok", "good"), "note": Badge("-", "quiet"), "problem": Badge("FIX", "bad")}
_PLUGIN_COLUMNS = (Column("kind"), Column("name"), Column("package"), Column("state"), Column("code"))


def doctor_sections(checks: Sequence[api.DoctorCheck]) -> list[Section]:
    """Return the checks of each area, then how many problems they found."""
    areas = [
        Section(
            heading=(Cell(area),),
            checks=tuple(
                CheckedItem(mark=_MARKS[check.standing], name=check.name, text=check.says, hint=check.hint)
                for check in checks
                if check.area == area
            ),
        )
        for area in dict.fromkeys(check.area for check in checks)
    ]
    problems = sum(check.standing == "problem" for check in checks)
    verdict = Cell(f"{counted(problems, 'problem')} to fix", tone="bad") if problems else Cell("no problems found", tone="good")
    # The order of the areas is that of the checks, which the engine decides.
    return [*areas, Section(heading=(verdict,))]


def probe_sections(probes: Sequence[api.ModelProbe]) -> list[Section]:
    """Return the checks of each model, with the exchange that it shows, and how many models need fixing."""
    sections = [section for probe in probes for section in _probe(probe)]
    broken = sum(not probe.is_well for probe in probes)
    if broken:
        verdict = Cell(f"{broken:,} of {counted(len(probes), 'model')} to fix", tone="bad")
    else:
        verdict = Cell(f"{counted(len(probes), 'model')} ready", tone="good")
    return [*sections, Section(heading=(verdict,))]


def _probe(probe: api.ModelProbe) -> Iterator[Section]:
    checks = tuple(
        CheckedItem(mark=_MARKS[check.standing], name=check.subject, text=check.says, hint=check.hint) for check in probe.checks
    )
    yield Section(heading=(Cell(probe.name), Cell(probe.role, tone="quiet")), checks=checks)
    if probe.exchange is not None:
        shown = {"request": probe.exchange.request, "reply": probe.exchange.reply}
        read = (Fact(name, value) for name, value in probe.exchange.read.items())
        yield Section(
            texts=tuple(TextBlock(title=name, text=text, is_code=True) for name, text in shown.items()),
            facts=tuple(read),
            is_joined=True,
        )


def plugin_sections(plugins: Sequence[api.PluginListing]) -> list[Section]:
    """Return a row for each plugin, what is wrong with some of them, and how many there are."""
    if not plugins:
        return [Section(lines=("no plugins are installed; custom code needs none: --grader file.py:function",))]
    findings = tuple(
        FindingLine(
            label=f"{plugin.kind} {plugin.name}", tone="bad" if plugin.problem else "warn", text=plugin.problem or plugin.note
        )
        for plugin in plugins
        if plugin.problem or plugin.note
    )
    broken = sum(bool(plugin.problem) for plugin in plugins)
    line = " · ".join([counted(len(plugins), "plugin"), *([f"{broken:,} broken"] if broken else [])])
    table = Table(columns=_PLUGIN_COLUMNS, rows=tuple(map(_plugin_row, plugins)))
    return [Section(tables=(table,)), *([Section(findings=findings)] if findings else []), Section(lines=(line,))]


def _plugin_row(plugin: api.PluginListing) -> tuple[Cell, ...]:
    state = Cell("ready", tone="good")
    # A problem goes before a note: what is broken cannot also be ready under another name.
    if plugin.problem:
        state = Cell("broken", tone="bad")
    elif plugin.note:
        state = Cell("name taken", tone="warn")
    package = f"{plugin.distribution} {plugin.version}".strip()
    return (Cell(plugin.kind), Cell(plugin.name), Cell(package), state, Cell(plugin.reference))
