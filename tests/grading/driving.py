"""Cases, settings and replies for tests of grading: a flow is driven by what its asks are answered with."""

from collections.abc import Callable

import msgspec

from assay.core.case import Case, Choice, Criterion
from assay.core.model_call import ModelRequest, Reply
from assay.core.outcome import Grade
from assay.grading import GradingSettings, start

SETTINGS = GradingSettings(candidate="model", judges=("judge",), system_prompt="", pass_threshold=0.7, case_pass_score=4)
GOOD = '{"score": 4, "justification": "Right, a little long."}'

Answering = Callable[[ModelRequest], str]


def golden_case(**changes: object) -> Case:
    rubric = (Criterion("rubric", "Says that the answer is 4."),)
    return _case(contract="golden_v1", task="rubric", criteria=rubric, **changes)


def batch_case(**changes: object) -> Case:
    return _case(contract="batch_v1", task="open", **changes)


def conversation_case() -> Case:
    return _case(contract="conversation_v1", task="conversation")


def rubric_case(**changes: object) -> Case:
    return _case(contract="legal_eval_v1", task="rubric", **changes)


def reference_case(**changes: object) -> Case:
    return _case(contract="legal_eval_v1", task="reference", **{"references": ("Four.",), **changes})


def mcq_case(correct: tuple[str, ...] = ("B",), **changes: object) -> Case:
    choices = (Choice("A", "Paris"), Choice("B", "London"), Choice("C", "Rome"), Choice("D", "Bern"))
    return _case(contract="legal_eval_v1", task="mcq", **{"choices": choices, "correct_choice_ids": correct, **changes})


def replaced(case: Case, **changes: object) -> Case:
    return msgspec.structs.replace(case, **changes)


def _case(**fields: object) -> Case:
    given = {"id": "case-1", "index": 0, "dataset": "sums", "prompt": "What is 2+2?", "record_sha256": "ab" * 32, **fields}
    return Case(**given)  # type: ignore[arg-type]  # each test passes what its case needs


class Driven:
    """A flow at its end: its grade and everything that it asked for."""

    def __init__(self, grade: Grade, rounds: list[tuple[ModelRequest, ...]]) -> None:
        self.grade = grade
        self.rounds = rounds
        self.asks = {ask.call_id: ask for asks in rounds for ask in asks}


def drive(case: Case, answering: Answering, *, settings: GradingSettings = SETTINGS, **texts: dict[str, str]) -> Driven:
    """Runs a case's flow; every ask is answered by the function. Raises GradingFailure where the flow does."""
    flow = start(case, settings, **texts)
    rounds = [next(flow)]
    while True:
        try:
            rounds.append(flow.send(tuple(Reply(text=answering(ask)) for ask in rounds[-1])))
        except StopIteration as end:
            return Driven(end.value, rounds)


def judged(verdict: str | list[str], *, answer: str = "The answer is 4.") -> Answering:
    """A candidate that always gives this answer, and judges that always say this, or say these one after the other."""
    said = iter(verdict) if isinstance(verdict, list) else None
    return lambda ask: answer if ask.stage == "candidate" else next(said) if said else str(verdict)
