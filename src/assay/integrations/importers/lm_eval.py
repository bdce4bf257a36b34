"""Samples of lm-eval as questions, answers and scores, with the results file that is next to them or is named."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from assay.core.errors import SourceUnreadable, UsageProblem
from assay.datasets.converters.rows import Row, RowRefused, choice_id, kind
from assay.datasets.imports.items import ImportedAnswer, ImportedItem, ImportedQuestion, ImportedScore, ImportSource, ImportState
from assay.integrations.importers.json_values import LazyObject, number, objects, seconds

STAMP = r"(?P<stamp>\d{4}-\d{2}-\d{2}T[0-9:.-]+)"
"""Ending of the names that lm-eval gives to the files of one evaluation."""
_STAMPED = re.compile(rf".+_{STAMP}")
_UNKNOWN = "unknown model"


class _Results(msgspec.Struct, frozen=True):
    """A results file: where it is, and whose results it has."""

    folder: Path
    stamp: str
    model: str


class ResultsFiles:
    """Results among some files, and which of them belongs to which samples."""

    def __init__(self, sources: list[ImportSource], reading: ImportState) -> None:
        self._results = [_results(source, reading) for source in sources if source.ending == ".json"]
        self.samples = [source for source in sources if source.ending != ".json"]
        """Files that hold samples."""

    def model_of(self, source: ImportSource) -> str:
        """Return the candidate; raises UsageProblem where the files leave it open."""
        # One folder may hold the results of several models.
        models = {results.model for results in self._of(source)} - {""}
        if len(models) > 1:
            raise UsageProblem(
                f"'{source.name}' may hold the samples of {' or '.join(sorted(models))}",
                hint="import the files of each model on their own",
            )
        return models.pop() if models else self._by_folder(source)

    def _of(self, source: ImportSource) -> list[_Results]:
        """Return the results of the same folder and time, else of the folder, else of any where only one folder has samples."""
        folder, stamp = _folder(source), _stamp(source)
        same_folder = [results for results in self._results if results.folder == folder]
        # Results elsewhere are only taken where no other folder could be meant.
        if not same_folder and not self._is_spread:
            same_folder = self._results
        same_time = [results for results in same_folder if results.stamp == stamp]
        return same_time or same_folder

    @property
    def _is_spread(self) -> bool:
        return len({_folder(source) for source in self.samples}) > 1

    def _by_folder(self, source: ImportSource) -> str:
        """Return the model of samples by their folder, which lm-eval names after the model."""
        if _stamp(source):
            return _folder(source).name
        if self._is_spread:
            raise UsageProblem(
                f"nothing says which model the samples in '{source.name}' are of",
                hint="name the results_*.json of its folder too, or import the files of each model on their own",
            )
        return _UNKNOWN


def stem_of(source: ImportSource) -> str:
    """Return the file's name without its endings; times contain dots too."""
    # Times in these names contain dots, so the suffix of the path would cut one.
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
    # Files of one evaluation end with the same time.
    return _Results(_folder(source), _stamp(source), str(model or ""))


_SAMPLES = re.compile(rf"samples_(?P<task>.+?)(?:_{STAMP})?")
_KNOWN = frozenset(
    {
        "doc_id",
        "doc",
        "target",
        "arguments",
        "resps",
        "filtered_resps",
        "filter",
        "metrics",
        "doc_hash",
        "prompt_hash",
        "target_hash",
    }
)
_NO_FILTER = "none"
_LIKELIHOOD = 2
"""A likelihood comes as two values: the logarithm, and whether the text would have been the greedy answer."""
_BY_LIKELIHOOD = "acc"
_LENGTHS: dict[str, Callable[[str], int]] = {
    _BY_LIKELIHOOD: lambda _: 1,
    "acc_norm": len,
    "acc_bytes": lambda text: len(text.encode()),
}
"""Divisors of likelihoods by metric of multiple choice; other metrics choose nothing."""
_SETTINGS = ("temperature", "top_p", "max_tokens", "seed")


def read_lm_eval(sources: list[ImportSource], reading: ImportState) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    """Yield the samples of all files; results files name model and version."""
    reading.tool = "lm-eval"
    makers = ResultsFiles(sources, reading)
    for source in makers.samples:
        yield from _samples(source, makers.model_of(source), reading)


def _task_of(source: ImportSource) -> str:
    stem = stem_of(source)
    match = _SAMPLES.fullmatch(stem)
    return match["task"] if match else stem


def _samples(source: ImportSource, model: str, reading: ImportState) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    task = _task_of(source)
    for line, sample in objects(source, "the sample"):
        try:
            item = _LmEvalSample(sample, task, reading).item(model)
        except RowRefused as problem:
            source.tally.refuse(str(problem), line=line)
            continue
        yield item, source, line


class _LmEvalSample:
    """One line of samples on its way to an item."""

    def __init__(self, sample: LazyObject, task: str, reading: ImportState) -> None:
        self._sample = sample
        self._task = task
        self._reading = reading
        self._calls = _calls(sample.get("arguments"))
        # Multiple choice is asked as one request for each choice; free text has settings in place of a last
        # argument.
        self._is_choice = len(self._calls) > 1 and all(isinstance(last, str) for _, last in self._calls)
        self._choices = [str(last).strip() for _, last in self._calls] if self._is_choice else []
        self._answers = sample.list("filtered_resps")

    def item(self, model: str) -> ImportedItem:
        """Return the sample as an item; raises RowRefused where it holds no question."""
        self._note_settings(model)
        question, answer, marks = self._question(), self._answer(), tuple(self._marks())
        # Likelihoods alone are no answer, so there is nothing that a score could be about.
        if answer is not None or not any(_likelihood(one) is not None for one in self._answers):
            return ImportedItem(question=question, candidate=model, answer=answer, marks=marks)
        self._reading.leave_out("score of a likelihood, to which there is no answer", sum(mark.value is not None for mark in marks))
        error = "lm-eval measured how likely a text is; there is no answer"
        return ImportedItem(question=question, candidate=model, marks=marks, error_code="no_answer", error=error)

    def _note_settings(self, model: str) -> None:
        settings = self._calls[0][1]
        if not isinstance(settings, dict):
            return
        given = {name: settings[name] for name in _SETTINGS if settings.get(name) is not None}
        self._reading.note_parameters(model, given)
        for name in settings:
            self._reading.leave_out(f"generation_kwargs.{name}", int(name not in (*_SETTINGS, "do_sample")))

    def _question(self) -> ImportedQuestion:
        doc_id = self._sample.get("doc_id")
        if not isinstance(doc_id, int) or isinstance(doc_id, bool):
            raise RowRefused(f"doc_id is {kind(doc_id)}, not a number")
        prompt = self._calls[0][0]
        if not isinstance(prompt, str) or not prompt.strip():
            raise RowRefused("the arguments hold no prompt")
        correct = self._correct()
        choices = [{"id": choice_id(place, "stable"), "text": text or "(nothing)"} for place, text in enumerate(self._choices)]
        self._reading.leave_out("choices without a target among them", int(bool(choices) and not correct))
        return ImportedQuestion(
            id=f"{self._task}:{doc_id}",
            dataset=self._task,
            prompt=prompt,
            references=[] if correct else self._targets(),
            choices=choices if correct else [],
            correct_choice_ids=correct,
            metadata=self._metadata(),
        )

    def _metadata(self) -> Row:
        doc = self._sample.get("doc")
        return {"doc": doc} if doc not in (None, {}) else {}

    def _targets(self) -> list[str]:
        target = self._sample.get("target")
        listed = target if isinstance(target, list) else [target]
        return [str(one) for one in listed if isinstance(one, str | int | float) and str(one).strip()]

    def _correct(self) -> list[str]:
        """Return the right choice of a multiple-choice target, which is its place or its text."""
        found = [place for target in self._targets() if (place := self._place(target)) is not None]
        return [choice_id(place, "stable") for place in dict.fromkeys(found)] if self._is_choice else []

    def _place(self, target: str) -> int | None:
        # By text first: a choice may be a number, and then it is not a place.
        if target.strip() in self._choices:
            return self._choices.index(target.strip())
        return int(target) if target.isascii() and target.isdigit() and int(target) < len(self._choices) else None

    def _answer(self) -> ImportedAnswer | None:
        chosen = self._chosen(_BY_LIKELIHOOD)
        if chosen is not None:
            return ImportedAnswer(text=self._choices[chosen])
        said = [text for one in self._sample.list("resps") for text in (one if isinstance(one, list) else [one])]
        self._reading.leave_out("further responses to a request", max(0, len(said) - 1))
        first = said[0] if said else next(iter(self._answers), None)
        return ImportedAnswer(text=first) if isinstance(first, str) else None

    def _chosen(self, metric: str) -> int | None:
        """Return the choice that a metric takes as the model's: the likeliest, for some by its length; None without one."""
        likelihoods = [_likelihood(one) for one in self._answers] if self._is_choice else []
        known = [value for value in likelihoods if value is not None]
        # Only where each choice has a likelihood is the best one known.
        if not known or len(known) != len(self._choices) or metric not in _LENGTHS:
            return None
        # acc_norm divides by characters and acc_bytes by bytes, as lm-eval does.
        weighed = [value / max(1, _LENGTHS[metric](text)) for value, text in zip(known, self._choices, strict=True)]
        return weighed.index(max(weighed))

    def _marks(self) -> Iterator[ImportedScore]:
        words = next((one for one in self._answers if isinstance(one, str)), "")
        filtered = self._sample.text("filter")
        # Older files list no metrics; there every member that is not known is one.
        named = self._sample.list("metrics") or [name for name in self._sample.names() if name not in _KNOWN]
        for name in named:
            chosen = self._chosen(str(name))
            value = self._sample.get(str(name))
            worth = float(value) if isinstance(value, bool) else number(value)
            why_none = "the sample has no value of the metric" if value is None else f"its value is {kind(value)}"
            yield ImportedScore(
                # One metric may be computed after several filters, each of which is a score of its own.
                scorer=str(name) if filtered in ("", _NO_FILTER) else f"{name},{filtered}",
                value=worth,
                reason="" if worth is not None else why_none,
                selected=words if chosen is None else choice_id(chosen, "stable"),
                answer=None if chosen is None else self._choices[chosen],
            )


def _calls(arguments: object) -> list[tuple[object, object]]:
    """Return the first and last argument of each request: an object of objects, or a list of lists in older files."""
    if isinstance(arguments, dict):
        # Newer versions write objects with numbered names, older ones lists.
        arguments = [list(call.values()) if isinstance(call, dict) else call for call in arguments.values()]
    calls = [call for call in arguments if isinstance(call, list) and call] if isinstance(arguments, list) else []
    if not calls:
        raise RowRefused("the sample has no arguments")
    return [(call[0], call[1] if len(call) > 1 else None) for call in calls]


def _likelihood(value: object) -> float | None:
    first = value[0] if isinstance(value, list) and len(value) == _LIKELIHOOD else None
    try:
        return float(first) if isinstance(first, int | float | str) else None
    except (ValueError, OverflowError):
        return None
