"""An import's report: what was read and refused, what was carried over, and what was not, by name."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from assay.surfaces.printable import printable
from assay.surfaces.reporters.conversion import conversion_text
from assay.surfaces.reporters.paint import Paint, hanging, painter
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.wording import counted

LABEL = 18
NAME_LIMIT = 200
SHOWN_LEFT_OUT = 12

Json = dict[str, Any]


def imported_words(imported: Json) -> tuple[str, ...]:
    """Where an imported run comes from: `from inspect_ai 0.3.285`, `scorer includes (0/1)`, `capitals.eval`."""
    tool = f"from {imported['tool']} {imported['version']}".strip()
    scorer = f"scorer {imported['scorer']} ({imported['scale']})" if imported["scorer"] else "no scorer"
    files = [PurePath(file["name"]).name for file in imported["files"]]
    more = [f"and {len(files) - 3:,} more files"] if len(files) > 3 else []
    # Runs that were imported by earlier versions do not say it.
    incomplete = [f"incomplete: {'; '.join(imported['incomplete'])}"] if imported.get("incomplete") else []
    return tool, scorer, *files[:3], *more, *incomplete


def import_text(report: Json, settings: ReportSettings, *, dataset: str = "") -> Iterator[str]:
    """Remarks and counts as of every conversion, then what there is now and what stayed behind."""
    paint = painter(is_coloured=settings.is_coloured)
    yield from conversion_text(report, settings)
    yield "\n"
    yield _line("from", f"{report['tool']} {report['version']}".strip(), settings, paint=paint)
    place = f" · {dataset}" if dataset else ""
    yield _line("dataset", f"{counted(report['records'], 'record')} · {report['target']}{place}", settings, paint=paint)
    for name, answers in report["candidates"].items():
        yield _line("candidate", f"{name} · {counted(answers, 'answer')}", settings, paint=paint)
    for name, scores in report["scorers"].items():
        yield _line("scorer", f"{name} · {counted(scores, 'score')}", settings, paint=paint)
    for words in report["incomplete"]:
        yield _line("incomplete", words, settings, paint=paint)
    yield from _left_out(report["left_out"], settings, paint=paint)


def _left_out(left_out: dict[str, int], settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    if not left_out:
        yield _line("not carried over", "nothing", settings, paint=paint)
    shown = list(left_out.items()) if settings.is_verbose else list(left_out.items())[:SHOWN_LEFT_OUT]
    for name, times in shown:
        yield _line("not carried over", f"{name} · {times:,}", settings, paint=paint)
    if len(shown) < len(left_out):
        yield paint(f"… and {counted(len(left_out) - len(shown), 'more kind')} (--verbose shows all)", "quiet") + "\n"


def _line(label: str, words: str, settings: ReportSettings, *, paint: Paint) -> str:
    folded = hanging(printable(words, limit=NAME_LIMIT), first=LABEL, width=settings.width, indent=LABEL)
    return f"{paint(f'{label:<{LABEL}}', 'quiet')}{folded}\n"
