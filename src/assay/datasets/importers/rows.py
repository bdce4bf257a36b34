"""Questions into a dataset of a contract; one that the contract does not take is told in the tally of its source."""

from array import array
from collections.abc import Iterator

import msgspec

from assay.core.case import ContractId
from assay.core.errors import UsageProblem
from assay.datasets.converters.batch_document import Naming, RecordDraft, batch_document
from assay.datasets.converters.canonical import Draft, Row, TaskType, finish
from assay.datasets.converters.columns import RowRefused
from assay.datasets.converters.report import Tally
from assay.datasets.importers.intake import Intake
from assay.datasets.importers.items import Question

DATASETS: tuple[ContractId, ...] = ("legal_eval_v1", "batch_v1")
"""Contracts that questions are written in; the others are made from these."""
LEFT = -1
"""Stands for the row of a question that the dataset does not have."""


def fitting_contract(intake: Intake) -> ContractId:
    """legal_eval_v1, which keeps references, rubrics and choices; batch_v1 where some questions have none of them."""
    return "batch_v1" if any(question.is_open for question in intake.questions()) else "legal_eval_v1"


class DatasetRows:
    """The lines of a dataset, and which of them each question became."""

    def __init__(self, intake: Intake, contract: ContractId, *, name: str) -> None:
        """Raises UsageProblem for a contract that questions cannot be written in."""
        if contract not in DATASETS:
            raise UsageProblem(f"questions cannot be written as {contract} at once", hint=f"possible: {', '.join(DATASETS)}")
        self.contract = contract
        self.numbers = array("q")
        """The row of each question, from 0; LEFT where it has none. Complete when all lines were taken."""
        self._intake = intake
        self.name = name

    def lines(self) -> Iterator[bytes]:
        """The dataset as the lines of a file; raises UsageProblem where no valid dataset is possible."""
        self.numbers = array("q")
        if self.contract == "legal_eval_v1":
            return self._rows()
        return iter([self._document()])

    @property
    def count(self) -> int:
        """How many rows were written."""
        return sum(number != LEFT for number in self.numbers)

    def _rows(self) -> Iterator[bytes]:
        written = 0
        for record, question in enumerate(self._intake.questions()):
            try:
                row = finish(_draft(question))
            except RowRefused as problem:
                self._refuse(record, question.id, str(problem))
                continue
            self.numbers.append(written)
            written += 1
            yield msgspec.json.encode(row) + b"\n"

    def _document(self) -> bytes:
        """One document; what is moved inside it is a remark of its own tally, what is refused costs the question."""
        tally = Tally(self.name)
        questions = [question.id for question in self._intake.questions()]
        document = batch_document(map(_record, self._intake.questions()), tally, dataset=self.name, naming=Naming())
        places = {record["record_id"]: place for place, record in enumerate(document["records"])}
        reasons = {remark.record_id: remark.reason for remark in tally.remarks if remark.action == "invalid"}
        for record, question_id in enumerate(questions):
            if question_id in places:
                self.numbers.append(places[question_id])
            else:
                self._refuse(record, question_id, reasons.get(question_id, "batch_v1 does not take it"))
        if self._intake:
            self._intake.origin(0).remarks += [remark for remark in tally.remarks if remark.action != "invalid"]
        return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"

    def _refuse(self, record: int, question_id: str, reason: str) -> None:
        self.numbers.append(LEFT)
        tally, uses = self._intake.origin(record), self._intake.uses(record)
        tally.emitted -= uses
        tally.refuse(reason, record_id=question_id)
        tally.invalid += uses - 1


def _draft(question: Question) -> Draft:
    if question.is_open:
        raise RowRefused("nothing says what a good answer is: no reference, rubric or choices; batch_v1 takes it (--to batch_v1)")
    task: TaskType = "mcq" if question.choices else "rubric_qa" if question.rubric else "reference_qa"
    return Draft(
        id=question.id,
        dataset=question.dataset,
        task_type=task,
        prompt=question.prompt,
        context=question.context,
        metadata=question.metadata,
        messages=question.messages,
        rubric=question.rubric,
        reference_answers=[] if task == "mcq" else question.references,
        choices=question.choices,
        correct_choice_ids=question.correct_choice_ids,
    )


def _record(question: Question) -> RecordDraft:
    for_model: Row = {"context": question.context, "messages": question.messages, "choices": question.choices}
    others = question.references if len(question.references) > 1 else []
    for_judge: Row = {"rubric": question.rubric, "answers": others, "correct_choice_ids": question.correct_choice_ids}
    answer = {"answer": question.references[0]} if question.references else {}
    return RecordDraft(
        record_id=question.id,
        input={"prompt": question.prompt, "dataset": question.dataset, **_filled(for_model)},
        reference={**answer, **_filled(for_judge)},
        metadata=question.metadata,
    )


def _filled(members: Row) -> Row:
    return {name: value for name, value in members.items() if value}
