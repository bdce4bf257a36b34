"""What was looked at, as text: area by area, with what to do at every line that needs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay import api
from assay.presentation.words import counted
from assay.surfaces.printable import printable
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import hanging, painter

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
