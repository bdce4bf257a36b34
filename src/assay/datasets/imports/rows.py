"""Questions as a dataset of a contract; rejected questions are reported in the counts of their source."""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator

import msgspec

from assay.core.canonical import pretty_json
from assay.core.checks import RECORD_CHECKS
from assay.core.contract import ContractId
from assay.core.errors import EmptyResult, UsageProblem
from assay.core.issue import path_text
from assay.datasets.conversation_v1.rules import check_conversation
from assay.datasets.converters.contracts import DocumentNaming, RecordDraft, batch_document, with_origin
from assay.datasets.converters.report import ConversionCounts, ConversionNote
from assay.datasets.converters.rows import Row, RowDraft, RowRefused, TaskType, drop_empty, finish
from assay.datasets.golden_v1 import check_document
from assay.datasets.imports.import_buffer import ImportBuffer
from assay.datasets.imports.items import ImportedQuestion
from assay.datasets.parsing.config import ValidationConfig

LEFT = -1
"""Row number of a question that the dataset does not have."""


def fitting_contract(intake: ImportBuffer) -> ContractId:
    """Choose legal_eval_v1, which has references, rubrics and choices; batch_v1 if some questions have none of them."""
    return "batch_v1" if any(question.is_open for question in intake.questions()) else "legal_eval_v1"


class DatasetRows:
    """Lines of a dataset, with the row number of each question."""

    def __init__(self, intake: ImportBuffer, contract: ContractId, *, name: str) -> None:
        self.contract = contract
        self.name = name
        self.count = 0
        """Number of rows written; complete, like the numbers, when all lines were taken."""
        self.numbers = array("q")
        """Row of each question, from 0; LEFT if it has none. Conversations are not rows of questions."""
        self.absence = ""
        """Reason why the contract has no row, where the questions are not the reason."""
        self._intake = intake

    def lines(self) -> Iterator[bytes]:
        """Yield the dataset as the lines of a file, none without a record; raises UsageProblem where golden_v1 refuses it."""
        self.numbers, self.count = array("q"), 0
        if not self._intake:
            return iter(())
        writers: dict[ContractId, Callable[[], Iterator[bytes]]] = {
            "legal_eval_v1": self._rows,
            "batch_v1": self._document,
            "golden_v1": self._golden,
            "conversation_v1": self._conversations,
        }
        return writers[self.contract]()

    def _rows(self) -> Iterator[bytes]:
        for record, question in enumerate(self._intake.questions()):
            try:
                row = finish(_draft(question))
            except RowRefused as problem:
                self._refuse(record, question.id, str(problem))
                continue
            self.numbers.append(self.count)
            self.count += 1
            yield msgspec.json.encode(row) + b"\n"

    def _document(self) -> Iterator[bytes]:
        """Yield one document; what is moved inside it is a note of its own counts, what is rejected costs the question."""
        tally = ConversionCounts(self.name)
        questions = [question.id for question in self._intake.questions()]
        try:
            document = batch_document(map(_record, self._intake.questions()), tally, dataset=self.name, naming=DocumentNaming())
        except EmptyResult:
            document = {"records": []}
        # Rejected questions leave no gap in the document, so rows are numbered by what it finally holds.
        places = {record["record_id"]: place for place, record in enumerate(document["records"])}
        reasons = {remark.record_id: remark.reason for remark in tally.remarks if remark.action == "invalid"}
        for record, question_id in enumerate(questions):
            if question_id in places:
                self.numbers.append(places[question_id])
            else:
                self._refuse(record, question_id, reasons.get(question_id, "batch_v1 does not take it"))
        self.count = len(places)
        self._keep(remark for remark in tally.remarks if remark.action != "invalid")
        if self.count:
            yield pretty_json(document)

    def _golden(self) -> Iterator[bytes]:
        tally = ConversionCounts(self.name)
        document = golden_document(self._intake.questions(), tally)
        self.count = len(document["cases"])
        self._keep(tally.remarks)
        yield pretty_json(document)

    def _conversations(self) -> Iterator[bytes]:
        """Yield a line for each valid conversation of any candidate."""
        self.absence = "" if self._intake.candidates else "no conversation, only questions; leave --to out"
        for item in self._intake.all_items():
            errors = [found for found in check_conversation(item.turns, ValidationConfig()) if found.severity == "error"]
            if errors:
                self._intake.origin(0).refuse(errors[0].message, record_id=item.question.id)
                self._intake.origin(0).emitted -= 1
                continue
            self.count += 1
            yield msgspec.json.encode(item.turns) + b"\n"

    def _keep(self, remarks: Iterable[ConversionNote]) -> None:
        if self._intake:
            self._intake.origin(0).remarks += remarks

    def _refuse(self, record: int, question_id: str, reason: str) -> None:
        self.numbers.append(LEFT)
        tally, uses = self._intake.origin(record), self._intake.uses(record)
        tally.emitted -= uses
        tally.refuse(reason, record_id=question_id)
        # One question may have many answers, and with it all of them are lost.
        tally.invalid += uses - 1


def _draft(question: ImportedQuestion) -> RowDraft:
    if question.is_open:
        raise RowRefused("nothing says what a good answer is: no reference, rubric or choices; batch_v1 takes it (--to batch_v1)")
    task: TaskType = "mcq" if question.choices else "rubric_qa" if question.rubric else "reference_qa"
    return RowDraft(
        id=question.id,
        dataset=question.dataset,
        task_type=task,
        prompt=question.prompt,
        context=question.context,
        metadata=_metadata(question),
        messages=question.messages,
        rubric=question.rubric,
        reference_answers=[] if task == "mcq" else question.references,
        choices=question.choices,
        correct_choice_ids=question.correct_choice_ids,
    )


def _record(question: ImportedQuestion) -> RecordDraft:
    for_model: Row = {"context": question.context, "messages": question.messages, "choices": question.choices}
    others = question.references if len(question.references) > 1 else []
    for_judge: Row = {"rubric": question.rubric, "answers": others, "correct_choice_ids": question.correct_choice_ids}
    answer = {"answer": question.references[0]} if question.references else {}
    return RecordDraft(
        record_id=question.id,
        input={"prompt": question.prompt, **drop_empty(for_model)},
        reference={**answer, **drop_empty(for_judge)},
        metadata=with_origin(_metadata(question), dataset=question.dataset),
    )


def _metadata(question: ImportedQuestion) -> Row:
    """Return the metadata with the checks, which a run reads from there; a member of that name gets another one."""
    if not question.checks:
        return question.metadata
    renamed = {f"source_{name}" if name == RECORD_CHECKS else name: value for name, value in question.metadata.items()}
    return {**renamed, RECORD_CHECKS: question.checks}


FIRST_VERSION = "1.0.0"
SHOWN_PROBLEMS = 5
_NOT_IN_ID = re.compile(r"[^a-z0-9-]+")


def golden_document(questions: Iterable[ImportedQuestion], tally: ConversionCounts) -> Row:
    """Build the document of all questions; raises UsageProblem if one does not fit, because golden_v1 takes all or none."""
    document: Row = {"version": FIRST_VERSION, "cases": [_case(question, tally) for question in questions]}
    errors = [finding for finding in check_document(document, ValidationConfig()) if finding.severity == "error"]
    if errors:
        listed = "; ".join(f"{path_text(finding.path)}: {finding.message}" for finding in errors[:SHOWN_PROBLEMS])
        more = f"; and {len(errors) - SHOWN_PROBLEMS:,} more" if len(errors) > SHOWN_PROBLEMS else ""
        raise UsageProblem(f"these questions cannot be golden_v1: {listed}{more}", hint="leave --to out for a contract that fits")
    return document


def _case(question: ImportedQuestion, tally: ConversionCounts) -> Row:
    case_id = _NOT_IN_ID.sub("-", question.id.lower()).strip("-")
    if case_id != question.id:
        tally.note("changed", f"the id became {case_id!r}: golden_v1 allows a-z 0-9 -", record_id=question.id, path="id")
    lost = [name for name in ("context", "messages", "metadata", "checks") if getattr(question, name)]
    if lost:
        tally.note("dropped", "golden_v1 has no field for it", record_id=question.id, path=", ".join(lost))
    return {"id": case_id, "user_prompt": question.prompt, "rubric": _rubric(question)}


def _rubric(question: ImportedQuestion) -> str:
    """Describe a good answer in words; empty if nothing does, which the contract rejects."""
    if question.choices:
        right = [choice for choice in question.choices if choice["id"] in question.correct_choice_ids]
        return "The answer chooses " + " and ".join(f"{choice['id']} ({choice['text']})" for choice in right) + "."
    criteria = [str(criterion["title"]) for criterion in question.rubric]
    references = [f"The answer says the same as: {' / '.join(question.references)}"] if question.references else []
    return "\n".join([*criteria, *references])
