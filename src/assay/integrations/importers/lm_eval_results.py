"""Whose samples a file of lm-eval holds: told by the results beside it, of the same time, or by the folder they were written to."""

import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from assay.core.errors import SourceUnreadable, UsageProblem
from assay.datasets.converters.columns import RowRefused
from assay.datasets.imports.inputs import ImportSource
from assay.datasets.imports.report import ImportState
from assay.integrations.importers.lazy_object import LazyObject
from assay.integrations.importers.shapes import seconds

STAMP = r"(?P<stamp>\d{4}-\d{2}-\d{2}T[0-9:.-]+)"
"""How lm-eval ends the names of the files of one evaluation."""
_STAMPED = re.compile(rf".+_{STAMP}")
_UNKNOWN = "unknown model"


class _Results(msgspec.Struct, frozen=True):
    """A results file: where it is, and whose results it has."""

    folder: Path
    stamp: str
    model: str


class ResultsFiles:
    """The results among some files, and which of them belongs to which samples."""

    def __init__(self, sources: list[ImportSource], reading: ImportState) -> None:
        self._results = [_results(source, reading) for source in sources if source.ending == ".json"]
        self.samples = [source for source in sources if source.ending != ".json"]
        """The files that hold samples."""

    def model_of(self, source: ImportSource) -> str:
        """Who answered; raises UsageProblem where the files leave it open."""
        models = {results.model for results in self._of(source)} - {""}
        if len(models) > 1:
            raise UsageProblem(
                f"'{source.name}' may hold the samples of {' or '.join(sorted(models))}",
                hint="import the files of each model on their own",
            )
        return models.pop() if models else self._by_folder(source)

    def _of(self, source: ImportSource) -> list[_Results]:
        """The results of the same folder and time, else of the folder; results from elsewhere where only one folder has samples."""
        folder, stamp = _folder(source), _stamp(source)
        beside = [results for results in self._results if results.folder == folder]
        if not beside and not self._is_spread:
            beside = self._results
        at_once = [results for results in beside if results.stamp == stamp]
        return at_once or beside

    @property
    def _is_spread(self) -> bool:
        return len({_folder(source) for source in self.samples}) > 1

    def _by_folder(self, source: ImportSource) -> str:
        """lm-eval writes samples into a folder that is called like the model, and the time into their names."""
        if _stamp(source):
            return _folder(source).name
        if self._is_spread:
            raise UsageProblem(
                f"nothing says which model the samples in '{source.name}' are of",
                hint="name the results_*.json of its folder too, or import the files of each model on their own",
            )
        return _UNKNOWN


def stem_of(source: ImportSource) -> str:
    """The file's name without its endings; times have dots of their own."""
    return source.path.name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")


def _folder(source: ImportSource) -> Path:
    return source.path.absolute().parent


def _stamp(source: ImportSource) -> str:
    match = _STAMPED.fullmatch(stem_of(source))
    return match["stamp"] if match else ""


def _results(source: ImportSource, reading: ImportState) -> _Results:
    try:
        document = LazyObject(source.opened.buffer(), "the results")
        config = document.mapping("config")
        model = document.get("model_name") or document.get("model_source") or config.get("model")
        version, date = document.get("lm_eval_version"), document.get("date")
    except RowRefused as problem:
        raise SourceUnreadable(
            f"'{source.name}' holds no results of lm-eval: {problem}", hint="name only samples_*.jsonl"
        ) from problem
    at = None if isinstance(date, str) else seconds(date)
    when = str(date or "") if at is None else datetime.fromtimestamp(at, UTC).isoformat()
    reading.note_run(version=str(version or ""), created_at=when)
    return _Results(_folder(source), _stamp(source), str(model or ""))
