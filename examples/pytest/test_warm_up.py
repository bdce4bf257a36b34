"""Records of a dataset as tests: `pytest examples/pytest`. One of them fails, to show what that looks like."""

from typing import Any

import pytest

LAW = "../legal_eval_v1/warm-up.jsonl"


def answer(prompt: str) -> str:
    """The function under test; yours would ask a model, a chain or an agent."""
    return "A" if any(word in prompt for word in ("court", "Rent", "witness")) else "B"


@pytest.mark.assay(LAW, model=answer)
def test_every_question(assay_case: Any) -> None:
    """Passes for each question that was answered right, in one letter."""
    assert len(assay_case.answer) == 1


@pytest.mark.assay(LAW, model=answer, pass_rate=0.8)
def test_enough_questions() -> None:
    """A question may be answered wrong here; the gate is about all of them."""


def test_the_rate(assay_run: Any) -> None:
    """The whole run, to assert on its figures."""
    run = assay_run(LAW, model=answer)
    assert run.pass_rate.low >= 0.4
