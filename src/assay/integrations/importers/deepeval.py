"""Goldens, test cases and test runs of DeepEval into questions, answers and scores."""

import re
from collections.abc import Iterator
from typing import Any

from assay.core.model_call import Usage
from assay.datasets.converters.rows import Row, RowRefused, digest, kind
from assay.datasets.imports.items import ImportedAnswer, ImportedItem, ImportedQuestion, ImportedScore, ImportSource, ImportState
from assay.integrations.importers.json_values import LazyObject, amount, listed, mapping, mappings, number, objects
from assay.integrations.importers.messages import ImportedMessage, ImportedToolCall, turns_of

_NUMBERED = re.compile(r"test_case_\d+")
_SNAKE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BETWEEN = "|"
"""DeepEval's separator of the members of a list in tables and lines."""
_CARRIED = frozenset({"input", "expected_output", "context", "name", "additional_metadata", "tags"})
_OF_ANSWER = frozenset(
    {"actual_output", "metrics_data", "success", "run_duration", "order", "flaky", "input_token_count", "output_token_count"}
)
_OF_METRIC = frozenset({"name", "score", "success", "reason", "error", "evaluationModel"})
_NOTHING: tuple[Any, ...] = (None, False, "", [], {})
# Two spellings, by the version and the kind of export.
_RUNS = ("testCases", "test_cases")
_CONVERSATIONS = ("conversationalTestCases", "conversational_test_cases")


def read_deepeval(sources: list[ImportSource], reading: ImportState) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    """Return the goldens and test cases of all files."""
    reading.tool = "deepeval"
    naming = _CaseIds()
    for source in sources:
        candidate = source.path.name.partition(".")[0]
        run = _run_of(source)
        model = "" if run is None else _note_run(run, reading)
        for line, case in objects(source, "the case") if run is None else _cases(source, run, reading):
            try:
                item = _Case(case, reading).item(naming, dataset=candidate, candidate=model or candidate)
            except RowRefused as problem:
                source.tally.refuse(str(problem), line=line)
                continue
            yield item, source, line


def _cases(source: ImportSource, run: LazyObject, reading: ImportState) -> Iterator[tuple[int, LazyObject]]:
    """Return the cases of a test run."""
    name = next((name for name in (_CONVERSATIONS if reading.wants_turns else _RUNS) if name in run), None)
    for place, text in listed(source, run.part(name), name) if name else ():
        source.tally.read += 1
        try:
            yield place, LazyObject(text, "the test case")
        except RowRefused as problem:
            source.tally.refuse(str(problem), line=place)


def _run_of(source: ImportSource) -> LazyObject | None:
    if source.ending != ".json":
        return None
    # Whether it is a run is decided by its members: cases alone are a list, or lines.
    try:
        run = LazyObject(source.opened.buffer(), "the test run")
    except RowRefused:
        return None
    return run if any(name in run.names() for name in (*_RUNS, *_CONVERSATIONS)) else None


def _note_run(run: LazyObject, reading: ImportState) -> str:
    """Count what a test run has besides its cases; returns the model that it names, which answered in this run alone."""
    parameters = mapping(run.get("hyperparameters"))
    model = parameters.get("model")
    if not reading.wants_turns:
        for name in _CONVERSATIONS:
            reading.leave_out("conversational test case (--to conversation_v1 has them)", len(run.list(name)))
    for name in parameters:
        # Everything that was set for the run is named in the report, apart from the model, which is imported.
        reading.leave_out(f"hyperparameter {name}", int(name != "model" or not isinstance(model, str)))
    for name in ("prompts", "traces"):
        reading.leave_out(f"test run {name}", int(name in run))
    return model if isinstance(model, str) else ""


class _CaseIds:
    """Names of cases as ids, as long as no other question has the same name."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}

    def id_for(self, name: str, key: str) -> str:
        """Return the case's name, else the digest of its question; both where the name was given to another question."""
        # `test_case_0` is numbered by DeepEval, and another file has another case of that name.
        if not name or _NUMBERED.fullmatch(name):
            return f"deepeval:{key}"
        # The first question keeps the plain name; another one under it gets the digest too.
        return name if self._digests.setdefault(name, key) == key else f"{name}:{key}"


class _Case:
    """One golden or test case on its way to an item; its members are known in both spellings."""

    def __init__(self, case: LazyObject, reading: ImportState) -> None:
        self._reading = reading
        self._values: Row = {_SNAKE.sub("_", name).lower(): case.get(name) for name in case.names() if name in case}

    def item(self, naming: _CaseIds, *, dataset: str, candidate: str) -> ImportedItem:
        """Return the case as an item; raises RowRefused where it holds no question."""
        if "input" not in self._values and "turns" in self._values and self._reading.wants_turns:
            return self._conversation(naming, dataset=dataset, candidate=candidate)
        question = self._question(naming, dataset)
        answer = self._text("actual_output")
        for name in self._values:
            self._reading.leave_out(f"case.{name}", int(name not in _CARRIED | _OF_ANSWER))
        # A golden has neither answer nor metrics: it is a question.
        if not answer and "metrics_data" not in self._values:
            return ImportedItem(question=question)
        seconds = self._values.get("run_duration")
        # Its time is that of the metrics and not of the model, which would be a wrong latency.
        self._reading.leave_out("run_duration, which is of the metrics", int(seconds is not None))
        return ImportedItem(question=question, candidate=candidate, answer=self._answer(answer), marks=tuple(self._marks()))

    def _question(self, naming: _CaseIds, dataset: str) -> ImportedQuestion:
        if "input" not in self._values and {"turns", "scenario"} & set(self._values):
            raise RowRefused("a conversational case is not a question; --to conversation_v1 keeps its turns")
        prompt, expected, context = self._text("input"), self._text("expected_output"), self._texts("context")
        if not prompt.strip():
            raise RowRefused("input is empty")
        metadata = self._values.get("additional_metadata")
        tags = self._texts("tags")
        return ImportedQuestion(
            id=naming.id_for(self._text("name"), digest(prompt, expected, context)),
            dataset=dataset,
            prompt=prompt,
            context="\n\n".join(context),
            references=[expected] if expected.strip() else [],
            metadata={**(metadata if isinstance(metadata, dict) else {}), **({"tags": tags} if tags else {})},
        )

    def _conversation(self, naming: _CaseIds, *, dataset: str, candidate: str) -> ImportedItem:
        """Return a conversational case with the turns that were recorded."""
        recorded = mappings(self._values["turns"])
        said = [
            ImportedMessage(role=str(turn.get("role")), text=str(turn.get("content") or ""), calls=_calls(turn))
            for turn in recorded
        ]
        first = next((one.text for one in said if one.role == "user"), "")
        question = ImportedQuestion(id=naming.id_for(self._text("name"), digest(recorded)), dataset=dataset, prompt=first)
        return ImportedItem(question=question, candidate=candidate, turns=turns_of(said, self._reading), marks=tuple(self._marks()))

    def _text(self, name: str) -> str:
        value = self._values.get(name)
        if not isinstance(value, str | None):
            raise RowRefused(f"{name} is not text but {kind(value)}")
        return value or ""

    def _texts(self, name: str) -> list[str]:
        """Return a list of texts; tables and lines write it as one text."""
        value = self._values.get(name)
        listed = value.split(_BETWEEN) if isinstance(value, str) else value or []
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise RowRefused(f"{name} is not a list of texts")
        return [one for one in listed if one.strip()]

    def _answer(self, text: str) -> ImportedAnswer | None:
        if not text:
            return None
        counts = [amount(self._values.get(name)) for name in ("input_token_count", "output_token_count")]
        return ImportedAnswer(text=text, usage=Usage(*(None if count is None else int(count) for count in counts)))

    def _marks(self) -> Iterator[ImportedScore]:
        given = self._values.get("metrics_data")
        for metric in given if isinstance(given, list) else [] if given is None else [given]:
            if not isinstance(metric, dict) or not isinstance(metric.get("name"), str):
                self._reading.leave_out("metric without a name" if isinstance(metric, dict) else f"metric that is {kind(metric)}")
                continue
            for name, value in metric.items():
                self._reading.leave_out(f"metric.{name}", int(name not in _OF_METRIC and value not in _NOTHING))
            yield _mark(metric)


def _calls(turn: Row) -> tuple[ImportedToolCall, ...]:
    """Return the tools that a turn used, in either spelling."""
    used = mappings(turn.get("tools_called") or turn.get("toolsCalled"))
    return tuple(
        ImportedToolCall(
            name=str(call.get("name")),
            given=call.get("input_parameters") or call.get("inputParameters") or {},
            output=call.get("output"),
        )
        for call in used
    )


def _mark(metric: Row) -> ImportedScore:
    score, error = number(metric.get("score")), metric.get("error")
    # A score next to an error is not one of the answer.
    is_scored = score is not None and not error
    passed: Any = metric.get("success")
    return ImportedScore(
        scorer=metric["name"],
        value=score if is_scored else None,
        passed=passed if is_scored and isinstance(passed, bool) else None,
        explanation=metric["reason"] if isinstance(metric.get("reason"), str) else "",
        reason="" if is_scored else str(error or "the metric gave no score"),
        judge=str(metric.get("evaluationModel") or ""),
    )
