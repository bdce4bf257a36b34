"""Cases of one contract into rows or a document of another; every lossy step becomes a remark."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from assay.core.case import Case
from assay.core.contract import ContractId
from assay.core.errors import UsageProblem
from assay.core.open_fields import question_fields
from assay.datasets.converters import golden_document, replay
from assay.datasets.converters.batch_document import DocumentNaming, RecordDraft, batch_document, with_origin
from assay.datasets.converters.canonical import Row, RowDraft, filled, finish
from assay.datasets.converters.columns import RowRefused
from assay.datasets.converters.report import ConversionCounts, ConversionResult, summarize
from assay.datasets.legal_eval_v1.rules import TASKS

_TASK_TYPES = {task: task_type for task_type, task in TASKS.items()}


def convert_cases(
    cases: Iterable[Case],
    *,
    source: ContractId,
    target: ContractId,
    dataset_id: str | None = None,
    version: str | None = None,
    name: str | None = None,
) -> ConversionResult:
    """The cases of contract `source` in the form of `target`, and a report of everything lost or moved on the way.

    legal_eval_v1 comes back as `rows`, batch_v1 and golden_v1 as one `document`, named and versioned as the
    caller says; `name` is what the report calls the source. Raises UsageProblem for a pair that makes no sense
    and where no valid document is possible.
    """
    convert = PAIRS.get((source, target))
    if convert is None:
        known = ", ".join(f"{before} -> {after}" for before, after in PAIRS)
        raise UsageProblem(f"there is no conversion from {source} to {target}", hint=f"possible: {known}")
    tally = ConversionCounts(name or source)
    outcome = convert(tuple(cases), tally, naming=DocumentNaming(dataset_id, version))
    report = summarize(source, target, tallies=[tally])
    if isinstance(outcome, dict):
        return ConversionResult(document=outcome, report=report)
    return ConversionResult(rows=outcome, report=report)


def _legal_to_batch(cases: tuple[Case, ...], tally: ConversionCounts, *, naming: DocumentNaming) -> Row:
    tally.read = len(cases)
    drafts = (_legal_record(case, tally) for case in cases)
    return batch_document(drafts, tally, dataset=_shared_dataset(cases, "legal_eval_v1"), naming=naming)


def _legal_record(case: Case, tally: ConversionCounts) -> RecordDraft:
    for_model: Row = {
        "context": case.model_context,
        "messages": [msgspec.to_builtins(message) for message in case.messages],
        "attachments": [filled(msgspec.to_builtins(attachment)) for attachment in case.attachments],
        "choices": [msgspec.to_builtins(choice) for choice in case.choices],
    }
    for_judge: Row = {
        "rubric": [_criterion(msgspec.to_builtins(criterion)) for criterion in case.criteria],
        "answers": list(case.references) if len(case.references) > 1 else [],
        "correct_choice_ids": list(case.correct_choice_ids),
    }
    _note_moved(case, tally, names=[*filled(for_model), *filled(for_judge)])
    return RecordDraft(
        record_id=case.id,
        input={"prompt": case.prompt, **filled(for_model)},
        reference=filled({"answer": case.references[0] if case.references else "", **for_judge}),
        metadata=with_origin(_with_extra(case, tally), dataset=case.dataset, task_type=_TASK_TYPES[case.task]),
    )


def _note_moved(case: Case, tally: ConversionCounts, *, names: list[str]) -> None:
    if names:
        reason = "batch_v1 has no field for it; now in input or reference, which are open"
        if "attachments" in names:
            reason += "; a batch_v1 run sends the names of attachments, not the files"
        tally.note("moved", reason, record_id=case.id, path=", ".join(names))


def _with_extra(case: Case, tally: ConversionCounts) -> Row:
    """The metadata, with unknown members of the row beside it."""
    for name in case.extra:
        clash = name in case.metadata
        reason = "metadata has a member of the same name" if clash else "it has no field of its own; now in metadata"
        tally.note("dropped" if clash else "moved", reason, record_id=case.id, path=name)
    return {**case.extra, **case.metadata}


def _golden_to_batch(cases: tuple[Case, ...], tally: ConversionCounts, *, naming: DocumentNaming) -> Row:
    tally.read = len(cases)
    drafts = (_golden_record(case, tally) for case in cases)
    named = DocumentNaming(naming.dataset_id, naming.version or golden_document.shared_version(cases))
    return batch_document(drafts, tally, dataset=_shared_dataset(cases, "golden_v1"), naming=named)


def _golden_record(case: Case, tally: ConversionCounts) -> RecordDraft:
    tally.note("moved", "batch_v1 has no field for it; now reference.rubric", record_id=case.id, path="rubric")
    if case.notes:
        tally.note("moved", "notes are for people; now metadata.notes", record_id=case.id, path="context")
    metadata = {**_with_extra(case, tally), **filled({"notes": case.notes})}
    return RecordDraft(
        record_id=case.id,
        input={"prompt": case.prompt},
        reference={"rubric": golden_document.rubric_text(case)},
        tags=case.tags,
        metadata=metadata,
    )


def _golden_to_legal(cases: tuple[Case, ...], tally: ConversionCounts, *, naming: DocumentNaming) -> tuple[Row, ...]:
    tally.note("changed", "one holistic criterion, judged 0 to 1; golden_v1 judges the same text 1 to 5", path="rubric")
    return _legal_rows(cases, tally, draft_of=lambda case: _golden_draft(case, tally, naming=naming))


def _golden_draft(case: Case, tally: ConversionCounts, *, naming: DocumentNaming) -> RowDraft:
    for path, value in (("context", case.notes), ("tags", case.tags)):
        if value:
            reason = f"legal_eval_v1 has no field for it; now metadata.{'notes' if path == 'context' else path}"
            tally.note("moved", reason, record_id=case.id, path=path)
    return RowDraft(
        id=case.id,
        dataset=naming.dataset_id or case.dataset or "golden_v1",
        task_type="rubric_qa",
        prompt=case.prompt,
        metadata={**_with_extra(case, tally), **filled({"notes": case.notes, "tags": list(case.tags)})},
        rubric=[{"id": "rubric", "title": golden_document.rubric_text(case)}],
    )


def _batch_to_golden(cases: tuple[Case, ...], tally: ConversionCounts, *, naming: DocumentNaming) -> Row:
    return golden_document.golden_document(cases, tally, version=naming.version)


def _batch_to_legal(cases: tuple[Case, ...], tally: ConversionCounts, *, naming: DocumentNaming) -> tuple[Row, ...]:
    return _legal_rows(cases, tally, draft_of=lambda case: _batch_draft(case, tally, naming=naming))


def _batch_draft(case: Case, tally: ConversionCounts, *, naming: DocumentNaming) -> RowDraft:
    """A row whose candidate and judge see what those of the record do, as far as legal_eval_v1 has a place for it."""
    inputs, reference = dict(case.extra.get("input", {})), dict(case.extra.get("reference", {}))
    graded = _graded(case, inputs, reference)
    if graded is None:
        raise RowRefused(
            "there is no reference.answer, reference.rubric or correct choice, and legal_eval_v1 has no task without one of them"
        )
    if case.messages:
        del inputs["messages"]
    fields = [field for field in question_fields(case) if field.name in inputs]
    context = "\n\n".join(field.text if field.name == "context" else f"{field.name}:\n{field.text}" for field in fields)
    if isinstance(inputs.get("context"), str):
        del inputs["context"]
    others = {name: value for name, value in case.extra.items() if name not in ("input", "reference", "required_criteria")}
    expected = filled({"max_latency_ms": case.max_latency_ms, "required_criteria": case.extra.get("required_criteria", [])})
    kept = filled({"tags": list(case.tags), "expected": expected, "input": inputs, "reference": reference, **others})
    for name in kept:
        reason = "legal_eval_v1 has no field for it; now in metadata.batch_v1, which no model sees"
        if name == "input" and context:
            reason += "; what belongs to the question is in context too"
        tally.note("moved", reason, record_id=case.id, path=name)
    return msgspec.structs.replace(
        graded,
        dataset=naming.dataset_id or case.dataset or "batch_v1",
        context=context,
        messages=[msgspec.to_builtins(message) for message in case.messages],
        metadata={**case.metadata, **filled({"batch_v1": kept})},
    )


def _graded(case: Case, inputs: Row, reference: Row) -> RowDraft | None:
    """The row by what it can be graded with; what it takes of `inputs` and `reference` is removed from them."""
    answers = reference["answers"] if _are_texts(reference.get("answers")) else [text for text in case.references if text.strip()]
    draft = RowDraft(id=case.id, dataset="", task_type="reference_qa", prompt=case.prompt)
    choices, correct, rubric = inputs.get("choices"), reference.get("correct_choice_ids"), reference.get("rubric")
    if _are_objects(choices, {"id", "text"}) and _are_texts(correct):
        del inputs["choices"], reference["correct_choice_ids"]
        if answers:
            reference["answer"] = case.references[0] if case.references else answers[0]
        return msgspec.structs.replace(draft, task_type="mcq", choices=choices, correct_choice_ids=correct)
    if answers:
        reference.pop("answers", None)
    if (isinstance(rubric, str) and rubric.strip()) or _are_objects(rubric, {"id", "title"}):
        del reference["rubric"]
        criteria = [{"id": "rubric", "title": rubric}] if isinstance(rubric, str) else rubric
        return msgspec.structs.replace(draft, task_type="rubric_qa", rubric=criteria, reference_answers=answers)
    return msgspec.structs.replace(draft, reference_answers=answers) if answers else None


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) and text.strip() for text in value)


def _are_objects(value: object, members: set[str]) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(part, dict) and members <= part.keys() for part in value)


def _conversation_to_legal(cases: tuple[Case, ...], tally: ConversionCounts, *, naming: DocumentNaming) -> tuple[Row, ...]:
    tally.read = len(cases)
    drafts = (draft for case in cases for draft in replay.replay_drafts(case, tally, dataset=naming.dataset_id))
    return tuple(_finished(drafts, tally))


def _legal_rows(cases: tuple[Case, ...], tally: ConversionCounts, *, draft_of: Callable[[Case], RowDraft]) -> tuple[Row, ...]:
    tally.read = len(cases)
    return tuple(_finished(_drafts(cases, tally, draft_of=draft_of), tally))


def _drafts(cases: Iterable[Case], tally: ConversionCounts, *, draft_of: Callable[[Case], RowDraft]) -> Iterator[RowDraft]:
    for case in cases:
        try:
            draft = draft_of(case)
        except RowRefused as problem:
            tally.refuse(str(problem), record_id=case.id)
        else:
            yield draft


def _finished(drafts: Iterable[RowDraft], tally: ConversionCounts) -> Iterator[Row]:
    seen: set[str] = set()
    for draft in drafts:
        if draft.id in seen:
            tally.skip("the id was used by an earlier row", record_id=draft.id)
            continue
        try:
            row = finish(draft)
        except RowRefused as problem:
            tally.refuse(str(problem), record_id=draft.id)
            continue
        seen.add(draft.id)
        tally.emitted += 1
        yield row


def _shared_dataset(cases: tuple[Case, ...], fallback: str) -> str:
    names = {case.dataset for case in cases}
    return names.pop() if len(names) == 1 and all(names) else fallback


def _criterion(criterion: Row) -> Row:
    """An absent weight means 1, so 1 is not written."""
    return {name: value for name, value in criterion.items() if value != "" and (name, value) != ("weight", 1.0)}


PAIRS: dict[tuple[str, str], Callable[..., Row | tuple[Row, ...]]] = {
    ("legal_eval_v1", "batch_v1"): _legal_to_batch,
    ("golden_v1", "batch_v1"): _golden_to_batch,
    ("golden_v1", "legal_eval_v1"): _golden_to_legal,
    ("batch_v1", "golden_v1"): _batch_to_golden,
    ("batch_v1", "legal_eval_v1"): _batch_to_legal,
    ("conversation_v1", "legal_eval_v1"): _conversation_to_legal,
}
"""Every pair of contracts that has a conversion."""
