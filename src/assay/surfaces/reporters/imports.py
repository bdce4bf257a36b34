"""An import's report: what was read and refused, what was carried over, and what was not, by name."""

from collections.abc import Iterator
from typing import Any

from assay.presentation.words import counted
from assay.surfaces.printable import printable
from assay.surfaces.reporters.conversion import conversion_text
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import Paint, hanging, painter

LABEL = 18
NAME_LIMIT = 200
SHOWN_LEFT_OUT = 12

Json = dict[str, Any]


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
