"""Source rows of known benchmarks into legal_eval_v1, and cases of one contract into another.

`convert_files` reads and converts benchmark files, `convert_rows` converts rows that are already in memory,
`convert_cases` goes between contracts. Each gives a Conversion: rows or a document, and a report.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import get_args

import msgspec

from assay.core.errors import ThirdPartyCode, ThirdPartyError, UsageProblem
from assay.core.plugin import Plugin
from assay.datasets.converters import benchmarks, bfcl
from assay.datasets.converters.contracts import PAIRS, convert_cases
from assay.datasets.converters.report import (
    ConversionCounts,
    ConversionNote,
    ConversionReport,
    ConversionResult,
    IdStyle,
    RowSource,
    SourceCounts,
    SourceLine,
    UnreadableLine,
    summarize,
)
from assay.datasets.converters.rows import Converter, Row, RowOrigin, RowRefused, SourceColumns, check_accepted
from assay.datasets.converters.sources import read_source
from assay.datasets.legal_eval_v1.rules import SCHEMA_VERSION

__all__ = [
    "BFCL",
    "CONVERTERS",
    "PAIRS",
    "ConversionNote",
    "ConversionReport",
    "ConversionResult",
    "IdStyle",
    "RowSource",
    "SourceCounts",
    "UnreadableLine",
    "convert_cases",
    "convert_files",
    "convert_rows",
    "read_source",
]

CONVERTERS: dict[str, Converter] = {
    "prbench": benchmarks.convert_prbench,
    "apexv1": benchmarks.convert_apexv1,
    "lexam": benchmarks.convert_lexam,
    "includebase": benchmarks.convert_includebase,
    "lar_echr": benchmarks.convert_lar_echr,
}
"""Built-in benchmark converters by name: each turns the columns of a source row into canonical rows, or raises RowRefused."""

BFCL = bfcl.NAME
"""Built-in converter that reads questions and answers together."""


def convert_files(converter: str | Plugin, paths: Sequence[str | Path], *, id_style: IdStyle = "stable") -> ConversionResult:
    """Convert benchmark files to legal_eval_v1 rows and a report; raises UsageProblem, SourceUnreadable or MissingExtra.

    The files of BFCL become a document of batch_v1. A bad line or row is counted and reported, and never stops the file.
    """
    if converter == bfcl.NAME:
        return bfcl.convert_bfcl(paths)
    return convert_rows(converter, [read_source(path) for path in paths], id_style=id_style)


def convert_rows(converter: str | Plugin, sources: Iterable[RowSource], *, id_style: IdStyle = "stable") -> ConversionResult:
    """Convert source rows to legal_eval_v1 rows and a report; raises UsageProblem for an unknown converter or id style."""
    if isinstance(converter, str) and converter not in CONVERTERS:
        raise UsageProblem(f"there is no converter {converter!r}", hint=f"converters: {', '.join(CONVERTERS)}")
    if id_style not in get_args(IdStyle):
        raise UsageProblem(f"there is no id style {id_style!r}", hint=f"id styles: {', '.join(get_args(IdStyle))}")
    convert = CONVERTERS[converter] if isinstance(converter, str) else plugin_converter(converter)
    gathering = _RowCollector(convert, id_style)
    tallies = [gathering.add_source(source) for source in sources]
    name, plugin = (converter, None) if isinstance(converter, str) else (converter.plan.name, converter.plan)
    report = msgspec.structs.replace(summarize(name, SCHEMA_VERSION, tallies=tallies), plugin=plugin)
    return ConversionResult(rows=tuple(gathering.rows), report=report)


class _RowCollector:
    """Rows over all sources, with the place of each id's first use."""

    def __init__(self, convert: Converter, id_style: IdStyle) -> None:
        self.rows: list[Row] = []
        self._convert = convert
        self._id_style = id_style
        self._first: dict[str, tuple[str, Row]] = {}

    def add_source(self, source: RowSource) -> ConversionCounts:
        tally = ConversionCounts(source.name)
        # A dict, since it keeps the order of the columns.
        left_out: dict[str, None] = {}
        for line in source.lines:
            tally.read += 1
            left_out.update(dict.fromkeys(self._add_line(line, tally)))
        if left_out:
            tally.note("left_out", f"columns without a place in the rows: {', '.join(left_out)}")
        return tally

    def _add_line(self, line: SourceLine, tally: ConversionCounts) -> tuple[str, ...]:
        """Convert one line; returns the unread columns."""
        number, found = line
        # A bad line costs itself and never the file: it is counted and reported with its reason.
        if isinstance(found, UnreadableLine):
            tally.refuse(found.reason, line=number)
            return ()
        try:
            columns = SourceColumns(found)
            rows = self._convert(columns, RowOrigin(tally.source, number, self._id_style))
        except RowRefused as problem:
            tally.refuse(str(problem), line=number)
            return ()
        if not rows:
            tally.skip("the converter gives no row for it", line=number)
        for row in rows:
            self._emit(row, tally, line=number)
        return tuple(columns.unread())

    def _emit(self, row: Row, tally: ConversionCounts, *, line: int) -> None:
        # Ids are unique over all sources of one conversion: the result is one file.
        first = self._first.get(row["id"])
        if first is None:
            self._first[row["id"]] = (f"{tally.source}:{line}", row)
            self.rows.append(row)
            tally.emitted += 1
            return
        sameness = "the same row" if first[1] == row else "another row"
        tally.skip(f"the id {row['id']!r} was given to {sameness} at {first[0]}", line=line, record_id=row["id"])


def plugin_converter(plugin: Plugin) -> Converter:
    """Wrap a plugin's function as a converter: a row is refused if the function raises, or if the contract rejects its result."""

    def convert(columns: SourceColumns, _: RowOrigin) -> tuple[Row, ...]:
        try:
            with ThirdPartyCode():
                returned = plugin.target(columns.all())
                rows = [] if returned is None else [returned] if isinstance(returned, Mapping) else list(returned)
        except ThirdPartyError as failure:
            # A converter raises ValueError to reject a row; any other exception is a bug in it, so its type and location are shown.
            is_stated = isinstance(failure.problem, ValueError) and str(failure.problem)
            raise RowRefused(str(failure.problem) if is_stated else f"the converter raised {failure}") from failure.problem
        return tuple(_canonical(row, plugin) for row in rows)

    return convert


def _canonical(row: object, plugin: Plugin) -> Row:
    if not isinstance(row, Mapping):
        raise RowRefused(f"the converter gave {type(row).__name__}, not a row")
    return check_accepted({"schema_version": SCHEMA_VERSION, "dataset": plugin.plan.name.rpartition(":")[2], **row})
