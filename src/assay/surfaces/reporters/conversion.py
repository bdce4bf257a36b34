"""A conversion's report as a table of sources and the list of what was not carried over as it stood."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.cells import cell_len

from assay.surfaces.printable import printable
from assay.surfaces.reporters.paint import Paint, painter
from assay.surfaces.reporters.settings import Settings
from assay.surfaces.reporters.wording import counted

MAX_REMARKS = 20
COUNTS = ("read", "emitted", "invalid", "skipped")
TEXT_LIMIT = 400


def conversion_text(report: dict[str, Any], settings: Settings) -> Iterator[str]:
    """The remarks, then the table; the report comes as the plain values of its JSON form."""
    paint = painter(is_coloured=settings.is_coloured)
    remarks = report["remarks"]
    shown = remarks if settings.is_verbose else remarks[:MAX_REMARKS]
    for remark in shown:
        yield _remark(remark, paint)
    if len(remarks) > len(shown):
        yield paint(f"… and {counted(len(remarks) - len(shown), 'more remark')} (--verbose shows all)", "quiet") + "\n"
    yield "\n" if remarks else ""
    yield from _table(report, paint)


def _remark(remark: dict[str, Any], paint: Paint) -> str:
    where = printable(":".join(str(part) for part in (remark["source"], remark["line"]) if part is not None))
    action = paint(remark["action"].replace("_", " "), "error" if remark["action"] == "invalid" else "warning")
    subject = " · ".join(str(part) for part in (remark["record_id"], remark["path"]) if part)
    reason = printable(remark["reason"], limit=TEXT_LIMIT)
    about = paint(f" ({printable(subject, limit=TEXT_LIMIT)})", "quiet") if subject else ""
    return f"{paint(where, 'strong')}: {action}: {reason}{about}\n"


def _table(report: dict[str, Any], paint: Paint) -> Iterator[str]:
    sources = report["sources"]
    rows = [(printable(source["source"]), source) for source in sources]
    if len(rows) != 1:
        rows.append(("total", report["totals"]))
    longest = max(cell_len(name) for name, _ in [*rows, ("source", {})])
    yield paint(_row("source", COUNTS, longest), "quiet") + "\n"
    for name, counts in rows:
        yield _row(name, [f"{counts[column]:,}" for column in COUNTS], longest) + "\n"


def _row(name: str, cells: Sequence[str], longest: int) -> str:
    return f"{name}{'':{longest - cell_len(name)}}" + "".join(f"{cell:>10}" for cell in cells)
