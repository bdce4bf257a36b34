"""Files in which one value is not what it should be: each is refused in words or costs itself, and none is a crash."""

import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.errors import AssayError
from tests.integrations.importers.bringing import FIXTURES

VALUES = [None, "x", [1], {"a": 1}, True, -1e300, [], [None], {}, ""]
CASES = [
    ("inspect", "capitals.json", ()),
    ("promptfoo", "promptfoo_results.json", ()),
    ("deepeval", "deepeval_test_run.json", ()),
    ("lm-eval", "lm_eval_results.json", ("samples_tiny_chosen.jsonl",)),
    ("lm-eval", "samples_tiny_chosen.jsonl", ()),
    ("lm-eval", "samples_tiny_generated.jsonl", ()),
    ("openai-evals", "evals_samples.jsonl", ()),
    ("openai-batch", "batch_output.jsonl", ("batch_input.jsonl",)),
    ("openai-batch", "batch_input.jsonl", ("batch_output.jsonl",)),
]

Steps = tuple[str | int, ...]


def steps_in(value: Any, steps: Steps = ()) -> Iterator[Steps]:
    """The way to every value, of lists only to the first two."""
    yield steps
    members = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for name, member in members:
        yield from steps_in(member, (*steps, name))


def changed(value: Any, steps: Steps, new: Any) -> Any:
    """A copy with another value at one place."""
    if not steps:
        return new
    copy = value.copy()
    copy[steps[0]] = changed(value[steps[0]], steps[1:], new)
    return copy


def imported(form: api.ImportFormat, paths: list[Path]) -> str:
    """What becomes of files: the records in them, or the words they are refused with."""
    try:
        found = api.import_files([str(path) for path in paths], form)
        rows = found.dataset()
        size = sum(map(len, rows.lines()))
        report = found.report(rows)
        return f"{report.records} records in {size} bytes, {sum(report.candidates.values())} answers, {len(report.remarks)} remarks"
    except AssayError as problem:
        return problem.message


@pytest.mark.parametrize(("form", "name", "others"), CASES, ids=[name for _, name, _ in CASES])
def test_a_value_of_the_wrong_shape_is_never_a_crash(form: api.ImportFormat, name: str, others: tuple[str, ...]) -> None:
    first, *rest = (FIXTURES / name).read_text().splitlines() if name.endswith("l") else [(FIXTURES / name).read_text()]
    whole = json.loads(first.replace("NaN", "null"))
    new = cycle(VALUES)
    told = set()
    for steps in steps_in(whole):
        Path(name).write_text("\n".join([json.dumps(changed(whole, steps, next(new))), *rest]))
        told.add(imported(form, [Path(name), *(FIXTURES / other for other in others)]))
    assert "" not in told
    assert len(told) > 1
