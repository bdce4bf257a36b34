"""Files of other evaluation tools into a dataset and finished runs, with a report of what could not be carried over.

`read_files` takes them in; what comes back has the dataset's lines, the answers of each candidate and the report. The formats are
known to the integration `importers` alone, which turns files into items (`ImporterSet`).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

import msgspec

from assay.core.contract import ContractId
from assay.core.errors import SourceUnreadable, UsageProblem
from assay.core.integrations import load_integration
from assay.datasets.converters.rows import RowRefused
from assay.datasets.imports.import_buffer import AnswerOffsets, ImportBuffer
from assay.datasets.imports.items import (
    DetectedFormat,
    ImportAbsence,
    ImportedAnswer,
    ImportedItem,
    ImportedQuestion,
    ImportedScore,
    ImportFormat,
    ImportReport,
    ImportSource,
    ImportState,
    SourceFile,
)
from assay.datasets.imports.rows import LEFT, DatasetRows, fitting_contract

__all__ = [
    "LEFT",
    "AnswerOffsets",
    "DatasetRows",
    "ImportFormat",
    "ImportReader",
    "ImportReport",
    "ImportResult",
    "ImportedAnswer",
    "ImportedItem",
    "ImportedQuestion",
    "ImportedScore",
    "ImporterSet",
    "read_files",
]

ImportReader = Callable[[list[ImportSource], ImportState], Iterator[tuple[ImportedItem, ImportSource, int]]]
"""Reader of all files of one format: yields each item with its file and its line."""


class ImporterSet(Protocol):
    """Interface of the integration `importers`."""

    READERS: Mapping[ImportFormat, ImportReader]

    def open_sources(self, names: Sequence[str], form: ImportFormat | None, reading: ImportState, /) -> list[ImportSource]:
        """Open all files, those of a folder that an import can use included; raises UsageProblem, SourceUnreadable."""

    def detect_format(self, sources: list[ImportSource], /) -> DetectedFormat:
        """Detect the format of all files; raises UsageProblem."""


class ImportResult:
    """Everything that was read from some files."""

    def __init__(
        self, detected: DetectedFormat, intake: ImportBuffer, reading: ImportState, sources: Sequence[ImportSource]
    ) -> None:
        self.format = detected.format
        self.evidence = detected.evidence
        self.intake = intake
        self.reading = reading
        self._sources = sources

    def dataset(self, contract: ContractId | None = None) -> DatasetRows:
        """Build the dataset of all questions; without a contract, in the one that accepts them all."""
        name = next((question.dataset for question in self.intake.questions()), "imported")
        return DatasetRows(self.intake, contract or fitting_contract(self.intake), name=name)

    @property
    def first_path(self) -> Path:
        """Path of the first source."""
        return self._sources[0].path.absolute()

    def files(self) -> tuple[SourceFile, ...]:
        """List the sources with their hashes."""
        return tuple(
            SourceFile(name=source.name, sha256=source.opened.sha256(), size=source.opened.size) for source in self._sources
        )

    def responses(self, candidate: str | None = None) -> Iterator[bytes]:
        """Yield all answers, or those of one candidate, as lines of a response file; raises UsageProblem if there are none."""
        names = [name for name in self.intake.candidates if candidate in (None, name)]
        if not names:
            raise UsageProblem(
                "these files hold no answers" + (f" of '{candidate}'" if candidate else ""), hint="leave --responses out"
            )
        for name in names:
            yield from map(_response, self.intake.items(name))

    def refused(self) -> dict[str, int]:
        """Count the items that were rejected, or came a second time; by name, like everything left out."""
        tallies = [source.tally for source in self._sources]
        counts = {
            "item that was refused": sum(tally.invalid for tally in tallies),
            "item that was skipped": sum(tally.skipped for tally in tallies),
        }
        return {name: times for name, times in counts.items() if times}

    @property
    def pass_share(self) -> float | None:
        """Share of the weights from which every answer passes, which a run file may say; None where there is no such share."""
        [share, *others] = self.reading.pass_shares or [None]
        return None if others else share

    def _lost_thresholds(self) -> Counter[str]:
        """Count thresholds that not all questions share: a run has one."""
        shares = self.reading.pass_shares
        lost = 0 if len(shares) < 2 else sum(times for share, times in shares.items() if share is not None)
        return Counter({"threshold of a test, which other tests do not have": lost} if lost else {})

    def report(self, rows: DatasetRows) -> ImportReport:
        """Report what was carried over and what was not, after the dataset's lines were taken."""
        left_out = self.reading.left_out + self._lost_thresholds()
        losses = [name for name in left_out if name not in self.reading.settings]
        is_whole = not losses and not any(source.tally.invalid for source in self._sources)
        return ImportReport(
            format=self.format,
            recognized_by=self.evidence,
            status="empty" if not rows.count else "complete" if is_whole else "partial",
            tool=self.reading.tool,
            version=self.reading.version,
            target=rows.contract,
            records=rows.count,
            candidates={name: answers.answered for name, answers in self.intake.candidates.items()},
            scorers={name: spread.scored for name, spread in self.intake.scorers.items()},
            left_out=dict(left_out.most_common()),
            settings=tuple(self.reading.settings),
            absences=(*self.reading.absences, *([ImportAbsence("", rows.absence)] if rows.absence else [])),
            incomplete=tuple(self.reading.incomplete),
            sources=tuple(source.tally.counts() for source in self._sources),
            remarks=tuple(remark for source in self._sources for remark in source.tally.remarks),
        )


def read_files(
    names: Sequence[str], form: ImportFormat | None = None, *, follows_files: bool = True, wants_turns: bool = False
) -> ImportResult:
    """Read files of one format; raises UsageProblem, SourceUnreadable or MissingExtra."""
    # Loaded by name: parsers of other tools' files are an optional part, which the core must not import.
    importers = cast("ImporterSet", load_integration("importers", user="an import"))
    if form is not None and form not in importers.READERS:
        raise UsageProblem(f"there is no format {form!r}", hint=f"formats: {', '.join(importers.READERS)}")
    reading, intake = ImportState(follows_files=follows_files, wants_turns=wants_turns), ImportBuffer()
    sources = importers.open_sources(names, form, reading)
    known = DetectedFormat(form, {}) if form else importers.detect_format(sources)
    try:
        for item, source, line in importers.READERS[known.format](sources, reading):
            intake.add(item, source, line)
    except RowRefused as problem:
        # The text around the items is malformed, not one of them.
        raise SourceUnreadable(f"these are not files of {known.format}: {problem}", hint="name the format: --from") from problem
    return ImportResult(known, intake, reading, sources)


def _response(item: ImportedItem) -> bytes:
    """Encode one answer; empty for an item without one, or with an error, which cannot be graded."""
    # The text of an error is not an answer: graded, it would count as a wrong one.
    if item.answer is None or item.error_code:
        return b""
    row = {"example_id": item.question.id, "candidate_name": item.candidate, "response_text": item.answer.text}
    return msgspec.json.encode({**row, "sample": item.sample} if item.sample else row) + b"\n"
