"""Hosted evals of OpenAI as its API exports them: evals, runs and output items, in every combination of files."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import assay
from tests.integrations.importers.bringing import brought, predictions_of, run_of

CRITERIA: list[dict[str, Any]] = [
    {"type": "string_check", "name": "exact", "input": "{{ sample.output_text }}",
     "operation": "eq", "reference": "{{item.label}}"},
    {"type": "text_similarity", "name": "near", "input": "{{sample.output_text}}", "evaluation_metric": "fuzzy_match",
     "pass_threshold": 0.8, "reference": "{{item.label}}"},
    {"type": "label_model", "name": "tone", "model": "gpt-6-sol", "labels": ["kind", "rude"], "passing_labels": ["kind"],
     "input": [{"role": "developer", "content": "Label {{sample.output_text}} to {{item.ticket}}."}]},
    {"type": "python", "name": "code", "source": "def grade(sample, item): return 1.0"},
]  # fmt: skip
EVAL = {"object": "eval", "id": "eval_1", "name": "Tickets", "created_at": 1, "testing_criteria": CRITERIA,
        "data_source_config": {"type": "custom", "schema": {}}}  # fmt: skip
TEMPLATE = {"type": "template", "template": [
    {"type": "message", "role": "developer", "content": {"type": "input_text", "text": "Sort tickets."}},
    {"type": "message", "role": "user", "content": {"type": "input_text", "text": "{{item.ticket}}"}},
]}  # fmt: skip
ITEM = {"ticket": "My monitor is dark", "label": "Hardware"}


def run(**members: Any) -> dict[str, Any]:
    source = {"type": "file_content", "content": [{"item": ITEM}]}
    data = {"type": "completions", "source": source, "input_messages": TEMPLATE, "model": "gpt-6-luna"}
    return {"object": "eval.run", "id": "run_1", "eval_id": "eval_1", "name": "first", "model": "gpt-6-luna", "status": "completed",
            "data_source": data, **members}  # fmt: skip


def output_item(number: int = 1, **members: Any) -> dict[str, Any]:
    sample = {
        "input": [{"role": "developer", "content": "Sort tickets."}, {"role": "user", "content": f"{ITEM['ticket']} {number}"}],
        "output": [{"role": "assistant", "content": "Hardware"}],
        "finish_reason": "stop", "model": "gpt-6-luna-1", "error": None, "temperature": 0.5, "seed": 42,
        "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10, "cached_tokens": 0},
    }  # fmt: skip
    results = [{"name": "exact", "passed": True, "score": 1.0, "sample": None}, {"name": "tone", "passed": False, "score": 0.0}]
    return {"object": "eval.run.output_item", "id": f"item_{number}", "created_at": 1, "run_id": "run_1", "eval_id": "eval_1",
            "status": "fail", "datasource_item_id": number, "datasource_item": ITEM, "results": results, "sample": sample,
            **members}  # fmt: skip


def written(name: str, *values: Any) -> Path:
    lines = name.endswith("l")
    Path(name).write_text("".join(json.dumps(value) + "\n" for value in values) if lines else json.dumps(values[0]))
    return Path(name).absolute()


def page(*items: Any, **members: Any) -> dict[str, Any]:
    return {"object": "list", "data": list(items), "has_more": False, **members}


FORMS = {
    "pages": lambda: [
        written("eval.json", EVAL),
        written("run.json", run()),
        written("items.json", page(output_item(), output_item(2))),
    ],
    "lines": lambda: [written("all.jsonl", EVAL, run(), output_item(), output_item(2))],
    "list": lambda: [written("items.json", [output_item(), output_item(2)]), written("eval.jsonl", EVAL, run())],
}


@pytest.mark.parametrize("form", FORMS)
def test_output_items_become_answers_with_the_grades_of_each_criterion(form: str) -> None:
    imported = run_of(*FORMS[form]())
    lines = list(predictions_of(imported).values())
    assert [(line["model_response"], line["score"], line["passed"]) for line in lines] == [("Hardware", 0.0, False)] * 2
    assert (lines[0]["input_tokens"], lines[0]["output_tokens"]) == (9, 1)
    assert imported.plan.imported.scorer == "status"
    assert imported.plan.imported.other_scorers == ("exact", "tone")
    assert (imported.result.candidate, imported.run_manifest.candidate.parameters.temperature) == ("first", 0.5)


@pytest.mark.parametrize("form", FORMS)
def test_criteria_become_checks_and_criteria_and_code_is_listed(form: str) -> None:
    report = brought(*FORMS[form](), options=("-o", "rows.jsonl"))["report"]
    row = json.loads(Path("rows.jsonl").read_text().splitlines()[0])
    assert row["metadata"] == {
        "item": ITEM,
        "checks": [
            {"name": "exact", "type": "equals", "value": "Hardware"},
            {"name": "near", "type": "similarity", "measure": "edit", "at_least": 0.8, "value": "Hardware"},
        ],
    }
    title = "Label the answer to My monitor is dark.\nThe right label is one of: kind (of kind, rude)."
    assert [criterion["title"] for criterion in row["rubric"]] == [title]
    assert report["left_out"] == {"criterion python": 2}
    assert report["totals"]["read"] == 2


def test_a_run_without_output_items_gives_the_questions_that_it_holds() -> None:
    brought(written("run.jsonl", EVAL, run()), options=("-o", "rows.jsonl"))
    row = json.loads(Path("rows.jsonl").read_text())
    assert row["messages"] == [{"role": "system", "content": "Sort tickets."}, {"role": "user", "content": ITEM["ticket"]}]


@pytest.mark.parametrize(
    ("criterion", "check"),
    [
        ({"operation": "ne"}, {"type": "equals", "value": "x", "expected": False}),
        ({"operation": "like"}, {"type": "contains", "any": ["x"]}),
        ({"operation": "ilike"}, {"type": "contains", "any": ["x"], "ignore_case": True}),
        ({"operation": "eq", "input": "{{sample.output_json.a.b}}"}, {"type": "json-path", "path": "$.a.b", "value": "x"}),
        ({"type": "text_similarity", "evaluation_metric": "rouge_l", "pass_threshold": 0.5},
         {"type": "similarity", "measure": "rouge_l", "at_least": 0.5, "value": "x"}),
    ],
)  # fmt: skip
def test_each_operation_has_its_check(criterion: dict[str, Any], check: dict[str, Any]) -> None:
    whole = {"type": "string_check", "input": "{{sample.output_text}}", "reference": "x", **criterion}
    brought(written("run.jsonl", {**EVAL, "testing_criteria": [whole]}, run()), options=("-o", "out.json"))
    [record] = json.loads(Path("out.json").read_text())["records"]
    assert record["metadata"]["checks"] == [check]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (EVAL, "is the definition of an eval with 4 testing criteria, without items"),
        (
            run(data_source={"type": "jsonl", "source": {"type": "file_id", "id": "file-9"}}),
            "is a run whose items are in the file file-9",
        ),
        (page(output_item(sample={})), "the item has no input, and no run was given that has a template for it"),
    ],
)
def test_an_export_without_questions_says_what_it_is(value: Any, reason: str) -> None:
    result = assay("import", str(written("export.json", value)), "-o", "out.json")
    assert (result.exit_code, Path("out.json").exists()) == (1, False)
    assert reason in result.stderr


def test_an_error_of_a_sample_is_no_score_and_unfinished_exports_say_so() -> None:
    failed = output_item(sample={**output_item()["sample"], "output": [], "error": {"code": "rate_limit", "message": "slow down"}})
    items = written("items.json", page(failed, has_more=True))
    imported = run_of(written("run.json", run(status="canceled")), items)
    [line] = predictions_of(imported).values()
    assert (line["score"], line["error_code"], line["error_message"]) == (None, "rate_limit", "slow down")
    assert imported.plan.imported.incomplete == ("items.json is one page of several", "the run run_1 has the status canceled")
