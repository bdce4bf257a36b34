"""Results and configs of promptfoo into items: one for each prompt, test and provider of a result, questions of a config."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from assay.core.errors import SourceUnreadable
from assay.core.model_call import Usage
from assay.datasets.converters.rows import Row, RowRefused, kind
from assay.datasets.imports.items import ImportedAnswer, ImportedItem, ImportedScore, ImportSource, ImportState
from assay.datasets.parsing.strict_yaml import parse_yaml
from assay.integrations.importers.json_values import LazyObject, amount, listed, mapping, mappings, number, objects, seconds, tokens
from assay.integrations.importers.messages import asked
from assay.integrations.importers.promptfoo_asserts import demands
from assay.integrations.importers.promptfoo_config import question_of, read_config
from assay.integrations.importers.promptfoo_prompts import chat_or_text
from assay.integrations.importers.promptfoo_tests import test_metadata
from assay.integrations.importers.promptfoo_verdicts import first_line, without_verdict

SCORER = "score"
"""promptfoo's name for the weighted mean of a test's assertions."""
_YAML = frozenset({".yaml", ".yml"})
_LINES = frozenset({".jsonl", ".ndjson"})
_ERROR = 2
"""failureReason of a test that could not be evaluated; 1 is an assertion that failed."""
_RESULT = frozenset(
    {"id", "promptId", "promptIdx", "testIdx", "prompt", "provider", "testCase", "vars", "response", "score", "success", "error",
     "gradingResult", "latencyMs", "cost", "namedScores", "failureReason", "tokenUsage", "metadata", "description", "evalId",
     "providerResponse"}
)  # fmt: skip


def read_promptfoo(sources: list[ImportSource], reading: ImportState) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    """Return the items of results and the questions of configs."""
    reading.tool = "promptfoo"
    before = _EarlierResults()
    for source in sources:
        # A config in YAML may have merge keys, and results may be written as YAML too.
        written = _yaml(source) if source.ending in _YAML else None
        if written is not None and "results" not in written:
            yield from read_config(source, written, reading)
            continue
        if source.ending in _LINES:
            yield from _read_lines(source, reading=reading, before=before)
            continue
        document = _open_results(source) if written is None else LazyObject(msgspec.json.encode(written), "the file")
        if document.names() == {"data"}:
            # A result as it is shared.
            document = LazyObject(document.part("data"), "data")
        # Results have a member `results`; a config in JSON has not.
        if "results" in document:
            yield from _read_results(source, document, reading=reading, before=before)
        else:
            yield from read_config(source, {name: document.get(name) for name in document.names()}, reading)


def _yaml(source: ImportSource) -> Row:
    document = parse_yaml(bytes(source.opened.buffer()), has_merge_keys=True)
    # A key that is a number is read as a text, as it is in JSON; a key that is there twice would lose one of its values.
    flaw = next((flaw for flaw in document.flaws if flaw.fatal or flaw.kind == "duplicate_name"), None)
    if flaw or not isinstance(document.value, dict):
        reason = flaw.message if flaw else f"it is {kind(document.value)}"
        raise SourceUnreadable(f"'{source.name}' is not a promptfoo config: {reason}", hint="name the format: --from")
    return document.value


def _open_results(source: ImportSource) -> LazyObject:
    try:
        return LazyObject(source.opened.buffer(), "the file")
    except RowRefused as problem:
        raise SourceUnreadable(f"'{source.name}' cannot be read: {problem}", hint="name the format: --from") from problem


def _read_lines(
    source: ImportSource, *, reading: ImportState, before: "_EarlierResults"
) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    """Yield the items of results that were written as lines."""
    for line, members in objects(source, "the result"):
        yield from _read_result(source, members, line, reading=reading, before=before, run=_ResultRun(source))


def _read_results(
    source: ImportSource, document: LazyObject, *, reading: ImportState, before: "_EarlierResults"
) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    """Yield the items of results of format 1, whose results are a list of the document, or of a later format."""
    try:
        is_list = bytes(memoryview(document.part("results"))[:64]).lstrip().startswith(b"[")
        summary = document if is_list else LazyObject(document.part("results"), "results")
        results = summary.part("results")
        metadata, config = document.mapping("metadata"), document.mapping("config")
        created_at = str(summary.get("timestamp") or summary.get("createdAt") or "")
    except RowRefused as problem:
        raise SourceUnreadable(f"'{source.name}' holds no results of promptfoo: {problem}", hint="export them again") from problem
    reading.note_run(version=str(metadata.get("promptfooVersion") or ""), created_at=created_at)
    run = _ResultRun(source, dataset=str(config.get("description") or ""), started_at=seconds(created_at))
    for line, text in listed(source, results, "results.results"):
        source.tally.read += 1
        try:
            members = LazyObject(text, "the result")
        except RowRefused as problem:
            source.tally.refuse(str(problem), line=line)
            continue
        yield from _read_result(source, members, line, reading=reading, before=before, run=run)


class _ResultRun:
    """What all results of a file share."""

    def __init__(self, source: ImportSource, *, dataset: str = "", started_at: float | None = None) -> None:
        self.dataset = dataset or source.path.name.partition(".")[0]
        self.started_at = started_at


def _read_result(
    source: ImportSource,
    members: LazyObject,
    line: int,
    *,
    reading: ImportState,
    before: "_EarlierResults",
    run: _ResultRun,
) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    """Yield the item of a result, unless the same one came before."""
    try:
        item = _PromptfooResult(members, reading).item(run.dataset, started_at=run.started_at)
    except RowRefused as problem:
        source.tally.refuse(str(problem), line=line)
        return
    if before.has(item, members.get("id")):
        source.tally.skip("the same result came before", line=line, record_id=item.question.id)
        return
    # `--repeat` of promptfoo writes the same test several times: each is another answer to the same record.
    yield msgspec.structs.replace(item, sample=before.asked(item)), source, line


class _EarlierResults:
    """Results that were read before, in whichever file: each counts once."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str, str]] = set()
        self._asked: Counter[tuple[str, str]] = Counter()

    def has(self, item: ImportedItem, result_id: object) -> bool:
        """Return whether the result of that id came before; one without an id is always new."""
        key = (item.candidate, item.question.id, str(result_id))
        is_known = bool(result_id) and key in self._known
        # Added even if known, so that a third copy is found as well.
        self._known.add(key)
        return is_known

    def asked(self, item: ImportedItem) -> int:
        """Return the number of earlier answers to the same test: a repeated test is another answer to the same record."""
        key = (item.candidate, item.question.id)
        self._asked[key] += 1
        return self._asked[key] - 1


class _PromptfooResult:
    """One result on its way to an item."""

    def __init__(self, result: LazyObject, reading: ImportState) -> None:
        self._result = result
        self._reading = reading

    def item(self, dataset: str, *, started_at: float | None) -> ImportedItem:
        """Return the result as an item; raises RowRefused where it holds no question."""
        result = self._result
        test = result.mapping("testCase")
        variables = result.mapping("vars") or mapping(test.get("vars"))
        raw = result.mapping("prompt").get("raw")
        given = asked(chat_or_text(raw) if isinstance(raw, str) else raw, self._reading, names_media=True)
        demanded = demands(test.get("assert"), variables, self._reading)
        code, error = self._error()
        self._count_rest(test)
        return ImportedItem(
            question=question_of(given, demanded, dataset=dataset, metadata=test_metadata(test, variables)),
            candidate=self._candidate(),
            answer=self._answer(),
            marks=tuple(self._marks()),
            error_code=code,
            error=error,
            started_at=started_at,
            # The time of a failed call says nothing about the model.
            latency_ms=None if code else amount(result.get("latencyMs")),
        )

    def _candidate(self) -> str:
        provider = self._result.get("provider")
        named = provider if isinstance(provider, dict) else {"id": provider}
        return str(named.get("label") or named.get("id") or "unknown provider")

    def _answer(self) -> ImportedAnswer | None:
        response = self._result.get("response") or self._result.get("providerResponse")
        output = response.get("output") if isinstance(response, dict) else None
        if output is None:
            return None
        if not isinstance(output, str):
            self._reading.leave_out("output that is not a text, written as JSON")
        usage = mapping(self._result.get("tokenUsage")) or mapping(mapping(response).get("tokenUsage"))
        # promptfoo writes 0 where a provider has not counted.
        counts = [tokens(usage.get(name)) or None for name in ("prompt", "completion", "total", "cached")]
        return ImportedAnswer(
            text=output if isinstance(output, str) else msgspec.json.encode(output).decode(),
            usage=Usage(*counts),
            cost=amount(self._result.get("cost")) or None,
        )

    def _error(self) -> tuple[str, str]:
        """Return code and message where nothing was evaluated; a failed assertion is not an error, though listed as one."""
        error = self._result.get("error")
        if "gradingResult" not in self._result.names() and "success" in self._result.names():
            # Formats 1 and 2 have a verdict only.
            return ("result_error", first_line(error)) if error and self._answer() is None else ("", "")
        # A result without grading was not evaluated, regardless of what its `error` says: failed assertions are listed
        # there too.
        is_error = self._result.get("failureReason") == _ERROR or self._result.get("gradingResult") is None
        return ("result_error", first_line(error) or "the test was not evaluated") if is_error else ("", "")

    def _marks(self) -> Iterator[ImportedScore]:
        grading = self._result.mapping("gradingResult")
        value, reason = number(self._result.get("score")), str(grading.get("reason") or "")
        success = self._result.get("success")
        if "score" not in self._result.names() and isinstance(success, bool):
            # Results of format 1 have no score.
            value = float(success)
        components = mappings(grading.get("componentResults"))
        broken = list(without_verdict(components))
        thrown = broken[0][1] if broken else ""
        self._reading.leave_out("score of a check that came to no verdict", len(broken))
        if not components:
            self._reading.leave_out("test without assertions, which promptfoo counts as passed", int(bool(grading)))
        yield ImportedScore(
            # A check that broke leaves the test's score meaningless, since it is a weighted mean over all checks.
            scorer=SCORER,
            value=None if thrown else value,
            passed=success if isinstance(success, bool) and not thrown else None,
            explanation=_failed_checks(components) or reason,
            reason=thrown,
        )
        # Reversed, so that the first reason of a metric stays.
        lost = dict(reversed(broken))
        for name, one in mapping(self._result.get("namedScores")).items():
            yield ImportedScore(scorer=name, value=None if name in lost else number(one), reason=lost.get(name, ""))

    def _count_rest(self, test: Row) -> None:
        for name in self._result.names():
            self._reading.leave_out(f"result.{name}", int(name not in _RESULT and name in self._result))
        for name in ("options", "providerOutput", "threshold", "assertScoringFunction"):
            self._reading.leave_out(f"test.{name}", int(bool(test.get(name))))


def _failed_checks(components: list[Any]) -> str:
    """Return the failed checks of a test, or that all of them passed."""
    failed = [one for one in components if not one.get("pass")]
    lines = [f"{mapping(one.get('assertion')).get('type', 'check')}: {first_line(one.get('reason'))}" for one in failed]
    return "; ".join(lines)
