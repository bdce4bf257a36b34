"""Hosted evals of OpenAI, as its API exports them: the eval, its runs, and output items with answers and grades."""

import re
from collections.abc import Iterator, Mapping

from assay.core.model_call import Usage
from assay.datasets.converters.rows import Row, RowRefused, digest
from assay.datasets.imports.items import ImportedAnswer, ImportedItem, ImportedQuestion, ImportedScore, ImportSource, ImportState
from assay.datasets.parsing.source import filled_lines
from assay.integrations.importers.json_values import LazyObject, listed, mapping, mappings, number, seconds, tokens
from assay.integrations.importers.messages import ImportedPrompt, asked, content_text
from assay.integrations.importers.promptfoo_asserts import AnswerRequirements, Found, Requirements, fill

STATUS = "status"
"""Scorer that says whether an item passed all its criteria, as OpenAI counts it."""
_OUTPUT = re.compile(r"\s*\{\{\s*sample\.output_text\s*\}\}\s*")
_OUTPUT_MEMBER = re.compile(r"\s*\{\{\s*sample\.output_json\.([\w.\[\]]+)\s*\}\}\s*")
_SAMPLE = re.compile(r"\{\{\s*sample\.[\w.]+\s*\}\}")
_MEASURES = {"fuzzy_match": "edit", "bleu": "bleu", "gleu": "bleu", "meteor": "token_f1"}
_INSTEAD = {"gleu": "BLEU", "meteor": "the F1 of words"}
_PARAMETERS = {"temperature": "temperature", "top_p": "top_p", "max_completion_tokens": "max_tokens", "seed": "seed"}


def read_openai_evals_api(sources: list[ImportSource], reading: ImportState) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    """Yield the output items of all files; without any, the items that runs hold themselves."""
    reading.tool = "openai hosted evals"
    export = _Export(sources, reading)
    count = 0
    for source, line, item in export.output_items():
        count += 1
        try:
            yield export.item(item), source, line
        except RowRefused as problem:
            source.tally.refuse(str(problem), line=line)
    if not count:
        yield from export.questions()


class _Export:
    """All objects of an export: evals and runs by id, and the places of the output items."""

    def __init__(self, sources: list[ImportSource], reading: ImportState) -> None:
        self._sources = sources
        self._reading = reading
        self._evals: dict[str, Row] = {}
        self._runs: dict[str, tuple[ImportSource, Row]] = {}
        self._read_definitions()

    def _read_definitions(self) -> None:
        for source in self._sources:
            for _, part in _parts(source, self._reading):
                if part.get("object") == "eval" or "testing_criteria" in part:
                    self._evals[part.text("id")] = {name: part.get(name) for name in part.names()}
                elif part.get("object") == "eval.run":
                    self._runs[part.text("id")] = (source, {name: part.get(name) for name in part.names()})
        for run_id, (_, run) in self._runs.items():
            if run.get("status") not in (None, "completed"):
                self._reading.incomplete.append(f"the run {run_id} has the status {run['status']}")

    def output_items(self) -> Iterator[tuple[ImportSource, int, LazyObject]]:
        """Yield every output item with its place."""
        for source in self._sources:
            for line, part in _parts(source, self._reading):
                if "datasource_item" in part:
                    source.tally.read += 1
                    yield source, line, part

    def item(self, item: LazyObject) -> ImportedItem:
        """Return an output item as an item; raises RowRefused where it holds no question."""
        sample, given = item.mapping("sample"), item.mapping("datasource_item")
        evaluation, (_, run) = self._eval_of(item.text("eval_id")), self._runs.get(item.text("run_id"), (None, {}))
        messages = sample.get("input") or _filled_messages(run, given, self._reading)
        question = self._question(messages, given, evaluation, eval_id=item.text("eval_id"))
        candidate = str(run.get("name") or sample.get("model") or run.get("model") or item.text("run_id") or "unknown model")
        parameters = {name: sample[theirs] for theirs, name in _PARAMETERS.items() if sample.get(theirs) is not None}
        self._reading.note_parameters(candidate, parameters)
        error = mapping(sample.get("error"))
        return ImportedItem(
            question=question,
            candidate=candidate,
            answer=self._answer(sample),
            marks=() if error else tuple(_marks(item)),
            error_code=str(error.get("code") or "sample_error") if error else "",
            error=str(error.get("message") or "the sample was not generated") if error else "",
            started_at=seconds(item.get("created_at")),
        )

    def questions(self) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
        """Yield the items that runs hold themselves, without answers; a definition alone is an absence."""
        for run_id, (source, run) in self._runs.items():
            data = mapping(mapping(run.get("data_source")).get("source"))
            content = mappings(data.get("content"))
            if not content:
                where = f"in the file {data['id']}" if data.get("id") else "not in it"
                hint = f"fetch its output items: GET /v1/evals/{run.get('eval_id')}/runs/{run_id}/output_items"
                self._reading.note_absence(source, f"is a run whose items are {where}", hint=hint)
            for line, one in enumerate(content, 1):
                source.tally.read += 1
                given = mapping(one.get("item", one))
                try:
                    messages = mapping(one.get("sample")).get("input") or _filled_messages(run, given, self._reading)
                    eval_id = str(run.get("eval_id") or "")
                    yield (
                        ImportedItem(question=self._question(messages, given, self._eval_of(eval_id), eval_id=eval_id)),
                        source,
                        line,
                    )
                except RowRefused as problem:
                    source.tally.refuse(str(problem), line=line)
        if not self._runs:
            for source in self._sources:
                hint = "fetch its runs, and the output items of a run: GET /v1/evals/ID/runs, GET /v1/evals/ID/runs/ID/output_items"
                criteria = sum(len(mappings(one.get("testing_criteria"))) for one in self._evals.values())
                self._reading.note_absence(
                    source, f"is the definition of an eval with {criteria} testing criteria, without items", hint=hint
                )

    def _eval_of(self, eval_id: str) -> Row:
        """Return the eval of an item: by its id, or the only one that was given."""
        only = next(iter(self._evals.values())) if len(self._evals) == 1 else {}
        return self._evals.get(eval_id, only)

    def _question(self, messages: object, given: Row, evaluation: Row, *, eval_id: str) -> ImportedQuestion:
        prompt: ImportedPrompt = asked(messages, self._reading, names_media=True)
        demanded = testing_demands(evaluation.get("testing_criteria"), given, self._reading)
        key = digest(prompt.prompt, prompt.messages, demanded.references, demanded.rubric, demanded.checks)
        return ImportedQuestion(
            id=f"openai-evals:{key}",
            dataset=str(evaluation.get("name") or eval_id or "openai evals"),
            prompt=prompt.prompt,
            messages=prompt.messages,
            references=demanded.references,
            rubric=demanded.rubric,
            checks=demanded.checks,
            metadata={"item": given} if given else {},
        )

    def _answer(self, sample: Row) -> ImportedAnswer | None:
        said = [one for one in mappings(sample.get("output")) if one.get("role") in (None, "assistant")]
        texts = [content_text(one.get("content"), self._reading) for one in said]
        self._reading.leave_out("tool calls of an answer", sum(bool(one.get("tool_calls")) for one in said))
        text = "\n".join(filter(None, texts))
        if not text.strip():
            return None
        usage = mapping(sample.get("usage"))
        counts = [tokens(usage.get(name)) for name in ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens")]
        reason = str(sample.get("finish_reason") or "")
        return ImportedAnswer(text=text, model=str(sample.get("model") or ""), finish_reason=reason, usage=Usage(*counts))


def _parts(source: ImportSource, reading: ImportState) -> Iterator[tuple[int, LazyObject]]:
    """Yield the objects of a file: the only one, the lines, or the elements of a list, with or without its page around it."""
    if source.ending in (".jsonl", ".ndjson"):
        for row in filled_lines(source.opened):
            try:
                yield row.number, LazyObject(row.content, "the object")
            except RowRefused as problem:
                # Files are read twice, for definitions and for items, and a bad line counts once.
                if all(remark.line != row.number for remark in source.tally.remarks):
                    source.tally.read += 1
                    source.tally.refuse(str(problem), line=row.number)
        return
    document: LazyObject | None
    try:
        document = LazyObject(source.opened.buffer(), "the file")
    except RowRefused:
        document = None
    if document is not None and document.get("object") != "list":
        yield 1, document
        return
    if document is not None and document.get("has_more") is True:
        note = f"{source.path.name} is one page of several"
        if note not in reading.incomplete:
            reading.incomplete.append(note)
    text = source.opened.buffer() if document is None else document.part("data")
    for line, element in listed(source, text, "data"):
        yield line, LazyObject(element, "the object")


def _marks(item: LazyObject) -> Iterator[ImportedScore]:
    status = item.get("status")
    results = mappings(item.get("results"))
    failed = [str(result.get("name") or "criterion") for result in results if result.get("passed") is False]
    if status in ("pass", "fail"):
        is_passed = status == "pass"
        yield ImportedScore(scorer=STATUS, value=float(is_passed), passed=is_passed, explanation=", ".join(failed))
    for place, result in enumerate(results, 1):
        value = number(result.get("score"))
        passed: object = result.get("passed")
        yield ImportedScore(
            scorer=str(result.get("name") or f"criterion {place}"),
            value=value,
            passed=passed if isinstance(passed, bool) else None,
            reason="" if value is not None else "the grader gave no score",
            judge=str(mapping(result.get("sample")).get("model") or ""),
        )


def _filled_messages(run: Row, item: Row, reading: ImportState) -> list[Row]:
    """Return the messages of a run's template with the values of an item; raises RowRefused without a template."""
    given = mapping(mapping(run.get("data_source")).get("input_messages"))
    template = mappings(given.get("template"))
    if not template:
        raise RowRefused("the item has no input, and no run was given that has a template for it")
    return [
        {"role": one.get("role"), "content": fill(_template_text(one.get("content")), {"item": item}, reading)} for one in template
    ]


def _template_text(content: object) -> str:
    if isinstance(content, dict):
        return str(content.get("text") or "")
    return "\n".join(map(_template_text, content)) if isinstance(content, list) else content if isinstance(content, str) else ""


def testing_demands(criteria: object, item: Mapping[str, object], reading: ImportState) -> AnswerRequirements:
    """Return the checks and criteria of an eval for one item; those that run code are counted."""
    found = Requirements(reading)
    for criterion in mappings(criteria):
        kind = str(criterion.get("type"))
        demand = _demand(kind, criterion, item, reading)
        if demand is None:
            reading.leave_out(f"criterion {kind}")
        else:
            found.add(demand, weight=None, metric=str(criterion.get("name") or "") if demand.checks else "")
    return found.finish()


def _demand(kind: str, criterion: Row, item: Mapping[str, object], reading: ImportState) -> Found | None:
    """Return what a criterion becomes; None where it has no place in a dataset."""
    values = {"item": item}
    reference = fill(str(criterion.get("reference") or ""), values, reading)
    if kind == "string_check":
        return _string_check(criterion, reference)
    if kind == "text_similarity":
        return _similarity(criterion, reference, reading)
    if kind not in ("label_model", "score_model"):
        return None
    texts = [_template_text(message.get("content")) for message in mappings(criterion.get("input"))]
    # What the grader is told, with the answer left to the judge, who sees it anyway.
    told = fill(_SAMPLE.sub("the answer", "\n".join(texts)), values, reading).strip()
    if kind == "label_model":
        labels, passing = (", ".join(map(str, criterion.get(name) or ())) for name in ("labels", "passing_labels"))
        return Found(title=f"{told}\nThe right label is one of: {passing} (of {labels}).")
    reading.leave_out("pass_threshold of a judge", int(criterion.get("pass_threshold") is not None))
    return Found(title=told) if told else None


def _string_check(criterion: Row, reference: str) -> Found | None:
    given, operation = str(criterion.get("input") or ""), criterion.get("operation")
    member = _OUTPUT_MEMBER.fullmatch(given)
    if not reference or (not member and not _OUTPUT.fullmatch(given)):
        return None
    reversed_: Row = {"expected": False} if operation == "ne" else {}
    if operation in ("eq", "ne"):
        found: Row = {"type": "json-path", "path": f"$.{member[1]}"} if member else {"type": "equals"}
        return Found([{**found, "value": reference, **reversed_}])
    if operation in ("like", "ilike") and not member:
        return Found([{"type": "contains", "any": [reference], **({"ignore_case": True} if operation == "ilike" else {})}])
    return None


def _similarity(criterion: Row, reference: str, reading: ImportState) -> Found | None:
    metric, threshold = str(criterion.get("evaluation_metric")), number(criterion.get("pass_threshold"))
    if not reference or not _OUTPUT.fullmatch(str(criterion.get("input") or "")):
        return None
    if metric == "cosine":
        return Found(title=f'Means the same as "{reference}"', references=[reference])
    measure = "rouge_l" if metric.startswith("rouge") else _MEASURES.get(metric, "")
    if not measure or threshold is None:
        return None
    instead = _INSTEAD.get(metric, "ROUGE-L" if measure == "rouge_l" and metric != "rouge_l" else "")
    reading.leave_out(f"{metric}, compared by {instead} instead", int(bool(instead)))
    return Found([{"type": "similarity", "measure": measure, "at_least": min(1.0, max(0.0, threshold)), "value": reference}])
