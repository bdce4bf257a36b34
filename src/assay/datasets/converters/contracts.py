"""Conversions between contracts, within the limits of the target, with a report of what was moved or dropped."""

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from assay.core.canonical import JsonObject
from assay.core.case import Case, Turn
from assay.core.checks import RECORD_CHECKS
from assay.core.contract import ContractId
from assay.core.errors import EmptyResult, UsageProblem
from assay.core.issue import path_text
from assay.core.open_fields import question_fields
from assay.datasets.batch_v1 import rules
from assay.datasets.converters.report import ConversionCounts, ConversionResult, summarize
from assay.datasets.converters.rows import Row, RowDraft, RowRefused, drop_empty, finish, json_bytes
from assay.datasets.golden_v1 import check_document
from assay.datasets.legal_eval_v1.rules import TASKS
from assay.datasets.parsing.checks import depth_of
from assay.datasets.parsing.config import ValidationConfig

OVERFLOW = "source_metadata"
"""Member of `reference`, an open object, that takes what does not fit into `metadata`."""
OTHER_TAGS = "source_tags"

_NOT_IN_DATASET_ID = re.compile(r"[^A-Za-z0-9_.-]+")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


class RecordDraft(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of one record before its size is measured."""

    record_id: str
    input: Row
    reference: Row = {}
    tags: tuple[str, ...] = ()
    metadata: Row = {}


class DocumentNaming(msgspec.Struct, frozen=True):
    """Id and version that the caller gives to the new document; None to take those of the cases."""

    dataset_id: str | None = None
    version: str | None = None


def batch_document(drafts: Iterable[RecordDraft], tally: ConversionCounts, *, dataset: str, naming: DocumentNaming) -> Row:
    """Build the document of all records that fit; raises UsageProblem where no valid document is possible."""
    document: Row = {
        "dataset_id": naming.dataset_id if naming.dataset_id is not None else _dataset_id(dataset, tally),
        "dataset_version": naming.version if naming.version is not None else _dataset_version(tally),
        "schema_version": "1.0",
        "records": list(_records(drafts, tally)),
    }
    _check_document(document, tally)
    return document


def with_origin(metadata: Row, **origin: str) -> Row:
    """Add the origin of a record to its metadata; members that it has already stay unchanged."""
    # The record's own members win: overwriting one would change data without a trace.
    named = {name if name not in metadata else f"source_{name}": value for name, value in origin.items() if value}
    return {**named, **metadata}


def _dataset_id(dataset: str, tally: ConversionCounts) -> str:
    # The only id that is ever rewritten, with a note: ids of records are kept verbatim.
    fitted = _NOT_IN_DATASET_ID.sub("_", dataset)[: rules.MAX_ID] or "dataset"
    if fitted != dataset:
        tally.note("changed", f"{dataset!r} became {fitted!r}: the contract allows A-Z a-z 0-9 _ - .", path="dataset_id")
    return fitted


def _dataset_version(tally: ConversionCounts) -> str:
    tally.note("changed", "no version found; using '1'", path="dataset_version")
    return "1"


def _records(drafts: Iterable[RecordDraft], tally: ConversionCounts) -> Iterator[Row]:
    seen: set[str] = set()
    for draft in drafts:
        if draft.record_id in seen:
            tally.skip("the id was used by an earlier record", record_id=draft.record_id)
            continue
        try:
            record = _record(draft, tally)
        except RowRefused as problem:
            tally.refuse(str(problem), record_id=draft.record_id)
            continue
        seen.add(draft.record_id)
        tally.emitted += 1
        yield record


def _record(draft: RecordDraft, tally: ConversionCounts) -> Row:
    tags, other_tags = _split_tags(draft.tags)
    metadata, overflow = _split_metadata(draft.metadata)
    reference = {**draft.reference, **drop_empty({OTHER_TAGS: other_tags, OVERFLOW: overflow})}
    members = {"reference": reference, "tags": tags, "metadata": metadata}
    record = {"record_id": draft.record_id, "input": draft.input, **drop_empty(members)}
    # Moved metadata counts towards the 256 KB of the record, and is the only part that may be dropped.
    dropped = _drop_overflow(record, overflow)
    # The contract's own rules decide, so that validation never rejects a converted record.
    checked = rules.CheckedRecord(record, ("records", 0), ValidationConfig())
    problems = [finding.message for finding in checked.found if finding.severity == "error"]
    if problems:
        raise RowRefused("; ".join(problems))
    _note_record_losses(draft, tally, moved=overflow, dropped=dropped)
    if other_tags:
        reason = f"{rules.MAX_TAGS} tags of 1 to {rules.MAX_TAG} characters are allowed; the rest is now in reference.{OTHER_TAGS}"
        tally.note("moved", reason, record_id=draft.record_id, path="tags")
    if not checked.is_normalized:
        tally.note("changed", "text was normalized to Unicode NFC", record_id=draft.record_id)
    normalized: Row = checked.value
    return normalized


def _split_tags(tags: tuple[str, ...]) -> tuple[list[str], list[str]]:
    fitting = [tag for tag in tags if 1 <= len(tag) <= rules.MAX_TAG and not _CONTROL.search(tag)][: rules.MAX_TAGS]
    return fitting, [tag for tag in tags if tag not in fitting]


def _split_metadata(metadata: Row) -> tuple[Row, Row]:
    """Split metadata into what fits into 8 KB and five levels, and the rest: too deep members first, then the largest."""
    inner = rules.MAX_METADATA_DEPTH - 1
    fitting = {name: value for name, value in metadata.items() if depth_of(value, inner) <= inner}
    # The largest members go first, so that as many as possible stay; published rows exceed the 8 KB of metadata. Checks go last:
    # elsewhere no run would find them.
    by_size = sorted(fitting, key=lambda name: (name != RECORD_CHECKS, _size(fitting[name])))
    while _size(fitting) > rules.MAX_RECORD_METADATA_BYTES:
        del fitting[by_size.pop()]
    return fitting, {name: value for name, value in metadata.items() if name not in fitting}


def _drop_overflow(record: Row, overflow: Row) -> list[str]:
    """Drop moved metadata until the record fits into 256 KB; returns the dropped names."""
    by_size = sorted(overflow, key=lambda name: _size(overflow[name]))
    dropped: list[str] = []
    while by_size and _size(record) > rules.MAX_RECORD_BYTES:
        dropped.append(by_size.pop())
        del overflow[dropped[-1]]
    if dropped and not overflow:
        del record["reference"][OVERFLOW]
    return dropped


def _note_record_losses(draft: RecordDraft, tally: ConversionCounts, *, moved: Iterable[str], dropped: Iterable[str]) -> None:
    limit = f"metadata is limited to {rules.MAX_RECORD_METADATA_BYTES:,} bytes and {rules.MAX_METADATA_DEPTH} levels"
    for name in moved:
        tally.note("moved", f"{limit}; now in reference.{OVERFLOW}", record_id=draft.record_id, path=f"metadata.{name}")
    for name in dropped:
        reason = f"{limit}, and a whole record to {rules.MAX_RECORD_BYTES:,} bytes"
        tally.note("dropped", reason, record_id=draft.record_id, path=f"metadata.{name}")


def _check_document(document: Row, tally: ConversionCounts) -> None:
    problems = [finding.message for finding in rules.check_head(document, ValidationConfig()) if finding.severity == "error"]
    if problems:
        raise UsageProblem(f"this cannot be a batch_v1 document: {'; '.join(problems)}", hint="give another dataset_id or version")
    count = len(document["records"])
    if not count:
        reason = next((remark.reason for remark in tally.remarks if remark.action == "invalid"), "there are no cases")
        raise EmptyResult(f"nothing could be converted to batch_v1: {reason}")
    if count > rules.MAX_RECORDS:
        raise UsageProblem(f"batch_v1 takes at most {rules.MAX_RECORDS:,} records, these are {count:,}", hint="split the dataset")
    if len(msgspec.json.encode(document)) > rules.MAX_PAYLOAD_BYTES:
        raise UsageProblem(f"batch_v1 takes at most {rules.MAX_PAYLOAD_BYTES:,} bytes", hint="split the dataset")


def _size(value: object) -> int:
    return len(json_bytes(value))


FIRST_VERSION = "1.0.0"
SHOWN_PROBLEMS = 10


def rubric_text(case: Case) -> str:
    """Return the text of a golden case's one holistic criterion."""
    criterion = case.criteria[0]
    return criterion.description or criterion.title


def shared_version(cases: tuple[Case, ...]) -> str | None:
    """Return the version that all cases carry in their metadata, as those of golden_v1 do."""
    versions = {case.metadata.get("version") if isinstance(case.metadata.get("version"), str) else None for case in cases}
    return versions.pop() if len(versions) == 1 else None


def golden_document(cases: tuple[Case, ...], tally: ConversionCounts, *, version: str | None) -> Row:
    """Build the golden_v1 document of all cases; raises UsageProblem with every reason if one of them does not fit."""
    tally.read = len(cases)
    found = version or shared_version(cases)
    document: Row = {"version": found or FIRST_VERSION, "cases": [_golden_case(case) for case in cases]}
    _check(document)
    if not found:
        tally.note("changed", f"no version found; using {FIRST_VERSION!r}", path="version")
    for case in cases:
        _note_golden_losses(case, tally, version=found)
    tally.emitted = len(cases)
    return document


def _golden_case(case: Case) -> Row:
    members = {
        "id": case.id,
        "user_prompt": _prompt(case),
        # golden_v1 cannot do without a rubric; where there is none its rules reject the document, with the reason.
        "rubric": case.extra.get("reference", {}).get("rubric"),
        "context": _notes(case),
        "tags": list(case.tags),
    }
    return {name: value for name, value in members.items() if value}


def _prompt(case: Case) -> str:
    """Build the prompt with the other fields that the candidate was sent: golden_v1 sends nothing else."""
    return "\n\n".join((case.prompt, *(f"{field.name}:\n{field.text}" for field in question_fields(case))))


def _notes(case: Case) -> str:
    notes = case.metadata.get("notes")
    return notes if isinstance(notes, str) else ""


def _check(document: Row) -> None:
    findings = [finding for finding in check_document(document, ValidationConfig()) if finding.severity == "error"]
    if findings:
        listed = [f"{path_text(finding.path)}: {finding.message}" for finding in findings[:SHOWN_PROBLEMS]]
        more = [f"and {len(findings) - SHOWN_PROBLEMS} more"] if len(findings) > SHOWN_PROBLEMS else []
        raise UsageProblem(
            f"these records cannot be golden_v1: {'; '.join(listed + more)}",
            hint="golden_v1 takes all cases or none; its rubric comes from reference.rubric",
        )


def _note_golden_losses(case: Case, tally: ConversionCounts, *, version: str | None) -> None:
    if _notes(case):
        tally.note("moved", "notes for people; now context", record_id=case.id, path="metadata.notes")
    shown = [f"input.{field.name}" for field in question_fields(case)]
    if shown:
        tally.note("moved", "golden_v1 has no field for it; now below the prompt", record_id=case.id, path=", ".join(shown))
    for path in _lost(case, version=version):
        tally.note("dropped", "golden_v1 has no field for it", record_id=case.id, path=path)


def _lost(case: Case, *, version: str | None) -> list[str]:
    kept = {
        "reference.rubric",
        *(f"input.{field.name}" for field in question_fields(case)),
        *(["metadata.notes"] if _notes(case) else []),
        *(["metadata.version"] if case.metadata.get("version") == version else []),
    }
    expected = {"max_latency_ms": case.max_latency_ms, "required_criteria": case.extra.get("required_criteria")}
    reference = {**({"answer": case.references} if case.references else {}), **case.extra.get("reference", {})}
    nested: dict[str, JsonObject] = {
        "input": case.extra.get("input", {}),
        "reference": reference,
        "expected": {name: value for name, value in expected.items() if value},
        "metadata": case.metadata,
    }
    paths = [f"{name}.{member}" for name, members in nested.items() for member in members]
    unknown = [name for name in case.extra if name not in ("input", "reference", "required_criteria")]
    return [path for path in [*paths, *unknown] if path not in kept]


ROLES = ("user", "assistant", "system")


def replay_drafts(case: Case, tally: ConversionCounts, *, dataset: str | None) -> Iterator[RowDraft]:
    """Yield a draft for each user turn that a reply follows; the others are reported."""
    name = conversation_name(case)
    _note_replay_losses(case, name, tally=tally)
    for position, turn in enumerate(case.turns):
        if turn.speaker != "user":
            continue
        replies = _replies(case.turns[position + 1 :])
        reference = next((reply.assistant_reply for reply in replies if reply.assistant_reply.strip()), "")
        row_id = f"{name}:turn-{turn.turn_id}"
        if not turn.message.strip() or not reference:
            reason = "the user says nothing" if reference else "no assistant reply follows before the next user turn or the end"
            tally.skip(reason, record_id=row_id, path=f"turn {turn.turn_id}")
            continue
        history = [message for earlier in case.turns[:position] for message in _message(earlier)]
        yield RowDraft(
            id=row_id,
            dataset=dataset or case.dataset or "conversation_v1",
            task_type="reference_qa",
            prompt=turn.message,
            metadata={**case.metadata, "conversation_id": name, **_turn_metadata(turn, replies)},
            messages=[*history, {"role": "user", "content": turn.message}],
            reference_answers=[reference],
        )


def conversation_name(case: Case) -> str:
    """Name a conversation by its content, since its id is its position in a file."""
    # Ids must not change when conversations are added or reordered.
    return f"conversation:{case.record_sha256[:16]}" if case.record_sha256 else case.id


def _replies(later: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Return the assistant's turns up to the next one of the user; tools are often called before the words come."""
    end = next((position for position, turn in enumerate(later) if turn.speaker == "user"), len(later))
    return tuple(turn for turn in later[:end] if turn.speaker == "assistant")


def _message(turn: Turn) -> list[Row]:
    text = turn.message if turn.speaker == "user" else turn.assistant_reply or turn.message
    return [{"role": turn.speaker, "content": text}] if turn.speaker in ROLES and text.strip() else []


def _turn_metadata(turn: Turn, replies: tuple[Turn, ...]) -> Row:
    actions = [_action(reply) for reply in replies]
    members = {"turn_metadata": turn.metadata, "reply_turns": [action for action in actions if len(action) > 1]}
    return {"turn_id": turn.turn_id, **{name: value for name, value in members.items() if value}}


def _action(reply: Turn) -> Row:
    """Return the turn's id and its members other than words."""
    tool = ("tool_used", "tool_input", "tool_output") if reply.tool_used is not None else ()
    members = {name: getattr(reply, name) for name in ("turn_id", *tool)}
    if reply.confidence_score is not None:
        members["confidence_score"] = reply.confidence_score
    return {**members, "metadata": reply.metadata} if reply.metadata else members


def _note_replay_losses(case: Case, name: str, *, tally: ConversionCounts) -> None:
    tools = [str(turn.turn_id) for turn in case.turns if turn.tool_used is not None]
    others = sorted({turn.speaker for turn in case.turns} - set(ROLES))
    if tools:
        reason = (
            f"messages hold words only; the tools of turns {', '.join(tools)} are in metadata.reply_turns of the question before"
        )
        tally.note("moved", reason, record_id=name, path="tool_used, tool_input, tool_output")
    if others:
        reason = f"messages know {', '.join(ROLES)} only; turns of {', '.join(others)} are left out"
        tally.note("dropped", reason, record_id=name, path="speaker")


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
    """Convert cases of contract `source` to the form of `target`, with a report of everything lost or moved.

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
        "attachments": [drop_empty(msgspec.to_builtins(attachment)) for attachment in case.attachments],
        "choices": [msgspec.to_builtins(choice) for choice in case.choices],
    }
    for_judge: Row = {
        "rubric": [_criterion(msgspec.to_builtins(criterion)) for criterion in case.criteria],
        "answers": list(case.references) if len(case.references) > 1 else [],
        "correct_choice_ids": list(case.correct_choice_ids),
    }
    _note_moved(case, tally, names=[*drop_empty(for_model), *drop_empty(for_judge)])
    return RecordDraft(
        record_id=case.id,
        input={"prompt": case.prompt, **drop_empty(for_model)},
        reference=drop_empty({"answer": case.references[0] if case.references else "", **for_judge}),
        metadata=with_origin(_with_extra(case, tally), dataset=case.dataset, task_type=_TASK_TYPES[case.task]),
    )


def _note_moved(case: Case, tally: ConversionCounts, *, names: list[str]) -> None:
    if names:
        reason = "batch_v1 has no field for it; now in input or reference, which are open"
        if "attachments" in names:
            reason += "; a batch_v1 run sends the names of attachments, not the files"
        tally.note("moved", reason, record_id=case.id, path=", ".join(names))


def _with_extra(case: Case, tally: ConversionCounts) -> Row:
    """Merge unknown members of the row into the metadata."""
    for name in case.extra:
        clash = name in case.metadata
        reason = "metadata has a member of the same name" if clash else "it has no field of its own; now in metadata"
        tally.note("dropped" if clash else "moved", reason, record_id=case.id, path=name)
    return {**case.extra, **case.metadata}


def _golden_to_batch(cases: tuple[Case, ...], tally: ConversionCounts, *, naming: DocumentNaming) -> Row:
    tally.read = len(cases)
    drafts = (_golden_record(case, tally) for case in cases)
    named = DocumentNaming(naming.dataset_id, naming.version or shared_version(cases))
    return batch_document(drafts, tally, dataset=_shared_dataset(cases, "golden_v1"), naming=named)


def _golden_record(case: Case, tally: ConversionCounts) -> RecordDraft:
    tally.note("moved", "batch_v1 has no field for it; now reference.rubric", record_id=case.id, path="rubric")
    if case.notes:
        tally.note("moved", "notes are for people; now metadata.notes", record_id=case.id, path="context")
    metadata = {**_with_extra(case, tally), **drop_empty({"notes": case.notes})}
    return RecordDraft(
        record_id=case.id,
        input={"prompt": case.prompt},
        reference={"rubric": rubric_text(case)},
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
        metadata={**_with_extra(case, tally), **drop_empty({"notes": case.notes, "tags": list(case.tags)})},
        rubric=[{"id": "rubric", "title": rubric_text(case)}],
    )


def _batch_to_golden(cases: tuple[Case, ...], tally: ConversionCounts, *, naming: DocumentNaming) -> Row:
    return golden_document(cases, tally, version=naming.version)


def _batch_to_legal(cases: tuple[Case, ...], tally: ConversionCounts, *, naming: DocumentNaming) -> tuple[Row, ...]:
    return _legal_rows(cases, tally, draft_of=lambda case: _batch_draft(case, tally, naming=naming))


def _batch_draft(case: Case, tally: ConversionCounts, *, naming: DocumentNaming) -> RowDraft:
    """Build a row whose candidate and judge see what those of the record do, as far as legal_eval_v1 has a field for it."""
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
    expected = drop_empty({"max_latency_ms": case.max_latency_ms, "required_criteria": case.extra.get("required_criteria", [])})
    kept = drop_empty({"tags": list(case.tags), "expected": expected, "input": inputs, "reference": reference, **others})
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
        metadata={**case.metadata, **drop_empty({"batch_v1": kept})},
    )


def _graded(case: Case, inputs: Row, reference: Row) -> RowDraft | None:
    """Build the row by the way it can be graded; removes what it takes from `inputs` and `reference`."""
    # What an earlier conversion from legal_eval_v1 wrote is read back, so that the way there and back gives the same row.
    answers = reference["answers"] if _are_texts(reference.get("answers")) else [text for text in case.references if text.strip()]
    draft = RowDraft(id=case.id, dataset="", task_type="reference_qa", prompt=case.prompt)
    choices, correct, rubric = inputs.get("choices"), reference.get("correct_choice_ids"), reference.get("rubric")
    # Choices first: a row with correct choices is graded by them alone, and never by a judge.
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
    drafts = (draft for case in cases for draft in replay_drafts(case, tally, dataset=naming.dataset_id))
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
    """Drop the weight of 1, which is the default."""
    return {name: value for name, value in criterion.items() if value != "" and (name, value) != ("weight", 1.0)}


PAIRS: dict[tuple[str, str], Callable[..., Row | tuple[Row, ...]]] = {
    ("legal_eval_v1", "batch_v1"): _legal_to_batch,
    ("golden_v1", "batch_v1"): _golden_to_batch,
    ("golden_v1", "legal_eval_v1"): _golden_to_legal,
    ("batch_v1", "golden_v1"): _batch_to_golden,
    ("batch_v1", "legal_eval_v1"): _batch_to_legal,
    ("conversation_v1", "legal_eval_v1"): _conversation_to_legal,
}
"""Conversions by pair of contracts."""
