"""Files of other evaluation tools into a dataset and finished runs, with a report of what could not be carried over.

`read_files` takes them in; what comes back has the dataset's lines, the answers of each candidate and the report.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import get_args

from assay.core.case import ContractId
from assay.core.errors import UsageProblem
from assay.datasets.importers.guessing import guess_format
from assay.datasets.importers.inputs import ImportSource
from assay.datasets.importers.inspect_log import read_inspect
from assay.datasets.importers.intake import Answers, Intake
from assay.datasets.importers.items import Answer, ImportFormat, Item, Mark, Question
from assay.datasets.importers.report import ImportReport, Reading, SourceFile
from assay.datasets.importers.rows import LEFT, DatasetRows, fitting_contract

__all__ = [
    "LEFT",
    "Answer",
    "Answers",
    "DatasetRows",
    "ImportFormat",
    "ImportReport",
    "Imported",
    "Item",
    "Mark",
    "Question",
    "read_files",
]

_READERS: dict[ImportFormat, Callable[[list[ImportSource], Reading], Iterator[tuple[Item, ImportSource, int]]]] = {
    "inspect": read_inspect,
}


class Imported:
    """Everything that was read of some files."""

    def __init__(self, form: ImportFormat, intake: Intake, reading: Reading, sources: Sequence[ImportSource]) -> None:
        self.format = form
        self.intake = intake
        self.reading = reading
        self._sources = sources

    def dataset(self, contract: ContractId | None = None) -> DatasetRows:
        """The dataset of all questions; without a contract, in the one that takes them all."""
        name = next((question.dataset for question in self.intake.questions()), "imported")
        return DatasetRows(self.intake, contract or fitting_contract(self.intake), name=name)

    @property
    def first_path(self) -> Path:
        """Where the first source is."""
        return self._sources[0].path.absolute()

    def files(self) -> tuple[SourceFile, ...]:
        """The sources with their hashes."""
        return tuple(
            SourceFile(name=source.name, sha256=source.opened.sha256(), size=source.opened.size) for source in self._sources
        )

    def report(self, rows: DatasetRows) -> ImportReport:
        """What was carried over and what was not, after the dataset's lines were taken."""
        return ImportReport(
            format=self.format,
            tool=self.reading.tool,
            version=self.reading.version,
            target=rows.contract,
            records=rows.count,
            candidates={name: len(answers) for name, answers in self.intake.candidates.items()},
            scorers={name: spread.scored for name, spread in self.intake.scorers.items()},
            left_out=dict(self.reading.left_out.most_common()),
            sources=tuple(source.tally.counts() for source in self._sources),
            remarks=tuple(remark for source in self._sources for remark in source.tally.remarks),
        )


def read_files(names: Sequence[str], form: ImportFormat | None = None) -> Imported:
    """What some files hold, which are all of one format; raises UsageProblem, SourceUnreadable or MissingExtra."""
    if form is not None and form not in get_args(ImportFormat):
        raise UsageProblem(f"there is no format {form!r}", hint=f"formats: {', '.join(get_args(ImportFormat))}")
    sources = [ImportSource(name) for name in names]
    known: ImportFormat = form or guess_format(sources)
    reading, intake = Reading(), Intake()
    for item, source, line in _READERS[known](sources, reading):
        intake.add(item, source, line)
    return Imported(known, intake, reading, sources)
