"""Conversions and imports: a table of sources, the remarks on them, and what was carried over or not, by name."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.cells import cell_len

from assay.core.text import printable
from assay.presentation.sections import Fact, Section
from assay.presentation.words import counted
from assay.surfaces.reporters.settings import ReportSettings
from assay.surfaces.reporters.terminal import Paint, hanging, painter, section_lines

MAX_KINDS = 20
"""Different remarks shown unless all are called for."""
SHOWN_OF_A_KIND = 3
COUNTS = ("read", "emitted", "invalid", "skipped")
TEXT_LIMIT = 400
INDENT = 4
CELL = 10
IMPORT_LABEL = 18
"""Columns of the labels at the left of an import."""
MAX_LEFT_OUT = 12
_NAME_LIMIT = 200

Remark = dict[str, Any]


def conversion_text(report: dict[str, Any], settings: ReportSettings) -> Iterator[str]:
    """The remarks, then the table; the report comes as the plain values of its JSON form."""
    paint = painter(is_coloured=settings.is_coloured)
    kinds = _kinds(report["remarks"])
    shown = kinds if settings.is_verbose else kinds[:MAX_KINDS]
    for remarks in shown:
        yield from _kind(remarks, settings, paint=paint)
    omitted = sum(map(len, kinds[len(shown) :]))
    if omitted:
        yield paint(f"… and {counted(omitted, 'more remark')} (--verbose shows all)", "quiet") + "\n"
    yield "\n" if kinds else ""
    yield from _table(report, settings, paint=paint)


def import_text(report: dict[str, Any], settings: ReportSettings, *, dataset: str = "") -> Iterator[str]:
    """Remarks and counts as of every conversion, then what there is now and what stayed behind."""
    yield from conversion_text(report, settings)
    yield "\n"
    left_out = list(report["left_out"].items())
    shown = left_out if settings.is_verbose else left_out[:MAX_LEFT_OUT]
    pairs = [
        ("from", f"{report['tool']} {report['version']}".strip()),
        ("dataset", " · ".join(filter(None, (counted(report["records"], "record"), report["target"], dataset)))),
        *(("candidate", f"{name} · {counted(answers, 'answer')}") for name, answers in report["candidates"].items()),
        *(("scorer", f"{name} · {counted(scores, 'score')}") for name, scores in report["scorers"].items()),
        *(("incomplete", words) for words in report["incomplete"]),
        *([] if left_out else [("not carried over", "nothing")]),
        *(("not carried over", f"{name} · {times:,}") for name, times in shown),
    ]
    paint = painter(is_coloured=settings.is_coloured)
    facts = tuple(Fact(label, text, limit=_NAME_LIMIT) for label, text in pairs)
    yield from section_lines(Section(facts=facts), settings, paint=paint, label=IMPORT_LABEL)
    if len(shown) < len(left_out):
        yield paint(f"… and {counted(len(left_out) - len(shown), 'more kind')} (--verbose shows all)", "quiet") + "\n"


def _kinds(remarks: Sequence[Remark]) -> list[list[Remark]]:
    """Remarks that say the same of one source, together, in the order in which each was first made."""
    kinds: dict[tuple[str, str, str], list[Remark]] = {}
    for remark in remarks:
        kinds.setdefault((remark["source"], remark["action"], remark["reason"]), []).append(remark)
    return list(kinds.values())


def _kind(remarks: Sequence[Remark], settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    first = remarks[0]
    is_alone = len(remarks) == 1
    line = first["line"] if is_alone else None
    where = printable(first["source"] if line is None else f"{first['source']}:{line}") + ":"
    action = first["action"].replace("_", " ") + ("" if is_alone else f" ({len(remarks):,} times)") + ":"
    reason = printable(first["reason"], limit=TEXT_LIMIT)
    subject = _subject({**first, "line": None}) if is_alone else ""
    words = f"{reason} ({subject})" if subject else reason
    folded = hanging(words, first=cell_len(f"{where} {action} "), width=settings.width, indent=INDENT)
    style = "error" if first["action"] == "invalid" else "warning"
    yield f"{paint(where, 'strong')} {paint(action, style)} {folded}\n".replace(" \n", "\n")
    if not is_alone:
        yield from _members(remarks, settings, paint=paint)


def _members(remarks: Sequence[Remark], settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    subjects = [subject for subject in map(_subject, remarks) if subject]
    shown = subjects if settings.is_verbose or len(subjects) == SHOWN_OF_A_KIND + 1 else subjects[:SHOWN_OF_A_KIND]
    for subject in shown:
        yield f"{'':{INDENT}}{paint(subject, 'quiet')}\n"
    if len(subjects) > len(shown):
        yield f"{'':{INDENT}}{paint(f'… and {len(subjects) - len(shown):,} more like this', 'quiet')}\n"


def _subject(remark: Remark) -> str:
    parts = (f"line {remark['line']}" if remark["line"] is not None else "", remark["record_id"], remark["path"])
    return printable(" · ".join(part for part in parts if part), limit=TEXT_LIMIT)


def _table(report: dict[str, Any], settings: ReportSettings, *, paint: Paint) -> Iterator[str]:
    room = None if settings.width is None else settings.width - CELL * len(COUNTS)
    rows = [(_shortened(printable(source["source"]), room), source) for source in report["sources"]]
    if len(rows) != 1:
        rows.append(("total", report["totals"]))
    longest = max(cell_len(name) for name, _ in [*rows, ("source", {})])
    yield paint(_row("source", COUNTS, longest), "quiet") + "\n"
    for name, counts in rows:
        yield _row(name, [f"{counts[column]:,}" for column in COUNTS], longest) + "\n"


def _shortened(name: str, room: int | None) -> str:
    """The end of a long name, which tells more than its beginning."""
    if room is None or cell_len(name) <= room:
        return name
    while len(name) > 1 and cell_len(name) > room - 1:
        name = name[1:]
    return "…" + name


def _row(name: str, cells: Sequence[str], longest: int) -> str:
    return f"{name}{'':{longest - cell_len(name)}}" + "".join(f"{cell:>{CELL}}" for cell in cells)
