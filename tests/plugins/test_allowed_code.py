"""Callers who must not choose what a process runs: neither names nor functions reach it but those that are allowed."""

from pathlib import Path
from typing import Any

import pytest

import assay
from assay.engine.planning.request import PlanProblems
from tests.plugins.datasets import run_words

CALLED: list[str] = []


def spy(*_: object) -> str:
    """Notes that it was called."""
    CALLED.append("called")
    return "yes"


@pytest.mark.parametrize("option", ["grader", "policy", "model", "judge"])
@pytest.mark.parametrize("code", [(), ("os:getcwd",)])
def test_a_function_that_is_given_is_refused_like_a_name(tmp_path: Path, option: str, code: tuple[str, ...]) -> None:
    options: dict[str, Any] = {"model": "scripted/echo", "judge": "scripted/judge-any", option: spy}
    with pytest.raises(PlanProblems, match="code cannot be named here"):
        run_words(tmp_path, 1, code=code, **options)
    assert CALLED == []


@pytest.mark.parametrize("option", ["grader", "policy"])
def test_a_name_that_is_not_allowed_is_not_looked_for(tmp_path: Path, option: str) -> None:
    (tmp_path / "own.py").write_text("raise SystemExit('it was loaded')\n", encoding="utf-8")
    options: dict[str, Any] = {"model": "scripted/echo", "judge": "scripted/judge-any", option: f"{tmp_path}/own.py:spy"}
    with pytest.raises(PlanProblems, match="code cannot be named here"):
        run_words(tmp_path, 1, code=(), **options)


def test_a_function_whose_name_is_allowed_takes_part(tmp_path: Path) -> None:
    result = run_words(tmp_path, 1, model="scripted/echo", grader=is_empty, code=("tests.plugins.test_allowed_code:is_empty",))
    assert result.metrics["pass_rate"] == 0


def is_empty(_record: assay.Case, answer: str) -> bool:
    """Passes what says nothing."""
    return not answer
