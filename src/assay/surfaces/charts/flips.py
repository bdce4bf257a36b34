"""What became of the same records in two runs."""

from collections.abc import Iterator, Sequence

from assay.core.number_text import rate_text
from assay.presentation.charts import Caption, FlipChartData
from assay.surfaces.charts import svg

_BAR = 34
_NAMES = (
    ("passed in both", "both_passed", "bar-soft"),
    ("gained", "gained", "bar"),
    ("lost", "lost", "bar-warn"),
    ("not passed in both", "both_failed", "bar-soft"),
)


def flip_chart(flips: FlipChartData, caption: Caption) -> str:
    """Return one line for each of the four fates, as long as its share of the records."""
    # A negative count cannot come from a comparison; from elsewhere it would draw a rectangle with a negative
    # width.
    counts = [(name, max(getattr(flips, member), 0), style) for name, member, style in _NAMES]
    total = sum(count for _, count, _ in counts)
    top = svg.caption_height(caption) + 6
    body = [part for index, row in enumerate(counts) for part in _row(row, top + index * _BAR, counts, caption)]
    said = ", ".join(f"{count:,} {name}" for name, count, _ in counts)
    return svg.document(caption, body, height=top + _BAR * len(counts) + svg.EDGE, says=f"Of {total:,} records: {said}.")


def _row(row: tuple[str, int, str], y: float, rows: Sequence[tuple[str, int, str]], caption: Caption) -> Iterator[str]:
    name, count, style = row
    total = sum(count for _, count, _ in rows)
    highest = max(count for _, count, _ in rows)
    start = svg.EDGE + max(svg.text_width(name) for name, _, _ in rows) + 12
    # Bold text is wider than the estimate of plain text.
    counts = max(1.1 * svg.text_width(_label(count, total)) for _, count, _ in rows)
    room = svg.drawn_width(caption) - svg.EDGE - counts - 8 - start
    width = max(room * count / highest, 1.0) if count else 0.0
    yield svg.words(svg.EDGE, y + 20, name)
    yield svg.rectangle((start, y + 5), (width, _BAR - 12), style=style, says=f"{name}: {_label(count, total)}")
    yield svg.words(start + width + 7, y + 20, _label(count, total), style="strong")


def _label(count: int, total: int) -> str:
    return f"{count:,} ({rate_text(count / total)})" if total else "0"
