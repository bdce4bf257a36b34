"""Layouts of well-known tools and datasets, named so that a report says what a table was recognised as."""

from collections.abc import Mapping, Sequence
from typing import Any

from assay.datasets.tables.column_names import folded

_LAYOUTS: tuple[tuple[str, frozenset[str], frozenset[str]], ...] = (
    ("Alpaca", frozenset(("instruction", "input", "output")), frozenset(("prompt", "reference"))),
    ("Dolly", frozenset(("instruction", "context", "response")), frozenset(("prompt", "reference"))),
    ("instruction and response", frozenset(("instruction",)), frozenset(("prompt", "reference"))),
    ("prompt/completion", frozenset(("prompt", "completion")), frozenset(("prompt", "reference"))),
    ("ShareGPT", frozenset(("conversations",)), frozenset(("messages",))),
    ("OpenAI Evals samples", frozenset(("input", "ideal")), frozenset(("messages",))),
    ("chat messages", frozenset(("messages",)), frozenset(("messages",))),
    ("ragas", frozenset(("user_input", "reference")), frozenset(("prompt", "reference"))),
    ("ragas", frozenset(("question", "ground_truth", "contexts")), frozenset(("prompt", "reference"))),
    ("MLflow", frozenset(("inputs", "expectations")), frozenset(("prompt",))),
    ("LangSmith", frozenset(("inputs", "outputs")), frozenset(("prompt", "reference"))),
    ("Langfuse", frozenset(("input", "expected_output", "source_trace_id")), frozenset(("prompt", "reference"))),
    ("DeepEval goldens", frozenset(("input", "expected_output", "actual_output")), frozenset(("prompt", "reference"))),
    ("pydantic-evals", frozenset(("inputs", "expected_output")), frozenset(("prompt", "reference"))),
    ("Braintrust", frozenset(("input", "expected")), frozenset(("prompt", "reference"))),
    ("Inspect samples", frozenset(("input", "target")), frozenset(("prompt", "reference"))),
    ("Inspect samples", frozenset(("input", "target", "choices")), frozenset(("prompt", "choices"))),
    ("SQuAD", frozenset(("question", "context", "answers")), frozenset(("prompt", "reference", "context"))),
    ("BoolQ", frozenset(("question", "passage", "answer")), frozenset(("prompt", "reference", "context"))),
    ("LEXam", frozenset(("question", "choices", "gold")), frozenset(("prompt", "choices"))),
    ("MMLU", frozenset(("question", "choices", "answer")), frozenset(("prompt", "choices"))),
    ("MMLU", frozenset(("question", "a", "b", "c", "d", "answer")), frozenset(("prompt", "choices"))),
)
"""Name of each layout, folded names of columns that it must have, and the roles that they must have got."""


def layout_of(columns: Sequence[str], top: Sequence[str], roles: Mapping[str, Any]) -> str:
    """Return the known layout of columns by their names; a plain question with an answer or choices where none fits."""
    present = {folded(column) for column in (*columns, *top)}
    fitting = [(len(needed), name) for name, needed, filled in _LAYOUTS if needed <= present and filled <= roles.keys()]
    if fitting:
        # The layout with the most columns is the most specific one; the first of equals.
        return max(fitting, key=lambda entry: entry[0])[1]
    if "choices" in roles:
        return "multiple choice"
    return "question/rubric" if "rubric" in roles else "question/answer" if "reference" in roles else "questions"
